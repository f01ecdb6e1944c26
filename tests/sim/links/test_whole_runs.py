"""Whole runs - order, placement, gate - beside jobs that are followed in fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.oracles import transfer_gates
from tests.oracles.contention import Cluster, Job, Rules, simulate
from tests.oracles.least_workload import first_fit, least_workload
from tests.oracles.shared_links import Law
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.sim.network.models.trained import TABLE_III

pytestmark = pytest.mark.usefixtures("free_starts")

LAW = Law(Fraction("6.69e-4"), Fraction("8.53e-10"), Fraction("2.35e-10"))
GATES: dict[str, Any] = {
    "at_most_1": transfer_gates.srsf(1),
    "at_most_2": transfer_gates.srsf(2),
    "at_most_1_by_pair": transfer_gates.srsf_between(1),
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


def by_the_definition(
    workload: ap.Workload, place: str, gate: str, load: str, *, counts: bool
) -> list[float]:
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
    rules = Rules(LAW, GATES[gate], PLACES[place], network_counts=counts, load=load)
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
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 12))
def test_whole_runs_follow_the_definition(place: str, gate: str, load: str, seeds: range) -> None:
    for seed in seeds:
        workload, counts = drawn(seed), seed % 2 == 0
        run = ap.simulate(
            *("ada_srsf", workload, ap.Cluster({"v100": 12}, gpus_per_machine=4)),
            placement=place,
            gate=gate,
            loads_times_gpus=load != "seconds",
            turns_count_transfers=counts,
        )
        expected = by_the_definition(workload, place, gate, load, counts=counts)
        assert run.jobs["jct_s"].tolist() == pytest.approx(expected, rel=1e-9), seed


BYTES = Fraction("526.4") * 10**6


def in_whole_units(seed: int, unit_s: float) -> ap.Workload:
    """Eight jobs whose every time is whole: arrivals meet ends of tasks, transfers and jobs.

    VGG-16 computes forward for two fifths of an iteration, which takes 5 units and, for gangs of
    two and of four, 10. Tenths of a second add up to whole ones up to rounding only.
    """
    rng = np.random.default_rng([seed, 12])
    gpus = rng.choice([1, 1, 2, 3, 4, 5], 8)
    jobs = pd.DataFrame(
        {
            "job_type": "VGG-16",
            "scale_factor": gpus,
            "total_steps": rng.integers(1, 5, gpus.size).astype(float),
            "arrival_s": np.sort(rng.integers(0, 40, gpus.size)) * unit_s,
        }
    )
    index = pd.MultiIndex.from_product(
        [["VGG-16"], range(1, 6)], names=["job_type", "scale_factor"]
    )
    speeds = [1 / ((5 if each % 2 else 10) * unit_s) for each in range(1, 6)]
    return ap.Workload("whole", jobs, pd.DataFrame({"v100": speeds}, index=index))


def followed(
    workload: ap.Workload, unit: Fraction, place: str, gate: str, law: Law, gb: int, *, counts: bool
) -> list[float]:
    """Completion times of such jobs on two servers of four GPUs."""
    jobs = []
    for name, row in enumerate(workload.jobs.to_dict("records")):
        gpus = int(row["scale_factor"])
        part = unit * (1 if gpus % 2 else 2)
        arrival, times = round(row["arrival_s"] / unit) * unit, int(row["total_steps"])
        memory = Fraction(str(TABLE_III["VGG-16"].memory_mb)) / 1024
        jobs.append(Job(name, arrival, gpus, 2 * part, 3 * part, BYTES, times, memory))
    rules = Rules(law, GATES[gate], PLACES[place], network_counts=counts)
    known = simulate(Cluster((4, 4), Fraction(gb)), jobs, rules)
    return [float(known.finished[job.name]) for job in jobs]


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 150))
def test_what_happens_at_one_instant_has_one_order(gate: str, seeds: range) -> None:
    """Who arrives where a task, a transfer or a job ends is placed before anything begins."""
    for seed in seeds:
        unit = Fraction(1, 10 if seed % 4 > 1 else 1)
        b, eta = unit * (1 + seed % 3) / BYTES, unit * (seed % 2) / BYTES
        place = list(PLACES)[seed % 2]
        workload, gb = in_whole_units(seed, float(unit)), 9 if seed % 3 else 16
        counts = seed % 5 > 0
        expected = followed(workload, unit, place, gate, Law(0, b, eta), gb, counts=counts)
        run = ap.simulate(
            *("ada_srsf", workload, ap.Cluster({"v100": 8}, gpus_per_machine=4)),
            placement=place,
            gate=gate,
            gpu_memory_gb=float(gb),
            s_per_byte=float(b),
            penalty_s_per_byte=float(eta),
            startup_s=0.0,
            turns_count_transfers=counts,
        )
        assert run.jobs["completion_s"].tolist() == pytest.approx(expected, rel=1e-9), seed


def test_who_arrives_as_a_job_ends_up_to_rounding_is_placed_with_those_that_wait() -> None:
    """Sums of tenths of a second miss the arrival by some 1e-15 s, on either side."""
    index = pd.MultiIndex.from_tuples([("VGG-16", 1)], names=["job_type", "scale_factor"])
    speeds = pd.DataFrame({"v100": [10.0]}, index=index)
    for iterations in (3, 46, 47, 53):
        for start in (0, 1, 3):
            arrival_s = [start * 0.1, start * 0.1 + 0.01, (start + iterations) * 0.1]
            jobs = pd.DataFrame(
                {"job_type": "VGG-16", "scale_factor": 1, "arrival_s": arrival_s}
            ).assign(total_steps=[float(iterations), 5.0, 2.0])
            run = ap.simulate(
                "ada_srsf",
                ap.Workload("one GPU", jobs, speeds),
                {"v100": 1},
                gpu_memory_gb=5.0,
            )
            done_s = run.jobs["completion_s"]
            assert done_s[2] < done_s[1], (iterations, start)
