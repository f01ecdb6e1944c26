"""Timing, and the rows of the table."""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "COLUMNS",
    "Row",
    "calls_of",
    "cpu_seconds",
    "cpu_seconds_once",
    "side_by_side",
    "two_digits",
]

COLUMNS = ("first", "both", "as called")
"""What is timed: the first stage from arrays to arrays, both stages, and the call of a user."""


@dataclass
class Row:
    """One line of the table.

    Attributes
    ----------
    goal
        Number of the goal, P1 to P13, S1 to S13; "-" for a row that is there for comparison only.
    what
        The problem.
    target
        The goal in words.
    peer, peer_s
        What it is compared with, and its CPU seconds in the same run; NaN where it is not there.
    first_s, both_s, called_s
        Our CPU seconds of one thread, medians: the first stage alone, which is what the peers do;
        both stages; the labelled call as a user makes it.
    calls, peer_calls
        Python calls of the last of our columns that was timed, and of the peer, of runs beside
        Gavel's simulator those of C as well; they hardly depend on the machine or its load.
    ratio_goal
        How many times as long the peer should take.
    seconds_goal
        The most seconds that we should take.
    exponent, exponent_goal
        With which power of the jobs seconds grow, NaN for the first of a series, and the most that
        it should be.
    floor
        What cannot be saved, measured in the same run: the solver alone, say.
    """

    goal: str
    what: str
    target: str = ""
    peer: str = ""
    peer_s: float = np.nan
    first_s: float = np.nan
    both_s: float = np.nan
    called_s: float = np.nan
    ratio_goal: float | None = None
    seconds_goal: float | None = None
    exponent: float = np.nan
    exponent_goal: float | None = None
    calls: int | None = None
    peer_calls: int | None = None
    classes: int | None = None
    gap: float = np.nan
    floor: str = ""
    note: str = ""

    @property
    def seconds(self) -> tuple[float, float, float]:
        """Our seconds in the order of COLUMNS."""
        return self.first_s, self.both_s, self.called_s

    def short_by(self, seconds: float) -> float:
        """How many times as good one of our columns should be: up to 1 it is good enough.

        NaN where there is no goal, or no figure.
        """
        goals = []
        if self.ratio_goal is not None:
            goals.append(self.ratio_goal * seconds / self.peer_s)
        if self.seconds_goal is not None:
            goals.append(seconds / self.seconds_goal)
        if self.exponent_goal is not None:
            goals.append(self.exponent / self.exponent_goal)
        return float(np.max(goals)) if goals else np.nan

    @property
    def worst(self) -> float:
        """The largest of what its columns are short by, NaN where none has a goal and a figure."""
        short = [self.short_by(seconds) for seconds in self.seconds if not np.isnan(seconds)]
        return max((each for each in short if not np.isnan(each)), default=np.nan)

    def verdict(self, seconds: float) -> str:
        """Say whether the goal is met by one of our columns; "" if there is none, or no figure."""
        short = self.short_by(seconds)
        if np.isnan(seconds):
            return ""
        if self.ratio_goal is not None and np.isnan(self.peer_s):
            return "not measured"
        if np.isnan(short):
            return ""
        return "met" if short <= 1 else "missed"

    def record(self) -> dict[str, Any]:
        """The row as the table shows it."""
        ours = {f"{name} s": value for name, value in zip(COLUMNS, self.seconds, strict=True)}
        ratios = {
            f"x {name}": self.peer_s / value
            for name, value in zip(COLUMNS, self.seconds, strict=True)
        }
        verdicts = [self.verdict(value) for value in self.seconds]
        return {
            "goal": self.goal,
            "what": self.what,
            "target": self.target,
            "peer": self.peer,
            "peer s": self.peer_s,
            **ours,
            **ratios,
            "calls": self.calls,
            "peer calls": self.peer_calls,
            "classes": self.classes,
            "gap": self.gap,
            "floor": self.floor,
            "verdict": " / ".join(verdict for verdict in verdicts if verdict),
            "note": self.note,
        }


def cpu_seconds(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the median CPU seconds of a call, after one that does not count, and its result."""
    result = call()
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        result = call()
        seconds.append(time.process_time() - started)
    return statistics.median(seconds), result


def cpu_seconds_once(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of the first and only call, for what takes many seconds."""
    started = time.process_time()
    result = call()
    return time.process_time() - started, result


def side_by_side(sides: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the median CPU seconds of several calls in turn, after one each that does not count.

    What loads the machine for a while loads all of them.
    """
    for call in sides.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, call in sides.items():
            seconds[name].append(cpu_seconds_once(call)[0])
    return {name: statistics.median(each) for name, each in seconds.items()}


def calls_of(call: Callable[[], Any], *, c: bool = False) -> int:
    """Count the functions that are entered in a call: of Python, and if asked of C."""
    count, counted = 0, ("call", "c_call") if c else ("call",)

    def profile(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event in counted

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def two_digits(figure: float) -> str:
    """Write a number with two significant digits and no exponent; a dash for none."""
    if np.isnan(figure):
        return "-"
    if figure >= 100:
        return f"{figure:.0f}"
    return np.format_float_positional(figure, precision=2, fractional=False, trim="-")
