"""What the definitions speak of: believed speeds, normalisers, constraints as sparse matrices."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from benchmarks.trust.case import GPUS_PER_MACHINE, MACHINES_PER_RACK

if TYPE_CHECKING:
    from benchmarks.trust.case import Case, Floats, Ints


class Facts:
    """Derived quantities of a case, as `docs/reference/policies.md` defines them.

    An entry is a (row, option) that can be given time: every member runs there and the gang fits
    into the type. Vectors over entries are in the order of `entry_row`, `entry_option`.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self.capacity = case.capacity
        self.count = case.columns["count"]
        self.scale = case.columns["scale_factor"]
        self.weight = case.columns["weight"]
        self.n = float(self.count.sum())
        fits = case.gpus <= self.capacity[case.option_type] + 1e-12
        if case.shape == "tiers":  # (machine, rack, network) of each type
            room = np.tile(
                [GPUS_PER_MACHINE, GPUS_PER_MACHINE * MACHINES_PER_RACK, np.inf], len(fits.T) // 3
            )
            fits &= case.gpus <= room
        self.true_speed = np.where(fits[case.row], case.speed, 0.0)
        self.in_tensor = np.isin(np.arange(len(case.types)), case.option_type)

    def with_more(self, kind: int, gpus: float) -> Facts:
        """Return these facts with more GPUs of a type; normalisers and entries stay."""
        other = self._copied()
        other.capacity = self.capacity.copy()
        other.capacity[kind] += gpus
        return other

    def with_limits(self, rows: sp.csr_array, limits: Floats) -> Facts:
        """Return these facts with more that is scarce beside GPUs, so much of it by entry."""
        other = self._copied()
        other.gpus = sp.vstack([self.gpus, rows]).tocsr()
        other.capacity = np.concatenate([self.capacity, limits])
        return other

    def _copied(self) -> Facts:
        for name in ("entries", "thr", "time", "gpus", "entry_type", "isolated", "equal_share"):
            getattr(self, name)
        return copy.copy(self)

    @property
    def believed(self) -> Floats:
        """Steps/s of members as the policy sees them: averages if it is blind to types."""
        if self.case.options.get("heterogeneity_aware", True):
            return self.true_speed
        gpus = self.capacity[self.case.option_type]
        runs = self.true_speed > 0
        mean = (self.true_speed @ gpus) / np.maximum(runs @ gpus, 1e-300)
        return np.where(runs, mean[:, None], 0.0)

    @cached_property
    def entries(self) -> tuple[Ints, Ints]:
        """Row and option of each entry."""
        runs = np.ones(self.case.gpus.shape, dtype=bool)
        np.logical_and.at(runs, self.case.row, self.true_speed > 0)
        runs &= (self.capacity > 0)[self.case.option_type][None, :]
        row, option = np.nonzero(runs)
        return row, option

    def matrix(self, speed: Floats) -> sp.csr_array:
        """Steps/s of jobs by entry: jobs x entries."""
        row, option = self.entries
        place = np.full(self.case.gpus.shape, -1)
        place[row, option] = np.arange(len(row))
        at = place[self.case.row]
        member, column = np.nonzero(at >= 0)
        values = speed[member, column]
        index = (self.case.job[member], at[member, column])
        return sp.csr_array((values, index), shape=(self.case.jobs, len(row)))

    @cached_property
    def thr(self) -> sp.csr_array:
        """Believed steps/s by job and entry."""
        return self.matrix(self.believed)

    @cached_property
    def time(self) -> sp.csr_array:
        """1 where a job takes part in an entry."""
        return self.matrix((self.true_speed > 0).astype(float))

    @cached_property
    def usage(self) -> Floats:
        """GPUs held by each entry, all jobs that the row stands for together."""
        row, option = self.entries
        return self.case.gpus[row, option] * self.entry_count

    @cached_property
    def entry_count(self) -> Floats:
        """Jobs that the row of each entry stands for."""
        first = np.zeros(self.case.rows, dtype=int)
        first[self.case.row[::-1]] = self.case.job[::-1]
        return self.count[first[self.entries[0]]]

    @cached_property
    def entry_type(self) -> Ints:
        """Type of each entry."""
        return self.case.option_type[self.entries[1]]

    @cached_property
    def gpus(self) -> sp.csr_array:
        """GPUs by type and entry."""
        index = (self.entry_type, np.arange(len(self.usage)))
        return sp.csr_array((self.usage, index), shape=(len(self.capacity), len(self.usage)))

    @cached_property
    def alone(self) -> Floats:
        """Believed steps/s of a job by itself, on the best option of each type; jobs x types."""
        size = np.bincount(self.case.row, minlength=self.case.rows)
        best = np.zeros((self.case.jobs, len(self.capacity)))
        single = np.flatnonzero(size[self.case.row] == 1)
        speed = self.believed
        for option, kind in enumerate(self.case.option_type):
            np.maximum.at(best[:, kind], self.case.job[single], speed[single, option])
        return np.where(self.capacity > 0, best, 0.0)

    @cached_property
    def compared(self) -> Floats:
        """Steps/s on each type in shares and slices: any is as good, to who is blind to types."""
        blind = not self.case.options.get("heterogeneity_aware", True)
        return np.where(self.shares > 0, self.fast[:, None], 0.0) if blind else self.alone

    @cached_property
    def fast(self) -> Floats:
        """Believed steps/s on the best type that there is."""
        return np.asarray(self.alone.max(axis=1))

    @cached_property
    def shares(self) -> Floats:
        """Share of the GPUs of the cluster that each type has, also one that no option is of."""
        return np.asarray(self.capacity / self.capacity.sum())

    @cached_property
    def equal_share(self) -> Floats:
        """eq_i: steps/s if the job ran all the time, on types as often as there are GPUs."""
        return self.compared @ self.shares

    @cached_property
    def isolated_time(self) -> Floats:
        """(W_j / n) / s_i, scaled down to a sum of 1; jobs x types."""
        time = self.capacity[None, :] / self.n / self.scale[:, None]
        return np.asarray(time / np.maximum(1.0, time.sum(axis=1, keepdims=True)))

    @cached_property
    def isolated(self) -> Floats:
        """iso_i: steps/s in an isolated slice of 1/n of every type."""
        return np.asarray((self.compared * self.isolated_time).sum(axis=1))

    def vector(self, X: Floats) -> Floats:
        """Entries of an allocation matrix."""
        row, option = self.entries
        return np.asarray(X[row, option], dtype=float)
