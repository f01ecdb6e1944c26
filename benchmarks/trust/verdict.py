"""What is wrong with an answer, if anything."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from benchmarks.trust.ask import Answer

TOLERANCE = 1e-6


@dataclass
class Verdict:
    """What the oracles say of one answer.

    Attributes
    ----------
    faults
        Kind of fault ("violated", "off", "prices", "inconsistent", "bound") to its size.
    flagged
        Whether the library itself says that the answer is not optimal.
    error
        Relative distance of the objective from the optimum.
    ours, theirs
        Objective of the answer by the definition, and the optimum.
    undecided
        Why the oracle cannot tell, or nothing.
    """

    faults: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    flagged: bool = False
    error: float = 0.0
    ours: float = float("nan")
    theirs: float = float("nan")
    undecided: str = ""

    def blame(self, kind: str, size: float, note: str = "") -> None:
        """Record a fault, the largest of its kind."""
        self.faults[kind] = max(float(size), self.faults.get(kind, 0.0))
        if note:
            self.notes.append(f"{kind}: {note}")

    def forget(self, kind: str) -> None:
        """Take back a fault, and that the oracle could not tell: a better oracle is asked."""
        self.faults.pop(kind, None)
        self.notes = [note for note in self.notes if not note.startswith(f"{kind}:")]
        self.undecided = ""

    @property
    def wrong(self) -> bool:
        """Whether something is wrong that the library does not say."""
        return any(kind != "off" or not self.flagged for kind in self.faults)

    @property
    def certified(self) -> bool:
        """Whether the library says optimal and the oracle agrees in everything."""
        return not (self.faults or self.flagged or self.undecided)


def check_objective(
    answer: Answer, ours: float, verdict: Verdict, scale: float | None = None
) -> None:
    """Compare the reported objective with that of X by the definition."""
    if answer.objective == ours:  # infinite, where a job is left without any throughput
        return
    off = abs(answer.objective - ours) / (abs(ours) if scale is None else scale)
    if not off <= TOLERANCE:
        text = f"objective {answer.objective:.9g}, by the definition {ours:.9g}"
        verdict.blame("inconsistent", off, text)


def check_distance(
    ours: float, theirs: float, verdict: Verdict, answer: Answer, scale: float | None = None
) -> None:
    """Compare the objective of X with a value that an allocation of the oracle attains."""
    verdict.ours, verdict.theirs = ours, theirs
    scale = max(abs(theirs), abs(ours)) if scale is None else scale
    verdict.error = abs(ours - theirs) / max(scale, 1e-300) if np.isfinite(ours) else np.inf
    if verdict.error > TOLERANCE:
        verdict.blame("off", verdict.error, f"{ours:.9g}, the optimum is {theirs:.9g}")
    claimed = answer.gap if answer.loss is None else max(answer.loss, answer.gap)
    lost = abs(ours - theirs) / max(min(abs(ours), abs(theirs)), 1e-300)
    if verdict.flagged and min(lost, verdict.error) > claimed + TOLERANCE:
        verdict.blame("bound", verdict.error, f"loses {verdict.error:.3g}, claims {claimed:.3g}")
