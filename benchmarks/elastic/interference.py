"""Pollux where distributed jobs slow each other down: gangs kept apart, and packed anywhere.

``python -m benchmarks.elastic.interference`` runs the workloads of Pollux's artifact (see
`benchmarks.elastic.pollux`) on a network of its own. As in the artifact's simulator, a gang in
several machines makes half of its progress while another one of several machines has GPUs in one
of its machines. Kept apart, gangs have powers of two GPUs within a machine, or whole machines, so
that no two distributed ones meet; the artifact's search corrects what it finds in the same sense.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import apportion as ap
from apportion.sim.engine import Speeds
from apportion.statistics import to_markdown
from benchmarks.elastic.runs import POLLUX, as_figure, figures, in_words, paired, workload_of
from benchmarks.experiment import claimed, parser, run_all
from benchmarks.reporting import machine, write_csv

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from apportion.mechanism.decider import About
    from apportion.mechanism.machines import Layout
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.network.shapes import Shape
    from apportion.types import Bools, Floats

LOST = 0.5
"""Part of their progress that gangs lose which meet, as the artifact assumes; ``--lost``."""

APART, ANYWHERE, ALONE = "kept apart", "anywhere", "anywhere, nothing lost"
WAYS = {APART: "whole_nodes", ANYWHERE: "every", ALONE: "every"}
"""Sizes of gangs."""


@dataclass(frozen=True)
class Interference:
    """A network on which gangs of several machines that share one lose a part of their speed."""

    lost: float
    name: str = "interference"

    def overhead(self, _job_type: str, _shape: Shape) -> float:
        """Return what a gang loses that meets nobody: nothing."""
        return 0.0

    def speeds(self, alone: Speeds, about: About) -> Speeds:
        """Return how fast gangs are; `alone` is without the others."""
        return MeetingSpeeds(alone, about.layout, self.lost)


class MeetingSpeeds(Speeds):
    """Progress of gangs of which those lose a part that meet, see `Interference`."""

    def __init__(self, alone: Speeds, layout: Layout, lost: float) -> None:
        self._alone, self._layout, self._lost = alone, layout, lost

    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        """Return the progress per second of every line, shape (lines,)."""
        here = np.ones(gangs.job.size, dtype=bool) if there is None else there
        meets = here & met(machines_of_gangs(gangs, self._layout), here)
        rates: Floats = self._alone.rates(gangs, there) * np.where(meets, 1 - self._lost, 1.0)
        return rates


def machines_of_gangs(gangs: Gangs, layout: Layout) -> list[set[tuple[int, int, int]]]:
    """Return the machines of each line: type, rack and number."""
    return [
        {(held[0], rack, number) for rack, number, _ in layout.placement(held)}
        for held in gangs.at_work
    ]


def met(machines: list[set[tuple[int, int, int]]], there: Bools) -> Bools:
    """Tell which gangs of several machines share one with another such gang that is there."""
    spread = [each if len(each) > 1 else set() for each in machines]
    among = Counter(
        one for each, is_there in zip(spread, there, strict=True) if is_there for one in each
    )
    return np.array([any(among[one] > 1 for one in each) for each in spread], dtype=bool)


def play(settings: Mapping[str, Any], data: Path | None) -> dict[str, Any]:
    """Run one workload one way."""
    workload = workload_of(settings, data)
    sizes, lost = WAYS[settings["way"]], settings["lost"]
    how = ap.Configurations(restart_seconds=30.0, gang_sizes=sizes, network=Interference(lost))
    run = ap.simulate("pollux", workload, ap.Cluster({"t4": settings["gpus"]}), mechanism=how)
    return figures(run, workload)


def main() -> None:
    """Run and print."""
    options = parser("elastic.interference", (__doc__ or "").partition("\n")[0], "few jobs")
    options.set_defaults(data=POLLUX)
    options.add_argument("--lost", type=float, default=LOST, help="by gangs that meet, a part")
    args = options.parse_args()
    if args.quick or not args.data.is_dir():
        print("Jobs are generated.")
        args.data = args.data / "nowhere"
    shape = {"seed": -1, "jobs": 8 if args.quick else 160, "gpus": 16 if args.quick else 64}
    numbers = (1, 2) if args.quick else (1, 2, 3, 4)
    settings = [
        {"workload": each, "way": way, "lost": 0.0 if way == ALONE else args.lost, **shape}
        for each in numbers
        for way in WAYS
    ]
    runs = run_all(play, settings, args, "elastic_interference")
    shown = runs[["workload", "way", "mean h", "p99 h", "restarts", "used"]]
    print(f"\n{to_markdown(shown)}\n")
    write_csv(shown, args.out, "elastic_interference", bars=True)
    for one, other in ((APART, ANYWHERE), (APART, ALONE), (ANYWHERE, ALONE)):
        found = paired(runs, {"way": one}, {"way": other})
        print(f"mean JCT, {one} over {other}: {in_words(found)}")
        if (one, other) == (APART, ANYWHERE) and args.data.is_dir() and args.lost == LOST:
            claimed("deepboot", "pollux-interference", [as_figure(found)])
    print(machine())


if __name__ == "__main__":
    main()
