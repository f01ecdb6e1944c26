"""Delay timers of policies under leases, and of schedulers by a setting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.sim.network.test_tier_shares import RACKS, jobs_of

import apportion as ap
from apportion.mechanism.deciders import get_scheduler
from apportion.sim import simulate

pytestmark = pytest.mark.usefixtures("free_starts")

HOUR = 3600.0


@pytest.mark.parametrize(
    ("timers", "rack_s"), [("none", 0.0), ("5400,7200", 5400.0), ("0,9000", 0.0)]
)
@pytest.mark.parametrize("policy", ["max_min_fairness", "fifo"])
def test_a_gang_holds_out_for_a_machine(policy: str, timers: str, rack_s: float) -> None:
    """Gangs of 3 leave a GPU in each machine of 4; two of them are a rack's."""
    cluster = ap.Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=4)
    jobs = jobs_of(3, 3, 2, hours=4.0, arrival_s=[0.0, 0.0, 64.0])
    settings: dict[str, Any] = {"lease_seconds": 100 * HOUR, "network": "none", "timers": timers}
    run = simulate(policy, jobs, cluster, **settings)
    waited = run.jobs["queueing_s"].iloc[2]
    assert waited == pytest.approx(rack_s, abs=0.01)
    assert run.jobs["rack_s"].iloc[2] == pytest.approx(4 * HOUR, abs=0.01)


@pytest.mark.thorough
def test_timers_of_nothing_are_none() -> None:
    workload = ap.generate_rack_workload(jobs=15, seed=2, max_scale_factor=16)
    none, nothing, named = (
        simulate("max_min_fairness", workload, RACKS, mechanism=ap.Leases(timers=timers)).jobs
        for timers in (None, "0,0", "none")
    )
    assert nothing.equals(none)
    assert named.equals(none)


def test_without_end_gangs_stay_in_machines_and_racks_that_hold_them() -> None:
    workload = ap.generate_rack_workload(jobs=15, seed=3, max_scale_factor=16)
    run = simulate("network_sensitive", workload, RACKS, timers="inf,inf")
    ap.check_schedule(run, workload, RACKS, work_conserving=False)
    gpus = run.jobs["scale_factor"]
    assert (run.jobs.loc[gpus <= 4, ["rack_s", "network_s"]] == 0).all().all()
    assert (run.jobs.loc[gpus <= 8, "network_s"] == 0).all()
    np.testing.assert_allclose(run.jobs["compute_s"], workload.jobs["duration_s"], rtol=1e-9)


def test_schedulers_have_other_timers_by_the_setting() -> None:
    workload = ap.generate_rack_workload(jobs=15, seed=2, max_scale_factor=16)
    manual = simulate("dally_manual", workload, RACKS).jobs
    assert simulate("dally", workload, RACKS, timers="manual").jobs.equals(manual)
    at_once = simulate("dally_no_wait", workload, RACKS).jobs
    assert simulate("dally", workload, RACKS, timers="none").jobs.equals(at_once)
    short = get_scheduler("dally_manual", machine_s=60.0, rack_s=90.0)
    by_value = simulate(short, workload, RACKS).jobs
    assert simulate("dally", workload, RACKS, timers="60,90").jobs.equals(by_value)
    with pytest.raises(ap.InputError, match="timers='manual' does nothing to 'tiresias'"):
        simulate("tiresias", workload, RACKS, timers="manual")


@pytest.mark.parametrize(
    ("timers", "message"),
    [
        ("manuel", "Did you mean 'manual'"),
        ("1,2,3", "has 3 numbers; valid: two"),
        ("60,-1", "the rack timer of timers='60,-1' is -1.0; it must be a number of seconds"),
        ("x,1", "the machine timer of timers='x,1' is nan"),
        (60.0, "timers is 60.0; it must be none, manual, tuned, two numbers of seconds"),
    ],
)
def test_what_are_no_timers(timers: Any, message: str) -> None:
    with pytest.raises(ap.InputError, match=message):
        ap.Leases(timers=timers)
