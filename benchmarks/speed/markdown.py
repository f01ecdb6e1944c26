"""The table of the speed suite as the pages show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.speed.harness import two_digits

if TYPE_CHECKING:
    from benchmarks.speed.harness import Row

__all__ = ["beside_kept", "markdown"]

_HEAD = (
    "| | problem | goal | peer, s | now: first / both / as called, s | x peer | floor | calls "
    "| verdict | |\n|---|---|---|---|---|---|---|---|---|---|"
)


def markdown(rows: list[Row]) -> str:
    """Write the rows as a table; each cell of ours has a figure for each column that was timed."""
    return "\n".join([_HEAD, *(_line(row) for row in rows)])


def beside_kept(before: str, now: str) -> str:
    """Put the rows of goals that were measured in the place of theirs in a table; keep the others.

    Rows that are there for comparison only ("-") are replaced by rows of the same problem and peer.
    A goal of which nothing was measured has what was said of it before.
    """
    head = now.splitlines()[:2]
    new = [line for line in now.splitlines()[2:] if "| not measured |" not in line]
    goals, keys = {_key(line)[0] for line in new} - {"-"}, {_key(line) for line in new}
    lines, left = list[str](), list(new)
    for line in before.splitlines()[2:]:
        goal = _key(line)[0]
        if goal not in goals and _key(line) not in keys:
            lines.append(line)
            continue
        same = [each for each in left if (goal in goals and _key(each)[0] == goal) or each == line]
        same = same or [each for each in left if _key(each) == _key(line)]
        lines += same
        left = [each for each in left if each not in same]
    return "\n".join([*head, *lines, *left])


def _key(line: str) -> tuple[str, ...]:
    """Return goal, problem and peer of a row; the peer without its seconds."""
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    return (*cells[:2], " ".join(word for word in cells[3].split() if not word[:1].isdigit()))


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
