"""The two scenarios of CASSINI's paper, with the placement that each scheduler picks.

``python -m benchmarks.cassini.scenarios [--quick]``. Dynamic: VGG16, RoBERTa and a DLRM run on 24
servers of one GPU when another DLRM and a ResNet50 arrive. Two GPUs: XLM and ResNet50 hold three
GPUs each of six servers of two when a DLRM of five arrives. Numbers of GPUs where the paper names
none are chosen so that the new DLRM must meet somebody. Schedulers decide, then jobs go through
their phases where they are, as long as all of them run.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

import apportion as ap
from apportion.mechanism.time_shifts import rank_placements
from apportion.sim.links import PhaseJob, run_phases
from apportion.sim.network import communication_profile, get_topology, jobs_on_links
from apportion.sim.network.cassini import CassiniNetwork
from benchmarks.cassini.poisson import fewer
from benchmarks.experiment import claimed
from benchmarks.papers.claims import Figure
from benchmarks.reporting import add_out, kept

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.sim.network import Topology

    Profiles = Mapping[str, ap.CommunicationProfile]
    Gangs = dict[str, list[int]]

HOSTS: tuple[tuple[str, str, str], ...] = (
    ("Themis", "themis", "leases"),
    ("max-min", "max_min_fairness", "rounds"),
    ("Dally", "dally", "leases"),
)
LOOKED_AT_S, ARRIVES_S, RUNS_S = 3000.0, 700.0, 9000.0
DUTIES = {"DLRM": 0.6, "ResNet50": 0.3, "XLM": 0.6, "VGG16": 0.4, "RoBERTa": 0.5, "VGG11": 0.4}
"""Assumed parts of an iteration in which a model sends, so that a DLRM suits a ResNet50 and
neither another DLRM nor XLM, as in the paper."""

CASES = (
    ("derived", True, 0.0),
    ("assumed", False, 0.0),
    ("assumed, computations vary by 1 %", False, 0.01),
)
"""Name, whether profiles are derived from sizes, and how much computations vary."""


class Scenario(NamedTuple):
    """Who arrives when, wanting how many GPUs, for how long, seconds."""

    name: str
    topology: str
    jobs: tuple[tuple[str, int, float, float], ...]


SCENARIOS = (
    Scenario(
        "dynamic",
        "cassini",
        (
            ("VGG16", 4, 0.0, RUNS_S),
            ("RoBERTa", 6, 1.0, RUNS_S),
            ("DLRM", 5, 2.0, RUNS_S),
            ("DLRM", 5, ARRIVES_S, RUNS_S),
            ("ResNet50", 4, ARRIVES_S + 1, RUNS_S),
        ),
    ),
    Scenario(
        "two GPUs",
        "cassini_two_gpus",
        (
            ("XLM", 3, 0.0, RUNS_S),
            ("VGG11", 1, 1.0, ARRIVES_S / 2),  # so that XLM and ResNet50 do not meet already
            ("ResNet50", 3, 2.0, RUNS_S),
            ("DLRM", 5, ARRIVES_S, RUNS_S),
        ),
    ),
)


def cluster_of(scenario: Scenario) -> ap.Cluster:
    if scenario.topology == "cassini":
        return ap.Cluster({"a100": 24}, gpus_per_machine=1, machines_per_rack=2)
    return ap.Cluster({"a100": 12}, gpus_per_machine=2, machines_per_rack=6)


def profiles_of(scenario: Scenario, *, derived: bool) -> dict[str, ap.CommunicationProfile]:
    """Profiles from sizes on four GPUs, or on and off in one period with the duties above."""
    models = {model for model, *_ in scenario.jobs}
    if derived:
        return {model: communication_profile(model, gpus=4) for model in models}
    return {
        model: ap.CommunicationProfile(model, 0.3, [(0.0, 0.3 * DUTIES[model], 50.0)])
        for model in models
    }


def placed(
    scenario: Scenario, host: tuple[str, str, str], placement: str, profiles: Profiles
) -> Gangs:
    """Where the gangs are, by name, when all have arrived."""
    names, sizes, arrivals, seconds = zip(*scenario.jobs, strict=True)
    periods = np.array([profiles[name].period_s for name in names])
    table = pd.DataFrame(
        {
            "arrival_s": arrivals,
            "job_type": names,
            "scale_factor": sizes,
            "total_steps": np.round(np.array(seconds) / periods),
        }
    )
    rows = pd.MultiIndex.from_product(
        [sorted(profiles), sorted(set(sizes))], names=["job_type", "scale_factor"]
    )
    speeds = pd.DataFrame({"a100": [1 / profiles[model].period_s for model, _ in rows]}, index=rows)
    _, policy, mechanism = host
    run = ap.simulate(
        policy,
        ap.Workload(scenario.name, table, speeds),
        cluster_of(scenario),
        mechanism=mechanism,
        preemption_overhead_seconds=0.0,
        placement=placement,
        network=CassiniNetwork(profiles=profiles),
    )
    there = run.schedule
    there = there[(there["start_s"] <= LOOKED_AT_S) & (there["end_s"] > LOOKED_AT_S)]
    found: Gangs = {}
    for job, devices in zip(there["job"], there["devices"], strict=True):
        name = names[job]
        found[name if name not in found else f"new {name}"] = list(devices)
    return found


class Measured(NamedTuple):
    """Mean and P99 of iterations over those alone; the same of DLRMs, and their marks, Gb/s.

    And how often a minute the job that drifts most waits for its time again.
    """

    mean: float
    p99: float
    dlrm: float
    marks: float
    readjusted: float


class Told(NamedTuple):
    """Whom the new DLRM meets, and what was measured, by the host itself and with CASSINI."""

    met: tuple[str, str]
    before: Measured
    ours: Measured


MEETS = {"dynamic": ("DLRM", "ResNet50"), "two GPUs": ("XLM", "ResNet50")}
"""Whom the new DLRM meets in the paper, by Themis and with CASSINI."""


def measure(
    topology: Topology,
    gangs: Gangs,
    profiles: Profiles,
    *,
    shifted: bool,
    jitter: float,
    draws: int,
) -> Measured:
    """Let jobs go through their phases; who is shifted waits where it drifts by 5 %."""
    known = {job: profiles[job.removeprefix("new ")].named(job) for job in gangs}
    planned: Mapping[Any, float] = {}
    shared = {link: jobs for link, jobs in jobs_on_links(topology, gangs).items() if len(jobs) > 1}
    if shifted and shared:
        meeting = {job: known[job] for jobs in shared.values() for job in jobs}
        (ranked,) = rank_placements([shared], meeting, topology.capacities)
        if all(found.commensurate for found in ranked.links.values()):
            planned = ranked.shifts_s
    rng = np.random.default_rng(0)
    took, of_dlrm, marks, often = [], [], [], [0.0]
    for draw in range(draws):
        starts = {job: float(rng.uniform(0, each.period_s)) for job, each in known.items()}
        starts |= planned
        jobs = {
            job: PhaseJob(known[job], topology.links_of(gangs[job]), starts[job]) for job in gangs
        }
        run = run_phases(
            jobs,
            topology.capacities,
            iterations=200 if jitter else 40,
            jitter=jitter,
            readjust=0.05 if planned else None,
            random_seed=draw,
        )
        longer = {job: run.iterations_s(job, after=5) / known[job].period_s for job in gangs}
        took.append(np.concatenate(list(longer.values())))
        dlrms = [job for job in gangs if job.endswith("DLRM")]
        of_dlrm.append(np.concatenate([longer[job] for job in dlrms]))
        marks.append(sum(run.marks_gigabits[job] for job in dlrms) / run.end_s / len(dlrms))
        often += [60 * times / run.end_s for times in run.readjusted.values()]
    every = np.concatenate(took)
    return Measured(
        float(np.mean([each.mean() for each in took])),
        float(np.quantile(every, 0.99)),
        float(np.concatenate(of_dlrm).mean()),
        float(np.mean(marks)),
        max(often),
    )


def whom_it_meets(topology: Topology, gangs: Gangs) -> str:
    """Who shares a link with the DLRM that came last."""
    newest = "new DLRM" if "new DLRM" in gangs else "DLRM"
    links = jobs_on_links(topology, gangs).values()
    met = {job for jobs in links if newest in jobs for job in jobs} - {newest}
    return " and ".join(sorted(met)) or "nobody"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="Themis, one draw")
    add_out(parser)
    given = parser.parse_args()
    with kept(given.out, "cassini_scenarios"):
        run(given)


def run(given: argparse.Namespace) -> None:
    quick = given.quick
    hosts, draws = (HOSTS[:1], 1) if quick else (HOSTS, 5)
    print(
        "| scenario | profiles | host | placement | new DLRM meets | mean | P99 | DLRM "
        "| marks of DLRM, Gb/s | gain: mean, P99, DLRM | fewer marks |"
    )
    print("|" + "---|" * 11)
    found: dict[tuple[str, str, str], Told] = {}
    for scenario in SCENARIOS:
        for case in CASES:
            profiles = profiles_of(scenario, derived=case[1])
            alike: dict[str, tuple[list[Gangs], list[str]]] = {}  # hosts that place gangs alike
            for host in hosts:
                both = [
                    placed(scenario, host, way, profiles) for way in ("consolidated", "cassini")
                ]
                alike.setdefault(str(both), (both, []))[1].append(host[0])
            for both, names in alike.values():
                told = report(scenario, case, ", ".join(names), both, draws)
                found |= {(scenario.name, case[0], name): told for name in names}
    if not quick:
        judge(found)


def judge(found: dict[tuple[str, str, str], Told]) -> None:
    """Judge the claims of both scenarios, over Themis with derived profiles if none is named."""
    claims: dict[str, list[Figure]] = {}
    for scenario, start, hosts in (
        ("dynamic", "dynamic", ("Themis", "max-min", "Dally")),
        ("two GPUs", "two-gpus", ("Themis", "Dally")),
    ):
        claims[f"{start}-who"] = [
            Figure(host, float(found[scenario, CASES[0][0], host].met == MEETS[scenario]))
            for host in hosts
        ]
        _, before, ours = found[scenario, CASES[0][0], "Themis"]
        claims[f"{start}-mean"] = [Figure("derived profiles", before.mean / ours.mean)]
        claims[f"{start}-p99"] = [Figure("derived profiles", before.p99 / ours.p99)]
    _, before, ours = found["dynamic", CASES[0][0], "Themis"]
    claims["marks"] = [Figure("derived profiles", before.marks / ours.marks)]
    claims["drift"] = [
        Figure(scenario, found[scenario, CASES[-1][0], "Themis"].ours.mean) for scenario in MEETS
    ]
    claims["readjusted"] = [
        Figure(scenario, found[scenario, CASES[-1][0], "Themis"].ours.readjusted)
        for scenario in MEETS
    ]
    for name, figures in claims.items():
        claimed("cassini", name, figures)


def report(
    scenario: Scenario, case: tuple[str, bool, float], hosts: str, both: list[Gangs], draws: int
) -> Told:
    """Print what becomes of jobs where schedulers put them by themselves, and with CASSINI."""
    topology, (name, derived, jitter) = get_topology(scenario.topology), case
    profiles = profiles_of(scenario, derived=derived)
    before, ours = (
        measure(topology, gangs, profiles, shifted=shifted, jitter=jitter, draws=draws)
        for gangs, shifted in zip(both, (False, True), strict=True)
    )
    for gangs, found, way in zip(both, (before, ours), ("its own", "with CASSINI"), strict=True):
        shown = [scenario.name, name, hosts, way, whom_it_meets(topology, gangs)]
        shown += [f"{each:.2f}" for each in found[:-1]]
        gains = [before[k] / found[k] for k in range(3)]
        shown.append("" if found is before else ", ".join(f"{each:.2f}" for each in gains))
        shown.append("" if found is before else fewer(before.marks, found.marks))
        print("| " + " | ".join(shown) + " |", flush=True)
    return Told((whom_it_meets(topology, both[0]), whom_it_meets(topology, both[1])), before, ours)


if __name__ == "__main__":
    main()
