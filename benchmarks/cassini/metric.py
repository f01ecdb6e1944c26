"""Whether placing by links leaves what the host has decided, and its own metric, as they are.

``python -m benchmarks.cassini.metric`` runs the jobs of `benchmarks.cassini.matrix` on 24 servers
with the host's placement and with CASSINI's, both without shifts. At every decision all candidates
are set beside the host's placement: how many gangs have other numbers of GPUs or another tier. Over
whole runs, in which jobs are faster or slower where they lie, it is the worst finish-time fairness,
the metric of Themis, with CASSINI's placement over that with the host's, by seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apportion as ap
from apportion.mechanism.placements.compatible import Compatible
from apportion.mechanism.scheduler import tier_of
from apportion.statistics import paired, to_markdown
from benchmarks.cassini.matrix import HOSTS, SENDS, SERVERS, workload_of
from benchmarks.experiment import claimed, parser, run_all
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, write_csv

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from apportion.mechanism.devices import Devices
    from apportion.mechanism.placements.strategy import Gang
    from apportion.mechanism.scheduler import Placement

OWN, BY_LINKS = "its own", "by links"
COUNTS = ("decisions", "gangs", "changed", "moved")
"""Gangs of all candidates but the host's; of these, with other GPUs or tier, and elsewhere."""


def watched() -> tuple[type[Compatible], dict[str, int]]:
    """Return CASSINI's placement that counts what candidates change, and the counts."""
    seen: dict[str, int] = {name: 0 for name in COUNTS}

    class Watched(Compatible):
        """As `Compatible`; every candidate is set beside the first, which is the host's."""

        def _best(
            self,
            gangs: Sequence[Gang],
            candidates: Sequence[tuple[Placement, ...]],
            devices: Devices,
        ) -> tuple[tuple[Placement, ...], int, bool]:
            seen["decisions"] += 1
            for candidate in candidates[1:]:
                for own, other in zip(candidates[0], candidate, strict=True):
                    seen["gangs"] += 1
                    seen["changed"] += decided(own) != decided(other)
                    seen["moved"] += own != other
            return super()._best(gangs, candidates, devices)

    return Watched, seen


def decided(where: Placement) -> tuple[int, int]:
    """Return what the host decides of a placement: the number of GPUs and the tier."""
    return sum(part[-1] for part in where), tier_of(where)


def play(settings: Mapping[str, Any], _data: Path | None) -> dict[str, Any]:
    """Run one host one way."""
    placement, seen = watched()
    by_links: dict[str, Any] = {"placement": placement} if settings["way"] == BY_LINKS else {}
    run = ap.simulate(
        settings["host"],
        workload_of(settings),
        ap.Cluster({"a100": 24}, gpus_per_machine=1, machines_per_rack=2),
        network="phases_unshifted",
        topology=SERVERS[settings["servers"]],
        **HOSTS[settings["host"]],
        **by_links,
    )
    return {"worst": float(run.jobs["ftf"].max()), **seen}


def main() -> None:
    """Run, print, judge."""
    first = (__doc__ or "").partition("\n")[0]
    options = parser("cassini.metric", first, "five jobs, one seed, Themis")
    options.add_argument("--seeds", type=int, default=5)
    args = options.parse_args()
    settings = [
        {"host": host, "jobs send": sends, "servers": "24 x 1", "way": way, "seed": seed}
        | {"jobs": 5 if args.quick else 12}
        for host in (["themis"] if args.quick else ["themis", "max_min_fairness"])
        for sends in (["model"] if args.quick else SENDS)
        for seed in range(1 if args.quick else args.seeds)
        for way in (OWN, BY_LINKS)
    ]
    runs = run_all(play, settings, args, "cassini_metric")
    keys = ["host", "jobs send"]
    table = runs[runs["way"] == BY_LINKS].groupby(keys, sort=False)[[*COUNTS]].sum().reset_index()
    worst = {key: _worst(here) for key, here in runs.groupby(keys, sort=False)}
    table["worst finish-time fairness, by links / its own"] = [
        f"{each.value:.3f} [{each.low:.3f}, {each.high:.3f}]" for each in worst.values()
    ]
    print(to_markdown(table))
    write_csv(runs, args.out, "cassini_metric_runs")
    write_csv(table, args.out, "cassini_metric")
    if not args.quick:
        cases = zip(table["host"], table["jobs send"], table["changed"], strict=True)
        changed = [Figure(f"{host}, {sends}", float(count)) for host, sends, count in cases]
        claimed("cassini", "candidates", changed)
        themis = [each for key, each in worst.items() if key[0] == "themis"]
        claimed("cassini", "host-metric", themis)
    print(machine())


def _worst(runs: pd.DataFrame) -> Figure:
    """Return the worst finish-time fairness by links over the host's own, paired by seed."""
    own, ours = (runs[runs["way"] == way].set_index("seed")["worst"] for way in (OWN, BY_LINKS))
    found = paired(ours, own, ratio=True)
    return Figure(str(runs["jobs send"].iloc[0]), found.estimate, found.low, found.high)


if __name__ == "__main__":
    main()
