"""Nothing of a run under leases depends on the last digits of a float, or on the order of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

from apportion.cluster import Cluster
from apportion.mechanism.decider import Part
from apportion.mechanism.deciders import get_scheduler, scheduler_table
from apportion.sim import Workload, generate_rack_workload, resample, simulate
from apportion.ties import EXACT
from apportion.ties import ranks as ranks_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from apportion.mechanism.leases import WaitingJobs
    from apportion.mechanism.orders import Order

    Floats = NDArray[np.float64]

SCHEDULERS: list[str] = scheduler_table("leases")["name"].tolist()
CLUSTER = Cluster.of_racks(1, machines_per_rack=8)
FIGURES = ["jct_s", "start_s", "completion_s", "communication_s", "queueing_s", "ftf"]


def crowd(seed: int) -> Workload:
    """Jobs that come at once, several of each kind, so that many keys are equal."""
    drawn = generate_rack_workload(jobs=40, seed=seed, max_scale_factor=32)
    return resample(drawn, seed)


@dataclass(frozen=True, repr=False)
class Noisy(Part):
    """An order whose keys are off in their last digits."""

    rule: ClassVar[str] = "the same but for rounding"

    order: Order
    rng: np.random.Generator
    lasting: bool = False  # then ranks are kept from offer to offer

    def keys(self, now_s: float, waiting: WaitingJobs) -> tuple[Floats, ...]:
        return tuple(
            key * (1 + self.rng.uniform(-1e-13, 1e-13, key.size))
            for key in self.order.keys(now_s, waiting)
        )


@pytest.mark.parametrize("seed", sampled([0, 1], 2))
@pytest.mark.parametrize("name", sampled(sorted(SCHEDULERS), 2))
def test_the_last_digits_of_keys_change_nothing(name: str, seed: int) -> None:
    scheduler = get_scheduler(name)
    run = simulate(scheduler, crowd(seed), CLUSTER).jobs
    for lasting in {False, scheduler.order.lasting}:
        order = Noisy(scheduler.order, np.random.default_rng(1), lasting)
        noisy = simulate(replace(scheduler, order=order), crowd(seed), CLUSTER).jobs
        pd.testing.assert_frame_equal(run, noisy, check_exact=True)


@pytest.mark.parametrize("seed", sampled([2, 3], 2))
@pytest.mark.parametrize("name", sampled(sorted(SCHEDULERS), 2))
def test_the_last_digits_of_steps_change_the_last_digits_of_times(name: str, seed: int) -> None:
    load = crowd(seed)
    noise = np.random.default_rng(seed).uniform(-1e-13, 1e-13, len(load))
    other = replace(load, jobs=load.jobs.assign(total_steps=load.jobs.total_steps * (1 + noise)))
    runs = [simulate(name, each, CLUSTER).jobs[FIGURES] for each in (load, other)]
    pd.testing.assert_frame_equal(runs[0], runs[1], rtol=1e-8, atol=1e-4)


@pytest.mark.parametrize("name", sampled(["fifo", "max_min_fairness", *sorted(SCHEDULERS)], 2))
def test_the_order_of_rows_changes_nothing(name: str) -> None:
    load = crowd(4)
    order = np.random.default_rng(4).permutation(len(load))
    shuffled = replace(load, jobs=load.jobs.iloc[order])
    runs = [simulate(name, each, CLUSTER, mechanism="leases").jobs for each in (load, shuffled)]
    assert runs[1].index.tolist() == shuffled.jobs.index.tolist()
    pd.testing.assert_frame_equal(runs[0], runs[1].loc[runs[0].index], check_exact=True)


def ranks(values: Floats) -> NDArray[np.intp]:
    return ranks_of(values, relative=EXACT)


def by_kind(jobs: pd.DataFrame) -> Mapping[object, list[float]]:
    kinds = jobs.groupby(["job_type", "scale_factor", "total_steps"])
    return {kind: sorted(rows.jct_s) for kind, rows in kinds}


@pytest.mark.parametrize("name", sampled(sorted(SCHEDULERS), 2))
def test_equal_jobs_may_swap_their_names(name: str) -> None:
    load = crowd(5)
    order = np.random.default_rng(5).permutation(len(load))
    kinds = load.jobs.groupby(["job_type", "scale_factor", "total_steps"]).ngroup()
    names = load.jobs.index.to_numpy(copy=True)
    for kind in kinds.unique():
        own = np.flatnonzero(kinds == kind)
        names[own] = names[own[np.argsort(order[own])]]
    renamed = replace(load, jobs=load.jobs.set_axis(names, axis=0))
    runs = [
        simulate(name, each, CLUSTER).jobs.assign(total_steps=each.jobs.total_steps)
        for each in (load, renamed)
    ]
    assert by_kind(runs[0]) == by_kind(runs[1])
