from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap
from apportion.elastic import DiurnalRate, generate_requests
from apportion.errors import InputError
from apportion.estimators.goodput import (
    BatchLimits,
    MeasuredApplication,
    MeasuredSteps,
    MeasuredTraining,
    StepTimes,
)
from apportion.sim.elastic.as_rigid import packed
from apportion.sim.record import Record

CLUSTER = {"v100": 8}
CASES = [("sia", "stop_resume", "told"), ("deepboot", "afe", "told"), ("pollux", "edl", "fitted")]


def workload(seed: int = 0, jobs: int = 7) -> ap.ElasticWorkload:
    drawn = ap.generate_elastic_workload(jobs, hours=0.3, seed=seed)
    short = {"small_vision": "small_vision", "speech": "speech"}
    names = [short.get(each, "small_vision") for each in drawn.jobs["application"]]
    return replace(drawn, jobs=drawn.jobs.assign(application=names, batch=128, gpus=2))


@pytest.mark.parametrize(("policy", "restart", "goodputs"), sampled(CASES, 3))
def test_books_balance(
    policy: str, restart: str, goodputs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: dict[int, float] = {}
    ran = Record.ran

    def noted(record: Record, now_s: float, end_s: float, what: Any, active: int) -> None:
        for job, steps in zip(what.gangs.job, what.rate * what.worked_s, strict=True):
            done[int(job)] = done.get(int(job), 0.0) + float(steps)
        ran(record, now_s, end_s, what, active)

    monkeypatch.setattr(Record, "ran", noted)
    jobs = workload(jobs=5)
    run = ap.simulate(policy, jobs, CLUSTER, gang_restart=restart, goodputs=goodputs)
    ends = [
        float(jobs.applications[name].training.progress[-1]) for name in jobs.jobs["application"]
    ]
    np.testing.assert_allclose([done[job] for job in range(len(jobs))], ends, rtol=1e-6)
    _check_devices(run.schedule)
    stays = run.schedule.groupby("job")
    assert (stays.size() - 1).tolist() == run.jobs["restarts"].tolist()
    assert run.jobs["restarts"].tolist() == run.jobs["preemptions"].tolist()
    gpus = run.schedule["devices"].map(len) * (run.schedule["end_s"] - run.schedule["start_s"])
    used = gpus.groupby(run.schedule["job"]).sum()
    np.testing.assert_allclose(used, run.jobs["gpu_seconds"].loc[used.index])
    np.testing.assert_allclose(run.rounds["v100_busy"].sum(), run.jobs["gpu_seconds"].sum())


def _check_devices(schedule: pd.DataFrame) -> None:
    """Check that no GPU is in two jobs at a time."""
    one = schedule.explode("devices").sort_values(["devices", "start_s"])
    for _, stays in one.groupby("devices"):
        ends, starts = stays["end_s"].to_numpy()[:-1], stays["start_s"].to_numpy()[1:]
        assert (starts >= ends - 1e-6).all()


@pytest.mark.thorough
def test_the_same_call_gives_the_same_bytes_in_whatever_order_jobs_are_given() -> None:
    jobs = workload(1)
    run = ap.simulate("sia", jobs, CLUSTER)
    same = ap.simulate("sia", jobs, CLUSTER)
    pd.testing.assert_frame_equal(same.jobs, run.jobs, check_exact=True)
    pd.testing.assert_frame_equal(same.schedule, run.schedule, check_exact=True)
    turned = replace(jobs, jobs=jobs.jobs.iloc[::-1])
    again = ap.simulate("sia", turned, CLUSTER)
    pd.testing.assert_frame_equal(run.jobs, again.jobs.loc[run.jobs.index], check_exact=True)


def test_what_does_not_go_together_is_refused() -> None:
    elastic, rigid = workload(), workload().rigid("v100")
    with pytest.raises(InputError, match="does not decide in whole numbers"):
        ap.simulate("max_min_fairness", elastic, CLUSTER)
    with pytest.raises(InputError, match="is for elastic jobs"):
        ap.simulate("sia", rigid, CLUSTER, mechanism="configurations")
    for mechanism in ("rounds", "exact", "leases"):  # where jobs wait, it has no solution
        with pytest.raises(InputError, match="base workers of all jobs leave"):
            ap.simulate("lyra", rigid, CLUSTER, mechanism=mechanism)
    with pytest.raises(InputError, match=r"workload\.rigid"):
        ap.simulate("fifo", elastic, CLUSTER, mechanism="rounds")
    with pytest.raises(InputError, match=r"gang_restart.*'pause'"):
        ap.simulate("sia", elastic, CLUSTER, gang_restart="pause")
    with pytest.raises(InputError, match=r"growth is 0.5"):
        ap.simulate("sia", elastic, CLUSTER, growth=0.5)
    with pytest.raises(InputError, match="relative speed of 'v100'"):
        replace(elastic, relative_speed={"v100": 0.0})


def measured_on(machine: int) -> MeasuredApplication:
    """An application that was measured on up to four full machines of so many GPUs."""
    times = StepTimes(
        alpha_c=0.02, beta_c=0.001, alpha_n=0.03, beta_n=0.002, alpha_r=0.01, beta_r=0.001
    )
    rows = [
        (*packed(gpus, machine), batch)
        for gpus in [*range(1, machine + 1), *(machine * nodes for nodes in (2, 3, 4))]
        for batch in (16, 64, 128)
    ]
    table = pd.DataFrame(
        [
            {
                "placement": "".join(map(str, gang)),
                "local_batch": batch,
                "step_s": (step := float(times.step_s(sum(gang), len(gang), batch))),
                "synchronisation_s": step - float(times.gradient_s(batch)),
            }
            for *gang, batch in rows
        ]
    )
    none = pd.DataFrame(
        columns=["nodes", "gpus", "local_batch", "step_s", "synchronisation_s"], dtype=float
    )
    epochs = pd.DataFrame({"progress": [20_000.0], "grad_sqr": 1.0, "grad_var": 1.0})
    training = MeasuredTraining("measured", {64: epochs, 1024: epochs * [0.5, 1.0, 1.0]})
    limits = BatchLimits(64, 1024, 16, 128)
    return MeasuredApplication("measured", MeasuredSteps("measured", table, none), training, limits)


@pytest.mark.parametrize(
    ("measured", "machines"),
    [
        (4, (8,)),
        *(
            pytest.param(own, machines, marks=pytest.mark.slow)
            for own in (1, 2, 4, 8)
            for machines in ((1,), (2,), (3,), (4,), (6,), (8,), (16,), (8, 4))
        ),
    ],
)
def test_jobs_run_on_machines_of_other_sizes_than_they_were_measured_on(
    measured: int, machines: tuple[int, ...]
) -> None:
    """What they would do as rigid jobs, to work out fairness, is of the model of the run."""
    rng = np.random.default_rng(measured)
    gpus = [12, 5, *rng.integers(1, 17, 2)]
    table = pd.DataFrame(
        {"arrival_s": 0.0, "application": "measured", "gpus": gpus, "batch": 16 * np.array(gpus)}
    )
    table["batch"] = np.maximum(table["batch"], 64)
    jobs = ap.ElasticWorkload("other machines", table, {"measured": measured_on(measured)})
    for cluster in (
        ap.Cluster({"v100": 48}, gpus_per_machine=machines[0]),
        ap.Cluster({"v100": 16, "k80": 48}, gpus_per_machine=machines[-1]),
    ):
        run = ap.simulate("sia", jobs, cluster)
        assert np.isfinite(run.jobs[["jct_s", "isolated_s", "ftf"]].to_numpy(dtype=float)).all()
        assert jobs.describe(cluster).notna().any(axis=None)


@pytest.mark.thorough
def test_gpus_that_serve_for_good_train_nobody() -> None:
    requests = generate_requests(
        DiurnalRate(mean=0.2), length_s=300.0, services=1, mean_duration_s=5.0, seed=0
    )
    jobs = workload(jobs=2)
    for gpus, cluster in ((8, CLUSTER), (12, {"k80": 4, "v100": 8})):
        apart = ap.Configurations(serving=ap.Serving(requests, gpus=gpus, lending=False))
        with pytest.raises(InputError, match=rf"Job 0 .* {gpus} of {gpus} GPUs serve requests"):
            ap.simulate("sia", jobs, cluster, mechanism=apart)
    apart = ap.Configurations(serving=ap.Serving(requests, gpus=7, lending=False))
    assert ap.simulate("sia", jobs, CLUSTER, mechanism=apart).jobs["jct_s"].notna().all()


_RUN = """
import apportion as ap
work = ap.generate_elastic_workload(jobs=4, hours=0.3, seed=1)
for policy in ("pollux", "sia"):
    run = ap.simulate(policy, work, ap.Cluster({"t4": 8}, gpus_per_machine=4))
    print(*run.jobs["completion_s"].tolist())
"""


@pytest.mark.thorough
@pytest.mark.skipif(platform.machine() != "x86_64", reason="kernels of x86 processors")
def test_no_kernel_of_a_processor_changes_a_run() -> None:
    found = []
    for core in ("Nehalem", "Haswell"):
        told = {**os.environ, "OPENBLAS_CORETYPE": core, "OMP_NUM_THREADS": "1"}
        ran = subprocess.run(
            [sys.executable, "-c", _RUN], env=told, check=True, capture_output=True
        )
        found.append([float(each) for each in ran.stdout.split()])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
