"""Pairs that are estimated in a simulation, and completed anew from what runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.sim.stops import run_with_stops

import apportion as ap
from apportion.sim.beliefs import Told
from apportion.sim.completed_pairs import CompletedPairs
from apportion.sim.engine.truth import Truth

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.sim import Workload

CLUSTER = ap.Cluster.of("v100=3,p100=3,k80=3")
SHARED = "max_min_fairness_space_sharing"


def some_jobs(seed: int, jobs: int = 20) -> Workload:
    return ap.generate_workload(jobs=jobs, seed=seed, jobs_per_hour=8)


def believed_and_true(load: Workload, options: CompletedPairs) -> tuple[Any, Any]:
    truth = Truth(load, CLUSTER)
    assert truth.beside is not None
    return options.start(truth, load, CLUSTER), truth.beside


@pytest.mark.parametrize("rows", ["job", "type"])
def test_what_was_measured_of_everybody_is_nearly_known(rows: Any) -> None:
    """With all types references and every cell measured estimates are as good as the truth."""
    load = some_jobs(0)
    believed, true = believed_and_true(load, CompletedPairs(99, 1.0, noise=0.0, rows=rows))
    jobs = np.arange(len(load))
    told, real = believed.table(jobs), true.table(jobs)
    speed = load.throughput_of(CLUSTER).to_numpy()[:, None, :]
    off = told.own[np.ix_(told.key, told.key)] - real.own[np.ix_(real.key, real.key)]
    assert np.abs(off / speed).mean() < 0.02


@pytest.mark.parametrize("rows", ["job", "type"])
def test_a_pair_that_ran_is_known_and_forgotten_with_its_jobs(rows: Any) -> None:
    load = some_jobs(1)
    believed, true = believed_and_true(load, CompletedPairs(8, 0.1, noise=0.0, rows=rows))
    jobs = np.arange(len(load))
    before = believed.table(jobs).own
    real = true.own[true.key[0], true.key[1], 0]
    believed.measure(np.array([0]), np.array([1]), np.array([0]))
    after = believed.table(jobs).own
    assert after[0, 1, 0] == pytest.approx(real)
    others = np.abs(after - before)
    others[[0, 1], [1, 0], 0] = 0.0
    assert others.any()  # the rows of the two are completed anew
    less = believed.table(jobs[2:]).own
    assert less.shape == (len(load) - 2, len(load) - 2, 3)


def test_two_that_do_not_fit_are_parted_once() -> None:
    load = some_jobs(2)
    believed, true = believed_and_true(load, CompletedPairs(8, 0.0))
    believed.table(np.arange(len(load)))
    apart = np.argwhere(true.own[true.key][:, true.key] == 0)
    apart = apart[apart[:, 0] < apart[:, 1]]
    one, other, where = (apart[:1, column] for column in range(3))
    assert believed.measure(one, other, where).tolist() == [True]
    assert believed.measure(other, one, where).tolist() == [False]
    assert believed.table(np.arange(len(load))).own[one[0], other[0], where[0]] == 0.0


def test_estimates_come_close_to_the_truth_in_a_simulation() -> None:
    load = some_jobs(1)
    told = ap.simulate(SHARED, load, CLUSTER).summary()["mean_jct_s"]
    run = ap.simulate(SHARED, load, CLUSTER, beliefs=Told(CompletedPairs(8, 0.3, seed=1)))
    ap.check_schedule(run, load, CLUSTER, sharing=True)
    assert run.summary()["mean_jct_s"] < 1.1 * told


@pytest.mark.parametrize("rows", ["job", "type"])
def test_what_was_learnt_outlives_the_run(rows: Any, tmp_path: Path) -> None:
    beliefs = Told(CompletedPairs(6, 0.2, rows=rows, seed=1))
    simulate = partial(ap.simulate, SHARED, some_jobs(3, jobs=8), CLUSTER, beliefs=beliefs)
    run = run_with_stops(simulate, tmp_path / "run.json", every=8)
    assert run.jobs.equals(simulate().jobs)


def test_without_pairs_there_is_nothing_to_estimate() -> None:
    load = replace(some_jobs(0, jobs=2), pairs=None)
    with pytest.raises(ap.InputError, match="no pair throughputs to estimate"):
        ap.simulate("fifo", load, CLUSTER, beliefs=Told(CompletedPairs()))


@pytest.mark.parametrize(
    "option",
    [
        *({"references": 0}, {"references": 2.5}, {"measured_share": 1.5}),
        *({"noise": np.nan}, {"rows": "jobs"}, {"seed": -1}),
    ],
)
def test_options_are_checked(option: dict[str, Any]) -> None:
    with pytest.raises(ap.InputError, match=next(iter(option))):
        CompletedPairs(**option)


@pytest.mark.parametrize("option", [{"pair_estimates": 3}, {"learn_pairs": 1}, {"rows": "x"}])
def test_what_is_told_is_checked(option: dict[str, Any]) -> None:
    with pytest.raises(ap.InputError, match=next(iter(option))):
        Told(**option)
