"""Deciders, topologies, and what is done about links: iterations, completion times, tails, marks.

``python -m benchmarks.cassini.deciders [--quick] [--seeds 5] [--jobs 40] [--out FOLDER]
[--minutes 25] [--profiles harmonic,models] [--topologies ...] [--ways ...]``. The workloads of
`benchmarks.cassini.hosts` on 24 servers; iterations as the engine of phases has them. Ratios are to
the same decider and workload without shifts and with random starts, with 95 % intervals over
paired seeds. Claims of the paper are judged by ``--ways none cassini together`` alone. With
``--out`` each run is written as it ends, and another call goes on from there; ``--minutes`` ends
one.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any, NamedTuple

import numpy as np

import apportion as ap
from apportion.mechanism.deciders import get_scheduler
from apportion.sim.network import ParallelUplinks, PhaseNetwork, get_topology, leaf_spine
from apportion.statistics import mean_interval
from benchmarks.cassini.hosts import CLUSTER, MODELS, PROFILES, workload
from benchmarks.experiment import claimed
from benchmarks.papers.claims import Figure
from benchmarks.reporting import add_out, kept

DECIDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "max_min_fairness": ("rounds", {"round_seconds": 600}),
    "finish_time_fairness": ("rounds", {"round_seconds": 600}),
    "themis": ("leases", {"lease_seconds": 600}),
    "dally": ("leases", {"lease_seconds": 600}),
    "tiresias": ("leases", {"lease_seconds": 600}),
}
TOPOLOGIES = ("cassini_leaves_of_four", "leaves of four, pooled", "cassini")
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "none": ("consolidated", {"shifted": False}),
    "phases": ("consolidated", {}),
    "cassini": ("cassini", {}),
    "together": ("consolidated", {"shifted": False, "starts": 0}),
}
"""Placement and network: random starts, shifts alone, placement by links and shifts; last, nobody
shifted, and all that meet started together."""

SKEWS = dict.fromkeys(MODELS, 0.05) | dict.fromkeys(("VGG11", "VGG16"), 0.77)
"""Of the models, for Tiresias: that of VGG11 and of the like of BERT in Dally's files."""

FIGURES = ("iteration / alone", "P99", "mean JCT, h", "Gb marked an iteration")


class Key(NamedTuple):
    """What a run is about."""

    profiles: str
    topology: str
    decider: str
    way: str
    seed: int
    jobs: int


def topology_of(name: str) -> Any:
    """Return a topology; of pooled uplinks the tree alone, of leaves of eight four uplinks each."""
    if name == "leaves of eight":
        tree: dict[str, Any] = {
            "servers": 24,
            "gpus_per_server": 1,
            "servers_per_leaf": 8,
            "server_gbps": 50.0,
        }
        return ParallelUplinks(leaf_spine(name, **tree, oversubscription=2.0), {"leaf": 4})
    known: Any = get_topology("cassini_leaves_of_four")
    return known.tree if name.endswith("pooled") else get_topology(name)


def figures(key: Key) -> list[float]:
    """Mean and P99 of an iteration over that alone, of completion times, hours, and marks."""
    profiles = PROFILES[key.profiles]()
    mechanism, settings = DECIDERS[key.decider]
    placement, network = WAYS[key.way]
    decider: Any = key.decider
    if decider == "tiresias":
        decider = get_scheduler(decider, skews=SKEWS)
    run = ap.simulate(
        decider,
        workload(profiles, key.jobs, key.seed),
        CLUSTER,
        mechanism=mechanism,
        preemption_overhead_seconds=0.0,
        placement=placement,
        network=PhaseNetwork(profiles=profiles, topology=topology_of(key.topology), **network),
        **settings,
    )
    hours = run.jobs["jct_s"] / 3600
    marks = run.tables["iteration_times"]["marks_gigabits"].to_numpy(dtype=float)[-1]
    made = run.tables["iterations"].sort_values("iteration_s")
    alone_s = made["model"].map({model: each.period_s for model, each in profiles.items()})
    slowdown = (made["iteration_s"] / alone_s).sort_values()
    counted = made.loc[slowdown.index, "iterations"].cumsum()
    tail = slowdown[counted >= 0.99 * counted.iloc[-1]].iloc[0]
    mean = float(run.tables["links"]["slowdown"].mean())
    return [mean, float(tail), float(hours.mean()), float(hours.quantile(0.99)), float(marks)]


def told(ratios: Any) -> str:
    """Write a mean and its interval."""
    found = mean_interval(ratios)
    return f"{found.estimate:.2f} [{found.low:.2f}, {found.high:.2f}]"


