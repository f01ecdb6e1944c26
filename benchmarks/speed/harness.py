"""Timing, and the rows of the table."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Row", "cpu_seconds", "cpu_seconds_once"]


@dataclass
class Row:
    """One line of the table.

    Attributes
    ----------
    goal
        Number of the goal, P1 to P13.
    what
        The problem.
    target
        The goal in words.
    theirs
        What it is compared with; ``(cited)`` where the figure is from elsewhere, not from this run.
    theirs_s, ours_s
        CPU seconds of one thread, medians.
    met
        Whether the goal is reached; None for a row that is there for comparison only.
    """

    goal: str
    what: str
    target: str
    theirs: str = ""
    theirs_s: float = np.nan
    ours_s: float = np.nan
    classes: int | None = None
    gap: float = np.nan
    met: bool | None = None
    note: str = ""

    @property
    def ratio(self) -> float:
        """How many times as long the other takes."""
        return self.theirs_s / self.ours_s

    def record(self) -> dict[str, Any]:
        """The row as the table shows it."""
        verdict = "" if self.met is None else ("met" if self.met else "missed")
        return {
            "goal": self.goal,
            "what": self.what,
            "target": self.target,
            "theirs": self.theirs,
            "theirs s": self.theirs_s,
            "ours s": self.ours_s,
            "ratio": self.ratio,
            "classes": self.classes,
            "gap": self.gap,
            "verdict": verdict,
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
