"""What the mechanism knows of every job, in arrays that grow as jobs arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.cluster import TIERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

__all__ = ["JobRecords"]

_ARRAYS = (
    *("scale_factor", "type_code", "arrival_s", "released_s"),
    *("ideal_s", "compute_s", "run_s", "tier", "kind", "waiting", "complete"),
)


class JobRecords:
    """Entries by number of the job, in order of arrival.

    Option ``type * 3 + tier`` is a tier of an accelerator type.

    Parameters
    ----------
    types
        Number of accelerator types.

    Attributes
    ----------
    scale_factor
        GPUs of the gang, shape (jobs,), as all that follow.
    type_code
        Job types, as positions in `job_types`.
    arrival_s
        When the job arrived, seconds.
    released_s
        When its present wait began: at its arrival, or when its last lease ended.
    ideal_s
        Compute time from start to completion on its fastest type, seconds: all steps without
        exposed communication.
    compute_s
        The same of the steps that are done, seconds.
    run_s
        Seconds that the job has run at each option, communication included, shape (jobs, options).
    tier
        Tier of the GPUs that it holds; -1 for none.
    kind
        Position of the accelerator type of the GPUs that it holds, or has held last; 0 at first.
    waiting
        Whether the job is here and holds no GPUs.
    complete
        Whether it is done.
    slowdown
        Time of a step on the best placement at each option, everything being free, over its compute
        time on its fastest type; infinite where the gang can have none, shape (jobs, options).
    prefers_wider
        Whether any gang is faster at a tier than at a tighter one of the same type.
    job_types, models
        Names of the job types, and what each job trains as the network knows it.
    """

    def __init__(self, types: int = 1) -> None:
        self.types, options = types, types * len(TIERS)
        self.scale_factor: Ints = np.empty(0, dtype=np.int64)
        self.type_code: Ints = np.empty(0, dtype=np.int64)
        self.arrival_s: Floats = np.empty(0)
        self.released_s: Floats = np.empty(0)
        self.ideal_s: Floats = np.empty(0)
        self.compute_s: Floats = np.empty(0)
        self.run_s: Floats = np.empty((0, options))
        self.tier: Ints = np.empty(0, dtype=np.int64)
        self.kind: Ints = np.empty(0, dtype=np.intp)
        self.waiting: Bools = np.empty(0, dtype=bool)
        self.complete: Bools = np.empty(0, dtype=bool)
        self.slowdown: Floats = np.empty((0, options))
        self.job_types: list[str] = []
        self.models: list[str] = []
        self.prefers_wider = False
        # What the entries are the first of.
        self._room = {name: getattr(self, name) for name in (*_ARRAYS, "slowdown")}

    @property
    def jobs(self) -> int:
        """Number of jobs that have arrived."""
        return self.scale_factor.size

    @property
    def alone_slowdown(self) -> Floats:
        """Least time of a step over its compute time, shape (jobs,)."""
        least: Floats = self.slowdown.min(axis=1)
        return least

    @property
    def type_slowdown(self) -> Floats:
        """Least time of a step on each type over its compute time, shape (jobs, types)."""
        least: Floats = self.slowdown.reshape(-1, self.types, len(TIERS)).min(axis=2)
        return least

    @property
    def active(self) -> int:
        """Number of jobs that have arrived and are not complete."""
        return self.jobs - int(np.count_nonzero(self.complete))

    def add(
        self,
        now_s: float,
        scale_factor: int,
        job_type: str,
        ideal_s: float,
        *,
        model: str | None = None,
        slowdown: Sequence[float] | Floats | None = None,
    ) -> int:
        """Enter a job that arrives now and waits; return its number.

        By default it runs in machines only, as fast on every type.
        """
        if slowdown is None:
            slowdown = [1.0, np.inf, np.inf] * self.types
        if job_type not in self.job_types:
            self.job_types.append(job_type)
        code = self.job_types.index(job_type)
        progress = (0.0, np.zeros(self.run_s.shape[1]), -1, 0, True, False)
        values = (scale_factor, code, now_s, now_s, ideal_s, *progress, slowdown)
        number = self.jobs
        if number == len(self._room["scale_factor"]):
            self._make_room()
        for name, value in zip((*_ARRAYS, "slowdown"), values, strict=True):
            self._room[name][number] = value
            setattr(self, name, self._room[name][: number + 1])
        self.prefers_wider |= _prefers_wider(np.asarray(slowdown))
        self.models.append(job_type if model is None else model)
        return number

    def set_slowdown(self, slowdown: Floats) -> None:
        """Enter what `state` leaves out, shape (jobs, options)."""
        self.slowdown = slowdown.reshape(-1, self.run_s.shape[1])
        self.prefers_wider = any(map(_prefers_wider, self.slowdown))
        self._room = {name: getattr(self, name) for name in (*_ARRAYS, "slowdown")}

    def option(self, jobs: Any) -> Any:
        """Return the options of which jobs hold GPUs; one of a type with a tier of -1 for none."""
        return self.kind[jobs] * len(TIERS) + self.tier[jobs]

    def runs_on(self, jobs: Ints) -> Bools:
        """Tell on which types some jobs can run at some tier, shape (jobs, types)."""
        return np.isfinite(self.type_slowdown[jobs])

    def _make_room(self) -> None:
        """Double the arrays behind the entries."""
        for name, column in self._room.items():
            blank = np.zeros((max(column.shape[0], 64), *column.shape[1:]), dtype=column.dtype)
            self._room[name] = np.concatenate([column, blank])

    def state(self) -> dict[str, Any]:
        """Return all entries, for JSON, but for `slowdown`, which follows from models and gangs."""
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        return arrays | {"job_types": list(self.job_types), "models": list(self.models)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        for name in _ARRAYS:
            column = getattr(self, name)
            values = np.array(state[name], dtype=column.dtype)
            setattr(self, name, values.reshape(-1, *column.shape[1:]))
        self.job_types, self.models = list(state["job_types"]), list(state["models"])


def _prefers_wider(slowdown: Floats) -> bool:
    """Tell whether a gang is faster at a tier than at a tighter one of a type where it can lie."""
    return any(
        min(rack, network) < machine < np.inf or network < rack < np.inf
        for machine, rack, network in slowdown.reshape(-1, len(TIERS)).tolist()
    )
