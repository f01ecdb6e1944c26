"""The rounds table, written row by row into arrays that grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.plain_arrays import array_of, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["RoundLog"]

_COLUMNS = ("start_s", "end_s", "active_jobs", "running_jobs", "preemptions", "resolved")
_WHOLE = ("active_jobs", "running_jobs", "preemptions")


class RoundLog:
    """One row per round, or per interval between events.

    Parameters
    ----------
    accelerators
        Names of the accelerator types, for the ``<accelerator>_busy`` columns (GPU-seconds).
    """

    def __init__(self, accelerators: Sequence[str]) -> None:
        self._names = [*_COLUMNS, *(f"{name}_busy" for name in accelerators)]
        self._rows = np.empty((256, len(self._names)))
        self.rounds = 0

    def add(
        self,
        interval_s: tuple[float, float],
        counts: tuple[int, int, int],
        resolved: bool,
        busy: NDArray[np.float64],
    ) -> None:
        """Write down one round.

        Parameters
        ----------
        interval_s
            Start and end, seconds.
        counts
            Jobs active, jobs running, preemptions.
        resolved
            Whether the policy was solved at its start.
        busy
            GPU-seconds in use, shape (types,).
        """
        self._make_room(1)
        self._rows[self.rounds] = (*interval_s, *counts, resolved, *busy.tolist())
        self.rounds += 1

    def repeat(self, end_s: NDArray[np.float64]) -> None:
        """Write down rounds as the last one, by their ends, seconds; one begins as another ends."""
        self._make_room(end_s.size)
        rows = self._rows[self.rounds : self.rounds + end_s.size]
        rows[:] = self._rows[self.rounds - 1]
        rows[:, _COLUMNS.index("start_s")] = np.append(rows[0, _COLUMNS.index("end_s")], end_s[:-1])
        rows[:, _COLUMNS.index("end_s")] = end_s
        rows[:, _COLUMNS.index("resolved")] = False
        self.rounds += end_s.size

    def state(self) -> dict[str, Any]:
        """Return the rows so far, for JSON."""
        return {"rows": plain(self._rows[: self.rounds])}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        rows = array_of(state["rows"])
        self.rounds = 0
        self._make_room(len(rows))
        self._rows[: len(rows)], self.rounds = rows, len(rows)

    def _make_room(self, rounds: int) -> None:
        """Double the arrays until so many more rounds fit."""
        while self.rounds + rounds > len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])

    def table(self) -> pd.DataFrame:
        """Return the table, indexed by the number of the round."""
        index = pd.RangeIndex(self.rounds, name="round")
        rows = pd.DataFrame(self._rows[: self.rounds].copy(), columns=self._names, index=index)
        return rows.astype(dict.fromkeys(_WHOLE, np.int64) | {"resolved": bool})
