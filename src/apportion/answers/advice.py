"""A page of advice: questions, answers in sentences, and the commands that print their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from apportion.report.files import page_of, part


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
