"""Contention under every mechanism, and the fluid model of it beside iterations one by one.

``python -m benchmarks.ada_srsf.mechanisms`` runs the job sets of Wang et al., "Communication
Contention Aware Scheduling of Multiple Deep Learning Training Jobs", in rounds, under leases and
iteration by iteration, all with the same law: a byte costs ``k b + (k - 1) eta`` where k transfers
share a server. Then a batch of gangs that fill the cluster, placed at random and alike in rounds
and in iterations, shows by how much the fluid models differ from iterations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from benchmarks.ada_srsf.runs import CLUSTER, MEMORY_GB, figures, means, options_with_sets
from benchmarks.experiment import Settings, parser, run_all, verdict
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

SETS, QUICK_SETS = 5, 1
RACKS = ap.Cluster.of_racks(2, machines_per_rack=8, gpus_per_machine=4, accelerator="v100")
SECONDS = 60.0
"""Length of rounds and leases."""

EXPECTED = "contention_expected"
NETWORKS = ("contention", EXPECTED)
MAX_MIN, DALLY = "max_min_fairness", "dally"
CONTENDED: tuple[tuple[str, str], ...] = (
    *((MAX_MIN, network) for network in ("none", *NETWORKS)),
    *((DALLY, network) for network in ("none", *NETWORKS)),
    *((name, "iterations") for name in ("ada_srsf", "srsf_1")),
)
FLUID = ("rounds, contention", "rounds, contention_expected")
BY_ITERATIONS = ("iterations, always", "iterations, at_most_1", "iterations, ada_dual")
NEAR = 0.1
"""A fluid model this near to iterations without a gate, relatively, counts as equal."""


def main() -> None:
    """Print completion times under every mechanism, and the fluid models beside iterations."""
    options = _options()
    print(f"Contention under every mechanism, on {machine()}")
    sets = range(options.sets)
    scale = 0.02 if options.quick else 1.0
    settings = [
        {"what": "contended", "set": number, "scale": scale, "policy": policy, "network": network}
        for number in sets
        for policy, network in CONTENDED
    ]
    runs = run_all(_contended, settings, options, "contended_mechanisms")
    print(
        f"160 jobs on 64 GPUs, {options.sets} sets; rounds and leases of {SECONDS:g} s; seconds, "
        f"means over sets"
    )
    show(means(runs, ["policy", "network"]), digits=4)
    settings = [
        {"what": "batch", "set": number, "scale": scale, "way": way}
        for number in sets
        for way in (*FLUID, *BY_ITERATIONS)
    ]
    batches = run_all(_batch, settings, options, "contended_mechanisms")
    beside = _beside(batches)
    print("\nGangs that fill 64 GPUs at random, over iterations without a gate:")
    show(beside)
    verdicts = [] if options.quick else _verdicts(beside)
    write_csv(runs, options.out, "contended_mechanisms_runs")
    write_csv(batches, options.out, "contended_mechanisms_batches")
    write_csv(beside, options.out, "contended_mechanisms", bars=True)
    write_csv(pd.DataFrame(verdicts), options.out, "contended_mechanisms_verdicts")


def _options() -> argparse.Namespace:
    text = f"{QUICK_SETS} set, a fiftieth of the length"
    what = parser("ada_srsf.mechanisms", "Contention under every mechanism.", text)
    return options_with_sets(what, SETS, QUICK_SETS)


def _contended(settings: Settings, data: Path | None) -> dict[str, float]:
    """Run a policy on a job set, its gangs slowed down by others or not."""
    workload = ap.generate_contended_workload(seed=settings["set"], scale=settings["scale"])
    policy, network = settings["policy"], settings["network"]
    if network == "iterations":
        run = ap.simulate(
            policy, workload, CLUSTER, gpu_memory_gb=MEMORY_GB, preemption_overhead_seconds=0.0
        )
    elif policy == DALLY:
        leases = ap.Leases(seconds=SECONDS, network=network)
        run = ap.simulate(policy, workload, RACKS, mechanism=leases)
    else:
        kind = None if network == "none" else network
        # Policies know types only, as where the others decide: what is compared is contention.
        rounds = ap.Rounds(seconds=SECONDS, network=kind, tiers=False)
        run = ap.simulate(policy, workload, CLUSTER, mechanism=rounds)
    return figures(run, settings["scale"])


def _batch(settings: Settings, data: Path | None) -> dict[str, Any]:
    """Run a batch of gangs that fill the cluster, placed at random, each where it is until done."""
    drawn = ap.generate_contended_workload(seed=settings["set"], scale=settings["scale"])
    gangs = drawn.jobs[drawn.jobs["scale_factor"].between(2, 16)]
    fits = gangs[gangs["scale_factor"].cumsum() <= CLUSTER.counts.sum()]
    workload = replace(drawn, jobs=fits.assign(arrival_s=0.0).reset_index(drop=True))
    mechanism, way = settings["way"].split(", ")
    given: dict[str, Any] = {"placement": "random", "seed": settings["set"]}
    given |= {"preemption_overhead_seconds": 0.0}
    if mechanism == "rounds":
        # Gangs lie as in queues: who meets whom is what is compared.
        given |= {"mechanism": "rounds", "tiers": False}
        run = ap.simulate("fifo", workload, CLUSTER, network=way, **given)
    else:
        own = ap.GatedScheduler("in order of arrival", order="fifo", gate=way, exclusive=True)
        run = ap.simulate(own, workload, CLUSTER, **given)
    placed = run.tables["schedule"].sort_values("job")["devices"].tolist()
    if len(placed) != len(workload.jobs):
        raise RuntimeError("A gang of the batch was moved.")
    return {
        "jct_s": " ".join(f"{each / settings['scale']:.3f}" for each in run.jobs["jct_s"]),
        "placed": str(placed),
    }


def _beside(batches: pd.DataFrame) -> pd.DataFrame:
    """Return mean completion times over those of iterations without a gate, job by job."""
    if (batches.groupby("set")["placed"].nunique() > 1).any():
        raise RuntimeError("The batches are not placed alike.")
    jct_s = {
        (row["way"], row["set"]): np.array(row["jct_s"].split(), dtype=float)
        for row in batches.to_dict("records")
    }
    rows: list[dict[str, Any]] = []
    for way in dict.fromkeys(batches["way"]):
        sets = sorted(set(batches["set"]))
        each = [jct_s[way, number] / jct_s[BY_ITERATIONS[0], number] for number in sets]
        means = [
            jct_s[way, number].mean() / jct_s[BY_ITERATIONS[0], number].mean() for number in sets
        ]
        spread = np.concatenate(each)
        rows.append(
            {
                "way": way,
                "mean JCT over": float(np.mean(means)),
                "least set": min(means),
                "most set": max(means),
                "least job": float(spread.min()),
                "most job": float(spread.max()),
            }
        )
    return pd.DataFrame(rows)


def _verdicts(beside: pd.DataFrame) -> list[dict[str, str]]:
    of: dict[str, dict[Any, Any]] = {row["way"]: row for row in beside.to_dict("records")}
    found = []
    for way in FLUID:
        ratio = of[way]["mean JCT over"]
        claim = f"{way}: mean completion time within {NEAR:.0%} of iterations without a gate"
        evidence = f"{ratio:.3f}, jobs {of[way]['least job']:.2f}-{of[way]['most job']:.2f}"
        found.append(verdict(claim, bool(abs(ratio - 1) <= NEAR), evidence))
    return found


if __name__ == "__main__":
    main()
