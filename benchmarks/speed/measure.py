"""Timing in turn, and the rows of the tables."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.speed.gavel import Gavel

__all__ = [
    "Pair",
    "Row",
    "Settings",
    "beside_kept",
    "cpu_seconds",
    "in_turn",
    "markdown",
    "two_digits",
]

_HEAD = (
    "| | problem | goal | ours, ms: median, worst | peer, ms | times as fast: median, worst "
    "| differ | verdict |\n|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Settings:
    """Sizes and seeds of a run, Gavel's data and code, and which policies to measure.

    Attributes
    ----------
    quick
        Whether small sizes are enough: the figures say nothing about the goals then.
    data
        Folder of Gavel's oracle; None for generated throughputs.
    policies
        Names of policies to measure; empty for all.
    seeds
        Number of binding instances for each row.
    """

    quick: bool
    data: Path | None
    gavel: Gavel
    policies: tuple[str, ...] = ()
    seeds: int = 5

    def of(self, names: Sequence[str]) -> list[str]:
        """Those of some policies that are to be measured."""
        return [name for name in names if not self.policies or name in self.policies]


@dataclass(frozen=True)
class Pair:
    """CPU seconds of both sides on one instance; NaN where there is no peer.

    `differ` is how far the objectives of the two sides are apart, relative to ours.
    """

    ours_s: float
    peer_s: float = np.nan
    peer: str = ""
    differ: float = np.nan


@dataclass(frozen=True)
class Row:
    """One line of the table: a problem, on several instances.

    Attributes
    ----------
    times_goal
        How many times as fast as the peer each instance should be; None for no such goal.
    seconds_goal
        The most CPU seconds that each instance should take; None for no such goal.
    """

    goal: str
    what: str
    pairs: tuple[Pair, ...]
    times_goal: float | None = None
    seconds_goal: float | None = None

    @property
    def seconds(self) -> list[float]:
        """Our CPU seconds, by instance."""
        return [pair.ours_s for pair in self.pairs]

    @property
    def times(self) -> list[float]:
        """The peer's seconds over ours, by instance."""
        return [pair.peer_s / pair.ours_s for pair in self.pairs]

    @property
    def peer(self) -> str:
        """The peer of most instances."""
        return Counter(pair.peer for pair in self.pairs).most_common(1)[0][0]

    @property
    def target(self) -> str:
        """The goal in words."""
        said = [] if self.times_goal is None else [f">= {self.times_goal:g} x"]
        if self.seconds_goal is not None:
            said.append(f"<= {1000 * self.seconds_goal:g} ms")
        return ", ".join(said)

    @property
    def verdict(self) -> str:
        """Whether the worst instance meets the goal; "" without a goal."""
        if self.times_goal is not None and np.isnan(self.times).any():
            return "not measured"
        if not self.target:
            return ""
        fast = self.times_goal is None or min(self.times) >= self.times_goal
        short = self.seconds_goal is None or max(self.seconds) <= self.seconds_goal
        return "met" if fast and short else "missed"

    def record(self) -> dict[str, Any]:
        """The row as the csv file has it, in milliseconds."""
        return {
            "goal": self.goal,
            "what": self.what,
            "target": self.target,
            "ours ms": 1000 * statistics.median(self.seconds),
            "worst ms": 1000 * max(self.seconds),
            "peer": self.peer,
            "peer ms": 1000 * statistics.median(pair.peer_s for pair in self.pairs),
            "times": statistics.median(self.times),
            "worst times": min(self.times),
            "differ": max(pair.differ for pair in self.pairs),
            "verdict": self.verdict,
        }


def cpu_seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of one call, and its result."""
    started = time.process_time()
    result = call()
    return time.process_time() - started, result


def in_turn(
    sides: Mapping[str, Callable[[], Any]], repeats: int, *, warm: bool = True
) -> dict[str, float]:
    """Return the median CPU seconds of several calls in turn.

    What loads the machine for a while loads all of them. With `warm`, one call of each goes before
    that does not count.
    """
    if warm:
        for call in sides.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, call in sides.items():
            seconds[name].append(cpu_seconds(call)[0])
    return {name: statistics.median(each) for name, each in seconds.items()}


def two_digits(figure: float) -> str:
    """Write a number with two significant digits and no exponent; a dash for none."""
    if np.isnan(figure):
        return "-"
    if figure >= 100:
        return f"{figure:.0f}"
    return np.format_float_positional(figure, precision=2, fractional=False, trim="-")


def markdown(rows: Sequence[Row], *, head: bool = True) -> str:
    """Write the rows as a table, or as lines that go on with one."""
    return "\n".join([*([_HEAD] if head else []), *(_line(row) for row in rows)])


def beside_kept(before: str, now: str) -> str:
    """Put the rows that were measured now in the place of theirs in a table; keep the others."""
    rows = {_key(line): line for line in before.splitlines()[2:]}
    rows |= {_key(line): line for line in now.splitlines()[2:] if "| not measured |" not in line}
    ordered = sorted(rows, key=lambda key: key[0])
    return "\n".join([*now.splitlines()[:2], *(rows[key] for key in ordered)])


def _key(line: str) -> tuple[str, str]:
    """Return goal and problem of a row."""
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    return cells[0], cells[1]


def _line(row: Row) -> str:
    said = row.record()
    ours = f"{two_digits(said['ours ms'])}, {two_digits(said['worst ms'])}"
    peer = times = ""
    if row.peer:
        peer = f"{row.peer} {two_digits(said['peer ms'])}"
        times = f"{two_digits(said['times'])}, {two_digits(said['worst times'])}"
    differ = "" if np.isnan(said["differ"]) else f"{said['differ']:.0e}"
    cells = row.goal, row.what, row.target, ours, peer, times, differ, row.verdict
    return f"| {' | '.join(cells)} |"
