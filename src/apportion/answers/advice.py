"""A page of advice: questions, answers, commands; and whether costs of starts change who leads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from apportion.report.files import page_of, part
from apportion.statistics import paired
from apportion.statistics.intervals import batch_figures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.sim import Run


class AdvicePart(NamedTuple):
    """A part of the page: a question, its answer in sentences, and the command that prints it."""

    question: str
    answer: tuple[str, ...]
    command: str


@dataclass(frozen=True)
class Advice:
    """What `apportion.advise` returns.

    Attributes
    ----------
    log, cluster
        Their names.
    parts
        The page from top to bottom.
    """

    log: str
    cluster: str
    parts: tuple[AdvicePart, ...]

    def __str__(self) -> str:
        blocks = [f"{self.log} on {self.cluster}"]
        for each in self.parts:
            blocks.append("\n".join([each.question, *each.answer, f"  $ {each.command}"]))
        return "\n\n".join(blocks)

    def to_html(self) -> str:
        """Return the page as one HTML file that loads nothing."""
        sections = [
            (each.question, part("answer", each.answer, each.command)) for each in self.parts
        ]
        return page_of(self.log, "What to do", f"{self.log} on {self.cluster}", sections)


def costs_in_words(at: Mapping[float, Mapping[str, Run]], level: float) -> tuple[str, ...]:
    """Say who is in front where a start costs some times as much, and whether that changes.

    In front are the policy with the least mean JCT, and all that are not surely worse: by paired
    intervals over batches of jobs, at a level shared out over all of them.

    Parameters
    ----------
    at
        Runs by policy, by how many times as much a start costs.
    level
        Of all comparisons together.
    """
    fronts: list[set[str]] = []
    said: list[str] = []
    for times, runs in sorted(at.items()):
        means = {label: float(run.measured["jct_s"].mean()) for label, run in runs.items()}
        front = _in_front(means, runs, 1 - (1 - level) / (max(len(runs) - 1, 1) * len(at)))
        fronts.append(set(front))
        each = ", ".join(f"{label} {means[label] / 3600:.2f} h" for label in front)
        said.append(f"x {times:g}: {each}")
    always = fronts[0].intersection(*fronts)
    behind = sorted(fronts[0].union(*fronts) - always)
    if not always:
        verdict = "They change who is in front"
    elif behind:
        verdict = f"They put behind, at some of them, {', '.join(behind)}; others stay in front"
    else:
        verdict = "Nothing that shows"
    told = "In front, where a start costs so many times as much, with all that are not surely worse"
    return f"{verdict}.", f"{told}: {'; '.join(said)}."


def _in_front(means: Mapping[str, float], runs: Mapping[str, Run], level: float) -> list[str]:
    """Return the policies that are not surely worse than the best, the best first."""
    order = sorted(means, key=lambda label: means[label])
    batches = batch_figures({label: runs[label].measured for label in order}).get("mean_jct_s")
    if batches is None:  # too few jobs to tell chance apart
        return order
    # To the millisecond: what is added up in another order is no difference.
    seconds = batches.round(3)
    return [
        label
        for label, row in zip(order, seconds, strict=True)
        if not paired(row, seconds[0], level=level).sure
    ]
