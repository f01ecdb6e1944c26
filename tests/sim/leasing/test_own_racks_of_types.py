"""Own data on racks of two types under leases: odd gangs, types on which a job cannot run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

import apportion as ap

GPUS = {"v100": 6, "k80": 3}
RACKS = ap.Cluster.of_racks({"v100": 2, "k80": 1}, machines_per_rack=1, gpus_per_machine=3)
SKEWS = {f"own{kind}": 0.1 + 0.2 * kind for kind in range(3)}
DECIDERS: list[Any] = [
    "dally",
    ap.get_scheduler("tiresias", skews=SKEWS),
    "themis",
    "gandiva",
    "max_min_fairness",
    "min_cost_slos",
]


class Slower:
    """A step takes a fifth longer with each further GPU, and half with each further rack."""

    name = "slower"

    def overhead(self, job_type: str, shape: tuple[tuple[int, ...], ...]) -> float:
        return 0.2 * (sum(map(sum, shape)) - 1) + 0.5 * (len(shape) - 1)


def crowd(seed: int) -> ap.Workload:
    """Draw jobs of which each runs on one of the types at least."""
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_product([SKEWS, range(1, 7)], names=["job_type", "scale_factor"])
    speed = rng.uniform(0.5, 5, (len(index), 2))
    speed[rng.random(len(index)) < 0.3, 0] = 0.0
    speed[(speed[:, 0] > 0) & (rng.random(len(index)) < 0.3), 1] = 0.0
    table = pd.DataFrame(speed, index=index, columns=list(GPUS))
    fits = np.array([[gang <= gpus for gpus in GPUS.values()] for _, gang in index])
    runs = (np.asarray(table.to_numpy()) > 0) & fits
    can = [each for each, here in zip(index, runs, strict=True) if here.any()]
    drawn = [can[at] for at in rng.integers(0, len(can), 9)]
    columns = {
        "job_type": [each for each, _ in drawn],
        "scale_factor": [gang for _, gang in drawn],
        "total_steps": rng.uniform(1, 9000, 9),
        "arrival_s": np.sort(rng.choice([0.0, 10.5, 900.25], 9)),
        "weight": rng.choice([0.5, 1.0, 3.0], 9),
        "deadline_s": np.where(rng.random(9) < 0.5, np.nan, rng.uniform(1, 9e4, 9)),
    }
    return ap.Workload("own", pd.DataFrame(columns, index=[f"j-{k}" for k in range(9)]), table)


@pytest.mark.parametrize("decider", DECIDERS, ids=str)
@pytest.mark.parametrize("seed", each_seed(1, 3))
def test_the_books_of_a_run_follow_from_its_schedule(decider: Any, seed: int) -> None:
    load, network = crowd(seed), Slower() if seed % 2 else "none"
    terms = ap.Leases(network=network, seconds=(60.0, 600.0)[seed % 2])
    run = ap.simulate(decider, load, RACKS, mechanism=terms)
    ap.check_schedule(run, load, RACKS, network=network)
    stays = run.schedule.merge(load.jobs, left_on="job", right_index=True)
    pace = load.throughputs.stack()
    places = stays[["job_type", "scale_factor", "accelerator"]].itertuples(index=False, name=None)
    speed = pd.Series([pace[place] for place in places], index=stays.index)
    assert (speed > 0).all()
    assert (stays["devices"].map(len) == stays["scale_factor"]).all()
    if network == "none":
        steps = (speed * (stays["end_s"] - stays["start_s"])).groupby(stays["job"]).sum()
        assert (steps >= load.jobs["total_steps"][steps.index] * (1 - 1e-6)).all()
    assert sorted(stays["job"].unique()) == sorted(load.jobs.index)


def test_a_lease_that_is_had_again_at_once_is_no_preemption() -> None:
    index = pd.MultiIndex.from_tuples([("own", 1)], names=["job_type", "scale_factor"])
    columns = {"job_type": "own", "scale_factor": 1, "total_steps": 600.0, "arrival_s": 0.0}
    jobs = pd.DataFrame(columns, index=["one", "two", "three"])
    load = ap.Workload("alike", jobs, pd.DataFrame({"v100": [1.0]}, index=index))
    racks = ap.Cluster.of_racks(1, machines_per_rack=1, gpus_per_machine=2, accelerator="v100")
    run = ap.simulate("gandiva", load, racks, mechanism=ap.Leases(network="none", seconds=60.0))
    stays = run.schedule.sort_values(["job", "start_s"])
    went_on = stays["start_s"] == stays.groupby("job")["end_s"].shift()  # perhaps on the other GPU
    begun = (~went_on).groupby(stays["job"]).sum()
    assert (run.jobs["preemptions"] == begun[run.jobs.index] - 1).all()
    assert run.rounds["preemptions"].sum() == run.jobs["preemptions"].sum()
