"""What must hold of any run of iterations, on generated jobs, clusters, gates and placements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.sim.links import ETHERNET_10G
from apportion.sim.network.models.trained import TABLE_III

pytestmark = pytest.mark.usefixtures("free_starts")

GATES = ["always", "at_most_1", "at_most_2", "at_most_3", "ada_dual", "ada_dual_as_written"]
PLACEMENTS = ["lwf_1", "lwf_4", "list_scheduling", "first_fit", "random", "consolidated"]
SEEDS = each_seed(3, 170)


class Drawn(NamedTuple):
    workload: ap.Workload
    cluster: ap.Cluster
    settings: dict[str, Any]

    def run(self, **other: Any) -> ap.Run:
        given = {**self.settings, **other}
        return ap.simulate("ada_srsf", self.workload, self.cluster, **given)


def drawn(seed: int, jobs: int | None = None) -> Drawn:
    rng = np.random.default_rng([13, seed])
    per_machine, machines = int(rng.choice([1, 2, 3, 4, 8])), int(rng.integers(2, 9))
    cluster = ap.Cluster(
        {"v100": per_machine * machines},
        gpus_per_machine=per_machine,
        machines_per_rack=int(rng.integers(1, 4)) if rng.random() < 0.5 else None,
    )
    sizes = [size for size in (1, 2, 3, 5, 8, 11) if size <= per_machine * machines]
    count = int(rng.integers(2, 12)) if jobs is None else jobs
    table = pd.DataFrame(
        {
            "job_type": rng.choice(list(TABLE_III), count),
            "scale_factor": rng.choice(sizes, count),
            "total_steps": rng.integers(1, 15, count).astype(float),
            "arrival_s": np.where(rng.random(count) < 0.5, 0.0, rng.uniform(0, 3, count)),
        },
        index=[f"job {k}" for k in range(count)],
    )
    index = pd.MultiIndex.from_product([list(TABLE_III), sizes], names=["job_type", "scale_factor"])
    speed = [1 / sum(TABLE_III[model].passes_s()) for model, _ in index]
    settings = {
        "gate": str(rng.choice(GATES)),
        "order": str(rng.choice(["srsf", "srtf", "smallest", "fifo", "least_attained"])),
        "placement": str(rng.choice(PLACEMENTS)),
        "gpu_memory_gb": float(rng.choice([5.0, 16.0, 32.0])),
        "exclusive": bool(rng.random() < 0.2),
        "rack_links": bool(rng.random() < 0.4),
        "counted_over": "task" if rng.random() < 0.7 else "cluster",
        "penalty_s_per_byte": float(rng.choice([0.0, 2.35e-10, 8e-10])),
        "startup_s": float(rng.choice([0.0, 6.69e-4, 0.05])),
        "seed": int(seed),
    }
    workload = ap.Workload("drawn", table, pd.DataFrame({"v100": speed}, index))
    return Drawn(workload, cluster, settings)


def machines_of(run: ap.Run, per_machine: int) -> pd.Series:
    """Return the number of machines of every job."""
    rows = run.schedule[["job", "devices"]].itertuples(index=False)
    return pd.Series({job: len({each // per_machine for each in own}) for job, own in rows})


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("overlap", [False, True])
def test_bytes_sent_and_seconds_computed_are_those_of_all_iterations(
    seed: int, *, overlap: bool
) -> None:
    case = drawn(seed)
    run = case.run(overlap=overlap)
    split = machines_of(run, int(case.cluster.largest_machine)) > 1
    for job in run.jobs.reset_index().to_dict("records"):
        name = job["job"]
        row, steps = TABLE_III[job["job_type"]], case.workload.jobs.loc[name, "total_steps"]
        size = row.megabytes * 1e6 if split[name] else 0.0
        assert job["sent_bytes"] == pytest.approx(steps * size, rel=1e-9)
        compute_s = steps * job["scale_factor"] * sum(row.passes_s())
        assert job["computed_gpu_s"] == pytest.approx(compute_s, rel=1e-9)
        assert job["jct_s"] >= compute_s / job["scale_factor"] * (1 - 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("overlap", [False, True])
def test_iterations_hold_their_tasks_and_transfers(seed: int, *, overlap: bool) -> None:
    case = drawn(seed)
    run = case.run(timeline=True, overlap=overlap)
    tasks, each = run.tables["tasks"], run.tables["iterations"]
    events = pd.concat([tasks, run.tables["transfers"]])
    for job in run.jobs.index.tolist():
        row, steps = run.jobs.loc[job], case.workload.jobs.loc[job, "total_steps"]
        own, its = events[events["job"] == job], each[each["job"] == job]
        assert len(its) == steps
        assert its["to_s"].iloc[-1] == pytest.approx(row["completion_s"], abs=1e-8)
        number = np.searchsorted(its["from_s"], own["start_s"] + 1e-8) - 1
        assert own["end_s"].groupby(number).max().to_numpy() == pytest.approx(its["to_s"], abs=1e-8)
        assert (own["task"].eq(0).groupby(number).sum() == row["scale_factor"]).all()
    times = run.tables["iteration_times"]
    assert times.loc["all", "iterations"] == len(each)
    assert times.loc["all", "mean_s"] == pytest.approx(each["iteration_s"].mean())
    assert times.loc["all", "p99_s"] == np.quantile(
        each["iteration_s"], 0.99, method="inverted_cdf"
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("factor", [4.0, 0.25])
def test_all_times_scale_together(seed: int, factor: float) -> None:
    case = drawn(seed)
    given = case.settings
    jobs = case.workload.jobs.assign(arrival_s=case.workload.jobs["arrival_s"] * factor)
    slower = replace(case.workload, jobs=jobs, throughputs=case.workload.throughputs / factor)
    names = {"s_per_byte": 8.53e-10, "penalty_s_per_byte": 0.0, "startup_s": 0.0}
    scaled = {name: given.get(name, default) * factor for name, default in names.items()}
    run = case.run()
    other = ap.simulate("ada_srsf", slower, case.cluster, **{**given, **scaled})
    expected = (run.jobs["completion_s"] * factor).to_numpy()
    np.testing.assert_allclose(other.jobs["completion_s"].to_numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_job_alone_takes_what_its_formula_says(seed: int) -> None:
    case = drawn(seed, jobs=1)
    run = case.run()
    job, row = run.jobs.iloc[0], TABLE_III[run.jobs["job_type"].iloc[0]]
    each_s = sum(row.passes_s())
    if machines_of(run, int(case.cluster.largest_machine)).item() > 1:
        sent_s = ETHERNET_10G.s_per_byte * row.megabytes * 1e6
        each_s += case.settings["startup_s"] + sent_s
    steps = case.workload.jobs["total_steps"].item()
    assert job["jct_s"] == pytest.approx(steps * each_s, rel=1e-9)
