"""CASSINI as a part of schedulers: their placement, and one whose links suit the jobs.

``python -m benchmarks.cassini.hosts [--quick] [--hosts dally,themis] [--jobs 60] [--seeds 4]
[--first 0]``.
Poisson arrivals keep 24 servers of one GPU busy; gangs of 2 to 6 GPUs. Iterations take
(2 - score) of their time alone. Mean completion times are compared with those of shifts alone, with
95 % intervals over paired workloads.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.sim.network import communication_profile
from apportion.sim.network.cassini import CassiniNetwork
from apportion.statistics import mean_interval
from benchmarks.reporting import add_out, kept

MODELS = ("VGG11", "VGG16", "ResNet50", "BERT", "RoBERTa", "CamemBERT")
HOSTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("max_min_fairness", "rounds", {"round_seconds": 600}),
    ("themis", "leases", {"lease_seconds": 600}),
    ("dally", "leases", {"lease_seconds": 600}),
)
CLUSTER = ap.Cluster({"a100": 24}, gpus_per_machine=1, machines_per_rack=2)
PARTS = (
    ("starts at random", "consolidated", False),
    ("shifts", "consolidated", True),
    ("shifts and placement", "cassini", True),
    ("shifts and gang by gang", "cassini_by_gang", True),
)


def measured_profiles() -> dict[str, ap.CommunicationProfile]:
    """Profiles of the models on four GPUs, whatever the gang."""
    return {model: communication_profile(model, gpus=4) for model in MODELS}


def harmonic_profiles() -> dict[str, ap.CommunicationProfile]:
    """Jobs of one name each that send on and off, with periods of 0.24 and 0.48 s."""
    duties = (0.45, 0.35, 0.25, 0.5, 0.3, 0.2)
    return {
        model: ap.CommunicationProfile(model, period, [(0.0, duty * period, 50.0)])
        for model, duty, period in zip(MODELS, duties, (0.24, 0.48) * 3, strict=True)
    }


PROFILES = {"models": measured_profiles, "harmonic": harmonic_profiles}


def workload(profiles: dict[str, ap.CommunicationProfile], jobs: int, seed: int) -> ap.Workload:
    """Jobs of 10 to 90 minutes alone; 24 GPUs are wanted about 0.9 of the time."""
    rng = np.random.default_rng(seed)
    scale, seconds = rng.integers(2, 7, jobs), rng.uniform(600, 5400, jobs)
    models = rng.choice(MODELS, jobs)
    gap_s = scale.mean() * seconds.mean() / (0.9 * 24)
    periods = np.array([profiles[model].period_s for model in models])
    table = pd.DataFrame(
        {
            "arrival_s": np.cumsum(rng.exponential(gap_s, jobs)),
            "job_type": models,
            "scale_factor": scale,
            "total_steps": np.round(seconds / periods),
        }
    )
    rows = pd.MultiIndex.from_product([MODELS, range(2, 7)], names=["job_type", "scale_factor"])
    speed = [1 / profiles[model].period_s for model, _ in rows]
    return ap.Workload("poisson", table, pd.DataFrame({"a100": speed}, index=rows))


def jct_of(
    host: tuple[str, str, dict[str, Any]],
    jobs: ap.Workload,
    part: tuple[str, str, bool],
    profiles: dict[str, ap.CommunicationProfile],
) -> tuple[float, float, float]:
    """Mean and 99th percentile of completion times, and the makespan, hours."""
    policy, mechanism, settings = host
    _, placement, shifted = part
    run = ap.simulate(
        policy,
        jobs,
        CLUSTER,
        mechanism=mechanism,
        preemption_overhead_seconds=0.0,
        placement=placement,
        network=CassiniNetwork(profiles=profiles, shifted=shifted),
        **settings,
    )
    hours = (run.jobs["completion_s"] - run.jobs["arrival_s"]) / 3600
    return (
        float(hours.mean()),
        float(hours.quantile(0.99)),
        float(run.jobs["completion_s"].max() / 3600),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="12 jobs, two workloads")
    parser.add_argument("--hosts", default=",".join(host[0] for host in HOSTS))
    parser.add_argument("--profiles", default=",".join(PROFILES))
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="seed of the first workload")
    add_out(parser)
    given = parser.parse_args()
    with kept(given.out, "cassini_hosts"):
        run(given)


def run(given: argparse.Namespace) -> None:
    jobs, seeds = (12, 2) if given.quick else (given.jobs, given.seeds)
    print("| profiles | host | part | mean JCT, h | P99 | makespan | mean JCT over shifts alone |")
    print("|---|---|---|---|---|---|---|")
    for name in given.profiles.split(","):
        profiles = PROFILES[name]()
        loads = [workload(profiles, jobs, seed) for seed in range(given.first, given.first + seeds)]
        for host in (each for each in HOSTS if each[0] in given.hosts.split(",")):
            found = {
                part[0]: np.array([jct_of(host, load, part, profiles) for load in loads])
                for part in PARTS
            }
            for part, figures in found.items():
                mean, tail, end = figures.mean(axis=0)
                ratio = mean_interval(figures[:, 0] / found["shifts"][:, 0])
                print(
                    f"| {name} | {host[0]} | {part} | {mean:.3f} | {tail:.3f} | {end:.2f} "
                    f"| {ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}] |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
