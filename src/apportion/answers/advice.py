"""A page of advice: questions, answers in sentences, and the commands that print their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import NamedTuple

from apportion.report.html import page_of


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
        for part in self.parts:
            blocks.append("\n".join([part.question, *part.answer, f"  $ {part.command}"]))
        return "\n\n".join(blocks)

    def to_html(self) -> str:
        """Return the page as one HTML file that loads nothing."""
        sections = []
        for part in self.parts:
            said = "".join(f"<p>{escape(each)}</p>" for each in part.answer)
            link = f'<p class="legend"><code>{escape(part.command)}</code></p>'
            sections.append((escape(part.question), said + link))
        return page_of(self.log, "What to do", f"{self.log} on {self.cluster}", sections)
