"""Policies that place gangs in what is free, at every offer of leases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled
from tests.sim.network.test_tier_shares import RACKS, jobs_of

import apportion as ap
from apportion.mechanism.leases import AutoTunedTimers, ManualTimers
from apportion.policies.dally_round import DallyRound
from apportion.sim import simulate


def test_a_best_fit_in_the_way_of_a_later_job() -> None:
    """Free are 3 and 4 GPUs: best fit puts the first 2 to the 3, and the gang of 3 waits."""
    cluster = ap.Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=4)
    jobs = jobs_of(1, 2, 2, 3, hours=0.5, arrival_s=[0.0, 8.0, 8.0, 8.0])
    greedy = simulate("dally", jobs, cluster, timers="manual").jobs
    whole = simulate(DallyRound(), jobs, cluster, timers="manual").jobs
    assert greedy["queueing_s"].tolist()[:3] == [0, 0, 0]
    assert greedy["queueing_s"].iloc[3] > 1700
    assert whole["queueing_s"].tolist() == [0, 0, 0, 0]
    assert whole["machine_s"].gt(0).all()
    assert (whole[["rack_s", "network_s"]] == 0).all().all()


@pytest.mark.parametrize("timers", sampled(["tuned", "manual", "600,7200", "0,0"], 2))
@pytest.mark.parametrize("seed", [0])
def test_gangs_of_one_size_fare_as_with_the_heuristic(timers: str, seed: int) -> None:
    """Where all gangs are alike none can stand in another one's way."""
    rng = np.random.default_rng(seed)
    arrival_s = np.sort(rng.integers(0, 20, 16) * 900.0)
    jobs = jobs_of(*[3] * 16, hours=6.0, arrival_s=arrival_s)
    heuristic = simulate("dally", jobs, RACKS, timers=timers).jobs
    whole = simulate(DallyRound(), jobs, RACKS, timers=timers).jobs
    for column in ("completion_s", "machine_s", "rack_s", "network_s", "preemptions"):
        np.testing.assert_array_equal(whole[column], heuristic[column])


def types() -> tuple[ap.Workload, ap.Cluster]:
    """Jobs of which some run on one type only."""
    cluster = ap.Cluster.of_racks({"k80": 1, "v100": 1}, machines_per_rack=2, gpus_per_machine=4)
    table = pd.DataFrame(
        {
            "job_type": ["ResNet18", "VGG11"] * 6,
            "scale_factor": [1, 2, 3, 4, 6, 8] * 2,
            "total_steps": 20000.0,
            "arrival_s": np.repeat([0.0, 5000.0, 9000.0], 4),
        }
    )
    keys = pd.MultiIndex.from_frame(table[["job_type", "scale_factor"]].drop_duplicates())
    speeds = pd.DataFrame({"k80": 1.0, "v100": 2.0}, index=keys)
    speeds.loc[("ResNet18", 3), "k80"] = 0.0
    return ap.Workload("types", table, speeds), cluster


@pytest.mark.thorough
def test_types_and_tiers() -> None:
    workload, cluster = types()
    run, again = (simulate(DallyRound(), workload, cluster, timers="900,1800") for _ in range(2))
    ap.check_schedule(run, workload, cluster)
    assert run.jobs.equals(again.jobs)
    assert run.tables["schedule"].equals(again.tables["schedule"])
    three = run.jobs["scale_factor"] == 3
    assert (run.jobs.loc[three, "k80_s"] == 0).all()
    assert run.jobs["k80_s"].sum() > 0


def brief(jobs: int, seed: int) -> ap.Workload:
    """A tenth of the work of jobs on racks, most of a few leases."""
    drawn = ap.generate_rack_workload(jobs=jobs, seed=seed, max_scale_factor=16)
    table = drawn.jobs.assign(total_steps=np.ceil(drawn.jobs["total_steps"] * 0.1))
    return ap.Workload("brief", table, drawn.throughputs)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_schedules_are_sound_and_hang_on_no_order_of_rows(seed: int) -> None:
    workload = brief(25, seed)
    run = simulate(DallyRound(), workload, RACKS)
    ap.check_schedule(run, workload, RACKS)
    assert {"timers", "schedule"} <= run.tables.keys()
    assert run.solves > 0
    assert run.policy_seconds > 0
    rows = np.random.default_rng(seed).permutation(len(workload))
    shuffled = ap.Workload("other", workload.jobs.iloc[rows], workload.throughputs)
    other = simulate(DallyRound(), shuffled, RACKS).jobs
    assert other.loc[run.jobs.index].equals(run.jobs)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mechanism": "rounds"}, "places gangs and works by leases"),
        ({"mechanism": "exact"}, "places gangs and works by leases"),
        ({"placement": "random"}, "placement='random' does nothing to 'dally_round'"),
        ({"resolve_seconds": 60.0}, "resolve_seconds=60.0 does nothing to 'dally_round'"),
        ({"speeds": "estimated"}, "learns no speeds"),
        ({"timers": "tunde"}, "Did you mean 'tuned'"),
    ],
)
def test_what_does_nothing_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ap.InputError, match=message):
        simulate(DallyRound(), jobs_of(1, 2), RACKS, **settings)


def test_leases_are_what_it_works_by() -> None:
    run = simulate("dally_round", jobs_of(1, 2), RACKS, timers=ManualTimers(60.0, 90.0))
    assert run.settings["mechanism"] == "leases"
    assert run.policy == "dally_round"
    assert run.settings["timers"] == "ManualTimers(machine_s=60.0, rack_s=90.0)"
    assert simulate(DallyRound(), jobs_of(1), RACKS, timers=AutoTunedTimers()).tables["timers"].size
