"""Slurm's expressions for the tasks of a job array: ``1-40%8``, ``0-15:4``, ``123_[4-9%2]``."""

from __future__ import annotations

import re

MOST_TASKS = 4_000_001
"""Most tasks that Slurm lets an array have, and the end of their numbers."""

_ARRAY = re.compile(r"(?:[^\[\]]*_)?(\[)?([\d,:-]+)(?:%(\d{1,9}))?(?(1)\])")
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::(\d{1,7}))?)?")


def array_tasks(text: str) -> tuple[list[int], int | None] | None:
    """Return the numbers of the tasks, ascending, and how many of them may run at once.

    Returns
    -------
    list of int, int or None
        No limit is None; Slurm writes none as ``%0``, too.
    None
        Where the text is no such expression, or one that Slurm has cut off (``1,3,5,...``).

    Examples
    --------
    >>> array_tasks("1-3,7%2"), array_tasks("123_[0-15:4]"), array_tasks("1,3,...")
    (([1, 2, 3, 7], 2), ([0, 4, 8, 12], None), None)
    """
    found = _ARRAY.fullmatch(text.strip())
    if found is None:
        return None
    tasks: set[int] = set()
    for part in found[2].split(","):
        ends = _RANGE.fullmatch(part)
        if ends is None:
            return None
        first, last, step = int(ends[1]), int(ends[2] or ends[1]), int(ends[3] or 1)
        if not (step and first <= last < MOST_TASKS):
            return None
        tasks.update(range(first, last + 1, step))
    return sorted(tasks), int(found[3] or 0) or None
