"""Orders of one's own: what they say is looked at, and by value they are what they are by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.leases.rules import DelayScheduling
from apportion.mechanism.orders import LeastRemainingTime


class Keys(ap.Order):
    def __init__(self, said: Any) -> None:
        self.said = said

    def keys(self, now_s: float, waiting: Any) -> Any:
        return self.said(waiting.job.size)


class Turns(ap.Order):
    def __init__(self, said: Any) -> None:
        self.said = said

    def turn(self, job: Any) -> Any:
        return self.said(job)


@pytest.mark.parametrize(
    "said",
    [
        lambda jobs: None,
        lambda jobs: 3,
        lambda jobs: (),
        lambda jobs: np.zeros(jobs),
        lambda jobs: (np.full(jobs, math.nan),),
        lambda jobs: (np.zeros(jobs + 1),),
        lambda jobs: (np.array(["a"] * jobs),),
    ],
)
def test_keys_that_are_none_are_refused(said: Any) -> None:
    with pytest.raises(InputError, match=r"The order .* has the keys"):
        leased(Keys(said))


@pytest.mark.parametrize("said", [None, 3, (1,), (1, 2, 3), (0.5, 1), (math.nan, 0), ("a", "b")])
def test_turns_that_are_none_are_refused(said: Any) -> None:
    with pytest.raises(InputError, match="says the turn"):
        leased(Turns(lambda job: said))


@pytest.mark.thorough
def test_the_same_order_by_name_and_by_value() -> None:
    jobs = ap.generate_contended_workload(seed=1, scale=0.0002)
    four = ap.Cluster({"v100": 64}, gpus_per_machine=4)
    mine = Turns(lambda job: (job.iteration_ns * job.gpus, 0))
    settings: dict[str, Any] = {"turns_count_transfers": False}
    by_name = ap.simulate("srsf_1", jobs, four, order="srsf", **settings)
    by_value = ap.simulate("srsf_1", jobs, four, order=mine, **settings)
    pd.testing.assert_frame_equal(by_value.jobs, by_name.jobs)


def leased(order: ap.Order) -> ap.Run:
    """Run more jobs than there are GPUs for in that order."""
    jobs = ap.generate_rack_workload(jobs=6, seed=1)
    one = ap.Cluster.of_racks(1, machines_per_rack=8)
    return ap.simulate(ap.OfferScheduler("mine", order=order), jobs, one)


class _Turning(ap.Order):
    """Turns that change with the time."""

    def keys(self, now_s: float, waiting: Any) -> Any:
        return (((waiting.job * 7 + int(now_s // 700.0)) % 5).astype(float),)


class _TurningBuiltIn(LeastRemainingTime):
    keys = _Turning.keys


class _Odd(DelayScheduling):
    """Jobs of odd numbers take anything at once."""

    def patience_s(self, waiting: Any) -> Any:
        return np.where(waiting.job[:, None] % 2, 0.0, np.array([0.0, 3000.0, 9000.0]))


class _OddByItself:
    rule, job_types, patience_s = "odd", (), _Odd.patience_s

    def check(self, job_type: str) -> None:
        """Judge any."""


@pytest.mark.parametrize(
    ("alone", "derived"),
    [
        ({"order": _Turning()}, {"order": _TurningBuiltIn()}),
        ({"rule": _OddByItself()}, {"rule": _Odd()}),
    ],
)
def test_what_is_said_anew_keeps_no_promise_of_a_built_in_part(
    alone: dict[str, Any], derived: dict[str, Any]
) -> None:
    jobs = ap.generate_rack_workload(jobs=25, seed=1)
    racks = ap.Cluster.of_racks(2, machines_per_rack=2)
    runs = [
        ap.simulate(ap.OfferScheduler("mine", **{"order": "fifo"} | parts), jobs, racks)
        for parts in (alone, derived)
    ]
    pd.testing.assert_frame_equal(runs[0].jobs, runs[1].jobs, check_exact=True)
