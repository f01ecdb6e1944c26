from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.experiments import compare
from apportion.mechanism.deciders import get_scheduler
from apportion.sim import generate_rack_workload, simulate
from apportion.sim.fingerprint import fingerprint
from apportion.sim.settings import settings_for

CLOCKS = ["policy_seconds", "wall_seconds"]
RACKS = Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)


def some_jobs(count: int = 20) -> Any:
    return generate_rack_workload(jobs=count, seed=3, max_scale_factor=16)


def test_policies_and_schedulers_are_compared_under_the_same_network() -> None:
    workload = some_jobs(12)
    comparison = compare(["dally", "fifo"], workload, RACKS, n_jobs=1)
    assert comparison.settings["mechanism"] == "leases"
    assert list(comparison) == ["dally", "fifo"]
    for run in comparison.runs.values():
        jobs = run.jobs
        # What a job does not compute or wait for is communication and the ends of leases.
        rest = jobs["jct_s"] - jobs["queueing_s"] - jobs["compute_s"] - jobs["communication_s"]
        assert (rest > -1e-6).all()
        held = jobs[["machine_s", "rack_s", "network_s"]].sum(axis=1)
        assert held.to_numpy() == pytest.approx((jobs["jct_s"] - jobs["queueing_s"]).to_numpy())
        assert jobs["compute_s"].to_numpy() == pytest.approx(workload.jobs["duration_s"].to_numpy())


def test_a_scheduler_alone_is_what_simulate_returns() -> None:
    workload = some_jobs()
    run = simulate("tiresias", workload, RACKS, preemption_overhead_seconds="measured")
    pd.testing.assert_frame_equal(
        compare(["tiresias"], workload, RACKS, n_jobs=1)["tiresias"].jobs, run.jobs
    )


def test_results_do_not_depend_on_the_number_of_processes() -> None:
    options: dict[str, Any] = {"network": "alpha_beta", "lease_seconds": 1800.0}
    one, two = (
        compare(["gandiva", "dally"], some_jobs(10), RACKS, n_jobs=count, **options)
        for count in (1, 2)
    )
    pd.testing.assert_frame_equal(
        one.summary().drop(columns=CLOCKS), two.summary().drop(columns=CLOCKS)
    )


def test_without_schedulers_or_settings_of_leases_policies_run_in_rounds() -> None:
    workload = some_jobs(5)
    assert compare(["fifo"], workload, RACKS, n_jobs=1).settings["mechanism"] == "rounds"
    leased = compare(["fifo"], workload, RACKS, n_jobs=1, network="none")
    assert leased.settings["mechanism"] == "leases"
    assert (leased.jobs()["communication_s"] == 0).all()


@pytest.mark.parametrize(
    ("policies", "options", "message"),
    [
        (["dally", "dally"], {}, "'dally' is in the list twice"),
        (["dally", "fiffo"], {}, "Did you mean 'fifo'"),
        (["gandiv"], {}, "scheduler 'gandiv'. Did you mean 'gandiva'"),
        (["dally"], {"mechanism": "exact"}, "'dally' is a scheduler, which works by leases"),
        (["dally"], {"carry_over": True}, "carry_over=True is for the mechanism 'rounds'"),
        (["fifo", "dally"], {"placement": "randon"}, "placement 'randon'. Did you mean 'random'"),
        (["fifo"], {"mechanism": "exact", "network": "none"}, "network='none' is for"),
        (["dally"], {"network": "tabel1"}, "Did you mean 'table1'"),
        (["dally"], {"lease_seconds": 0.0}, r"lease_seconds is 0\.0"),
        (["dally"], {"lease_seconds": float("nan")}, "lease_seconds is nan"),
        (["fifo_space_sharing", "dally"], {}, "lets jobs share GPUs"),
        (["fifo"], {"mechanism": "leses"}, "Did you mean 'leases'"),
    ],
)
def test_what_schedulers_and_policies_refuse(
    policies: list[str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        compare(policies, some_jobs(3), RACKS, n_jobs=1, **options)


def test_fingerprints_tell_schedulers_options_networks_and_leases_apart() -> None:
    def mark(scheduler: Any, **options: Any) -> str:
        settings = settings_for([scheduler], None, options)
        return fingerprint(scheduler, "same", RACKS, settings)

    dally = get_scheduler("dally")
    marks = [
        mark(dally),
        mark(get_scheduler("dally_manual")),
        mark(get_scheduler("dally", history_s=3600.0)),
        mark(get_scheduler("dally", migrates=True)),
        mark(get_scheduler("tiresias")),
        mark(dally, network="alpha_beta"),
        mark(dally, lease_seconds=60.0),
        mark(dally, seed=1),
    ]
    assert len(set(marks)) == len(marks)
    assert mark(get_scheduler("dally")) == marks[0]


def test_a_job_larger_than_the_cluster_is_named() -> None:
    workload = generate_rack_workload(jobs=60)
    with pytest.raises(InputError, match=r"Job \d+ .* needs more GPUs than the cluster gpu=8 has"):
        compare(["dally"], workload, Cluster.of_racks(1, machines_per_rack=1), n_jobs=1)
