"""The table of the speed suite as the pages show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.speed.harness import two_digits

if TYPE_CHECKING:
    from benchmarks.speed.harness import Row

__all__ = ["markdown"]

_HEAD = (
    "| | problem | goal | peer, s | now: first / both / as called, s | x peer | floor | calls "
    "| verdict | |\n|---|---|---|---|---|---|---|---|---|---|"
)


def markdown(rows: list[Row]) -> str:
    """Write the rows as a table; each cell of ours has a figure for each column that was timed."""
    return "\n".join([_HEAD, *(_line(row) for row in rows)])


def _line(row: Row) -> str:
    peer = row.peer if np.isnan(row.peer_s) else f"{row.peer} {two_digits(row.peer_s)}"
    ratios = [row.peer_s / seconds for seconds in row.seconds]
    verdicts = [row.verdict(seconds) for seconds in row.seconds]
    cells = (
        row.goal,
        row.what,
        row.target,
        peer,
        _three(row.seconds),
        "" if np.isnan(row.peer_s) else _three(ratios),
        row.floor,
        " / ".join(str(each) for each in (row.peer_calls, row.calls) if each is not None),
        " / ".join(verdict for verdict in verdicts if verdict),
        row.note,
    )
    return f"| {' | '.join(cells)} |"


def _three(figures: tuple[float, ...] | list[float]) -> str:
    return " / ".join(two_digits(each) for each in figures)
