"""Where a linear program begins that is solved again and again: as the last one has ended."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.core.program import Program

if TYPE_CHECKING:
    from apportion.policies.core.jobs import Jobs


class WarmStart:
    """What a solve of a policy leaves for the next one, over jobs that come and go.

    It is a program in HiGHS, in which a job has a slot. Jobs are known again by what they make and
    hold, whatever their demands are by now. The result does not depend on it: the second stage
    chooses from the optimal face.

    Attributes
    ----------
    path
        "warm start" if the last solve went on from an earlier one, else "cold start".
    """

    def __init__(self) -> None:
        self.path = "cold start"
        self._program: Program | None = None
        self._slots: dict[bytes, list[int]] = {}

    def program(self, jobs: Jobs) -> Program:
        """Return the last program with the jobs in their slots; a new one where they do not fit."""
        keys = [row.tobytes() for row in np.concatenate([jobs.T, jobs.held], axis=1)]
        known = {key: iter(slots) for key, slots in self._slots.items()}
        slots = [next(known[key], -1) if key in known else -1 for key in keys]
        kept, new = self._program, slots.count(-1)
        if kept is None or not kept.fits(jobs) or 2 * new > jobs.n:
            kept = self._program = Program(jobs, jobs.n + jobs.n // 4 + 4)
            slots = [*range(jobs.n)]
        else:
            self.path = "warm start"
        free = iter(sorted({*range(kept.n)}.difference(slots)))
        kept.slots = np.array([next(free) if slot < 0 else slot for slot in slots], dtype=np.intp)
        self._slots = defaultdict(list)
        for key, slot in zip(keys, kept.slots.tolist(), strict=True):
            self._slots[key].append(slot)
        return kept
