"""Whole runs - order, placement, gate - beside jobs that are followed in fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from tests.oracles import transfer_gates
from tests.oracles.contention import Cluster, Job, Rules, simulate
from tests.oracles.least_workload import first_fit, least_workload
from tests.oracles.shared_links import Law

import apportion as ap
from apportion.sim.network.table_iii import TABLE_III

LAW = Law(Fraction("6.69e-4"), Fraction("8.53e-10"), Fraction("2.35e-10"))
GATES: dict[str, Any] = {
    "at_most_1": transfer_gates.srsf(1),
    "at_most_2": transfer_gates.srsf(2),
    "ada_dual": transfer_gates.adadual(),
}
PLACES: dict[str, Any] = {
    "lwf_1": lambda servers, job: least_workload(servers, job.n, job.memory, 1),
    "first_fit": lambda servers, job: first_fit(servers, job.n, job.memory),
}


def drawn(seed: int) -> ap.Workload:
    """Fifteen jobs of the paper's workload that want at most eight GPUs, all but at once."""
    jobs = ap.generate_contended_workload(seed=seed, scale=0.002).jobs
    some = jobs[jobs["scale_factor"] <= 8].iloc[:15].reset_index(drop=True)
    some["arrival_s"] = (some["arrival_s"] / 20).round(4)
    whole = ap.generate_contended_workload(seed=seed)
    return ap.Workload("few", some, whole.throughputs)


def by_the_definition(workload: ap.Workload, place: str, gate: str, load: str) -> list[float]:
    """Completion times of the workload on three servers of four GPUs of 16 GB."""
    jobs = [
        Job(
            name,
            Fraction(str(row["arrival_s"])),
            int(row["scale_factor"]),
            Fraction(str(TABLE_III[row["job_type"]].forward_s)),
            Fraction(str(TABLE_III[row["job_type"]].backward_s)),
            Fraction(str(TABLE_III[row["job_type"]].megabytes)) * 10**6,
            int(row["total_steps"]),
            Fraction(str(TABLE_III[row["job_type"]].memory_mb)) / 1024,
        )
        for name, row in enumerate(workload.jobs.to_dict("records"))
    ]
    rules = Rules(LAW, GATES[gate], PLACES[place], network_counts=False, load=load)
    known = simulate(Cluster((4, 4, 4), Fraction(16)), jobs, rules)
    return [float(known.finished[job.name] - job.arrival) for job in jobs]


@pytest.mark.parametrize(
    ("place", "gate", "load"),
    [
        ("lwf_1", "at_most_1", "remaining"),
        ("lwf_1", "at_most_1", "seconds"),
        ("lwf_1", "ada_dual", "seconds"),
        ("first_fit", "at_most_2", "remaining"),
    ],
)
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 12), marks=pytest.mark.slow)])
def test_whole_runs_follow_the_definition(place: str, gate: str, load: str, seeds: range) -> None:
    for seed in seeds:
        workload = drawn(seed)
        run = ap.simulate(
            *("ada_srsf", workload, ap.Cluster({"v100": 12}, gpus_per_machine=4)),
            placement=place,
            gate=gate,
            loads_times_gpus=load != "seconds",
            engine="plain",
        )
        expected = by_the_definition(workload, place, gate, load)
        assert run.jobs["jct_s"].tolist() == pytest.approx(expected, rel=1e-9), seed
