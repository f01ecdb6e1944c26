"""Every part of the package keeps the contracts that parts of one's own are checked by."""

from __future__ import annotations

from typing import Any

import pytest

import apportion as ap
from apportion.mechanism.gates import GATES
from apportion.mechanism.placements import PLACEMENTS
from apportion.mechanisms import MECHANISMS
from apportion.sim.network.registry import NETWORKS
from apportion.testing import check_mechanism, check_network, check_scheduler

ON_LINKS = {"cassini", "cassini_by_gang"}


def all_but(names: Any, quick: str) -> list[Any]:
    """Mark all but one as slow, and that one as taking a second."""
    marks = {name: pytest.mark.thorough if name == quick else pytest.mark.slow for name in names}
    return [pytest.param(name, marks=mark) for name, mark in marks.items()]


@pytest.mark.parametrize("name", all_but(NETWORKS, "none"))
def test_networks(name: str) -> None:
    check_network(name, n_jobs=1)


@pytest.mark.parametrize("name", all_but(MECHANISMS, "queue"))
def test_mechanisms(name: str) -> None:
    check_mechanism(name, n_jobs=1)


@pytest.mark.parametrize("name", all_but(GATES, "ada_dual"))
def test_gates(name: str) -> None:
    check_scheduler("ada_srsf", gate=name, n_jobs=1)


@pytest.mark.parametrize("name", all_but(PLACEMENTS, "consolidated"))
@pytest.mark.parametrize("scheduler", ["isolated", "dally_no_wait"])
def test_placements(name: str, scheduler: str) -> None:
    on_links: dict[str, Any] = {"network": "cassini"} if name in ON_LINKS else {}
    check_scheduler(scheduler, placement=name, n_jobs=1, **on_links)


@pytest.mark.parametrize("name", all_but(ap.ORDERS, "srsf"))
def test_orders_of_turns(name: str) -> None:
    if not hasattr(ap.ORDERS[name], "turn"):
        pytest.skip("it has keys of waiting jobs only")
    check_scheduler("ada_srsf", order=name, n_jobs=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ap.ORDERS)
def test_orders_of_waiting_jobs(name: str) -> None:
    check_scheduler(ap.OfferScheduler("by_an_order", order=name), n_jobs=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sia", "pollux", "deepboot", "optimus", "lyra"])
def test_policies_of_elastic_jobs(name: str) -> None:
    check_scheduler(name, mechanism="configurations", n_jobs=1)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["fifo", "dally", "ada_srsf", "afs"])
def test_workers_have_the_same(name: str) -> None:
    check_scheduler(name, n_jobs=2)