def rows(known: dict[Key, list[float]]) -> None:
    """Print a row for each decider: means of the ways, and ratios to none, of seeds with all."""
    ways = ", ".join(WAYS)
    heads = ["profiles", "topology", "decider", "seeds", f"iteration / alone: {ways}"]
    heads += [*FIGURES[1:], "iteration over none: cassini"]
    heads += [f"JCT over none: {way}" for way in ("phases", "cassini")]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for kind, topology, decider in sorted({key[:3] for key in known}):
        by_seed = [
            [known.get(Key(kind, topology, decider, way, key.seed, key.jobs)) for way in WAYS]
            for key in sorted(known)
            if key[:4] == (kind, topology, decider, "none")
        ]
        whole = np.array([each for each in by_seed if None not in each], dtype=float)
        if len(whole) < 2:
            continue
        means = [", ".join(f"{way[at]:.2f}" for way in whole.mean(axis=0)) for at in (0, 1, 2, 4)]
        place = {way: number for number, way in enumerate(WAYS)}
        ratios = [("cassini", 0), ("phases", 2), ("cassini", 2)]
        compared = [told(whole[:, place[way], at] / whole[:, 0, at]) for way, at in ratios]
        cells = [kind, topology, decider, str(len(whole)), *means, *compared]
        print("| " + " | ".join(cells) + " |")


def summaries(known: dict[Key, list[float]], *, judged: bool) -> None:
    """Print ratios over all topologies, and the largest gains."""
    for way, to in (("phases", "none"), ("cassini", "phases")):
        print(f"\nmean JCT of {way} over {to}, seeds as means over topologies")
        for kind, decider in sorted({(key.profiles, key.decider) for key in known}):
            ratio = paired(known, kind, decider, way, to)
            if len(ratio) > 1:
                print(f"| {kind} | {decider} | {told(ratio)} | {len(ratio)} seeds |")
    print("\n| profiles | topology | figure | most that CASSINI gains |\n" + "|---" * 4 + "|")
    most: dict[str, list[tuple[float, str]]] = {"mean": [], "P99": [], "marks": []}
    for kind, topology in sorted({(key.profiles, key.topology) for key in known}):
        for figure, every in most.items():
            gained, words = most_gained(known, kind, topology, figure)
            print(f"| {kind} | {topology} | {figure} | {words} |")
            if kind == "models":
                every.append((gained, f"{topology}: {words}"))
    if judged and most["mean"]:
        for name, figure in (("mean-data", "mean"), ("p99-data", "P99")):
            gained, case = max(most[figure])
            claimed("cassini", name, [Figure(case, gained)])


def paired(
    known: dict[Key, list[float]], kind: str, decider: str, way: str, to: str
) -> list[float]:
    """Ratios of mean completion times by seed, of seeds with all topologies."""
    by_seed: dict[int, list[float]] = {}
    for key, found in known.items():
        if (key.profiles, key.decider, key.way) == (kind, decider, way):
            before = known.get(key._replace(way=to))
            if before is not None:
                by_seed.setdefault(key.seed, []).append(found[2] / before[2])
    whole = max(map(len, by_seed.values()), default=0)
    return [float(np.mean(each)) for each in by_seed.values() if len(each) == whole]


def most_gained(
    known: dict[Key, list[float]], kind: str, topology: str, figure: str
) -> tuple[float, str]:
    """Return the most that CASSINI gains, and with which decider and starts of the host."""
    gains: dict[tuple[str, str], list[tuple[float, float]]] = {}
    at = {"mean": 0, "P99": 1, "marks": 4}[figure]
    for key, found in known.items():
        if (key.profiles, key.topology) == (kind, topology) and key.way in ("none", "together"):
            own = known.get(key._replace(way="cassini"))
            if own is not None:
                gains.setdefault((key.decider, key.way), []).append((found[at], own[at]))
    means = {who: np.mean(both, axis=0) for who, both in gains.items()}
    (decider, start), (host, own) = max(means.items(), key=lambda each: each[1][0] / each[1][1])
    starts = "together" if start == "together" else "at random"
    words = f"{host / own:.2f}, {decider}, starts {starts}: {host:.3f} -> {own:.3f}"
    return float(host / own), words


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 jobs, two seeds, one decider")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--profiles", default="harmonic,models")
    parser.add_argument("--topologies", nargs="*", default=TOPOLOGIES)
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--minutes", type=float, default=np.inf, help="after which no run begins")
    add_out(parser)  # and a line for each run, from which it goes on
    given = parser.parse_args()
    with kept(given.out, "cassini_deciders"):
        run(given)


def run(given: argparse.Namespace) -> None:
    """Run what is not in the file yet, and print the tables."""
    quick = given.quick
    keys = [
        Key(kind, topology, decider, way, seed, 8 if quick else given.jobs)
        for kind in (["harmonic"] if quick else given.profiles.split(","))
        for seed in range(2 if quick else given.seeds)
        for topology in (TOPOLOGIES[:1] if quick else given.topologies)
        for decider in (["themis"] if quick else DECIDERS)
        for way in given.ways
    ]
    known: dict[Key, list[float]] = {}
    store = given.out and given.out / "cassini_deciders.runs.jsonl"
    if store and store.exists():
        lines = map(json.loads, store.read_text().splitlines())
        known = {Key(*line["about"]): line["figures"] for line in lines}
    began = time.monotonic()
    for key in keys:
        if key in known or time.monotonic() - began > 60 * given.minutes:
            continue
        known[key] = figures(key)
        if store:
            store.parent.mkdir(parents=True, exist_ok=True)
            with store.open("a") as file:
                file.write(json.dumps({"about": key, "figures": known[key]}) + "\n")
    asked = {key: known[key] for key in keys if key in known}
    rows(asked)
    summaries(asked, judged=not quick)


if __name__ == "__main__":
    main()
