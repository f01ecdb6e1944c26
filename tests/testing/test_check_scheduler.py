"""The contract of schedulers, kept by all that there are, and broken in every way it can be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import cvxpy as cp
import numpy as np
import pytest
from tests.own_policies import FirstColumnFirst, Mine
from tests.seeds import sampled

import apportion as ap
from apportion.mechanism import gang_table
from apportion.mechanism.decider import Part
from apportion.policies import BUILT_IN
from apportion.sim.network import get_network
from apportion.testing.lone_gangs import best_overhead

if TYPE_CHECKING:
    from apportion.mechanism.leases import WaitingJobs
    from apportion.policies import Problem

SCHEDULERS = ap.scheduler_table("leases")["name"].tolist()
OTHERS = sorted(set(ap.scheduler_table()["name"]) - {*SCHEDULERS, "as_recorded"})  # of logs only
SINGLE_GPU = {"allox"}
ABOUT = import_module("apportion.sim.about")
# Many programs, or programs that take long; what they share with the others is tested with those.
SLOW = {"strategy_proof", "min_cost_slos", "nash_welfare", "min_cost", "proportional"}
SLOW |= {"hierarchical_fairness", "gandiva", "themis"}
SLOW |= {"dally_manual", "dally_fully_consolidated", "tiresias_continuous"}
SHARING = ["max_min_fairness_space_sharing", "makespan_space_sharing"]


def quick(names: list[str]) -> list[Any]:
    """Sample half of those that take no longer than others, and mark all others as slow."""
    some = [each for each in names if each not in SLOW][::2]
    slow = [pytest.param(each, marks=pytest.mark.slow) for each in names if each not in some]
    return [*sampled(some, 3), *slow]


@pytest.mark.thorough
@pytest.mark.parametrize("name", quick(SCHEDULERS))
def test_schedulers_keep_the_contract(name: str) -> None:
    ap.check_scheduler(name, n_jobs=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_schedulers_of_other_mechanisms_keep_the_contract(name: str) -> None:
    ap.check_scheduler(name, n_jobs=1)


@pytest.mark.parametrize("name", quick([*(policy.name for policy in BUILT_IN), *SHARING]))
def test_policies_keep_the_contract_in_rounds(name: str) -> None:
    ap.check_scheduler(name, gangs=name not in SINGLE_GPU, n_jobs=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("policy", BUILT_IN, ids=lambda policy: policy.name)
def test_agnostic_policies_keep_the_contract_in_rounds(policy: Any, seed: int) -> None:
    made = policy(heterogeneity_aware=False)
    ap.check_scheduler(made, gangs=made.name not in SINGLE_GPU, seed=seed, n_jobs=1)


@dataclass(frozen=True)
class Lazy(Mine):
    """Says that idle GPUs are lent, and hides jobs from the mechanism."""

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(cp.sum(p.X[0]))


@pytest.fixture
def types_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the types of a simulation in the order in which they are given."""
    monkeypatch.setattr(ABOUT, "present_types", lambda cluster: cluster)


def test_a_simulator_that_breaks_ties_by_rows_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ABOUT, "by_arrival_and_id", lambda workload: workload)
    with pytest.raises(AssertionError, match="not indifferent to"):
        ap.check_scheduler("fifo", n_jobs=1)


@pytest.mark.thorough
@pytest.mark.usefixtures("types_as_given")
def test_a_policy_that_prefers_the_first_type_is_caught() -> None:
    with pytest.raises(AssertionError, match="not indifferent to the order of types"):
        ap.check_scheduler(FirstColumnFirst(), n_jobs=1)


def test_a_mechanism_that_lends_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = (np.empty(0, dtype=int), np.empty(0, dtype=int))
    monkeypatch.setattr(gang_table.GangTable, "to_lend", lambda *_: nobody)
    with pytest.raises(AssertionError, match="waits for"):
        ap.check_scheduler(Lazy(), n_jobs=1)


@pytest.mark.usefixtures("types_as_given")
def test_a_mechanism_that_takes_the_first_type_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties of types go to the column that stands first."""

    def columns(speed: Any, ids: Any, place: Any) -> Any:
        return np.broadcast_to(np.arange(speed.shape[1]), speed.shape)

    monkeypatch.setattr(gang_table, "preferences", columns)
    with pytest.raises(AssertionError, match="not indifferent to the order of types"):
        ap.check_scheduler("max_min_fairness_agnostic", n_jobs=1)


@dataclass(frozen=True, repr=False)
class AtRandom(Part):
    """Serves jobs in an order that differs from run to run."""

    rule: ClassVar[str] = "at random"

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Any, ...]:
        return (np.random.default_rng().random(waiting.job.size),)


def test_a_scheduler_that_draws_is_caught() -> None:
    scheduler = replace(ap.get_scheduler("dally_no_wait"), order=AtRandom())
    with pytest.raises(AssertionError, match="not deterministic"):
        ap.check_scheduler(scheduler, n_jobs=1)


def test_the_least_overhead_is_that_of_few_machines_evenly_filled() -> None:
    cluster = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
    network = get_network("table1", cluster=cluster)
    for gpus, shape in ((1, ((1,),)), (4, ((4,),)), (16, ((4, 4), (4, 4)))):
        least = best_overhead(gpus, "VGG11", cluster, network)
        assert least == network.overhead("VGG11", shape)
    assert best_overhead(6, "VGG11", cluster, network) <= network.overhead("VGG11", ((3, 3),))
