"""Pair throughputs: how fast job types run when two of them share the same GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_COUNT, LARGEST_NUMBER, choice, hashable, listed
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import check_jobs
from apportion.table_checks import as_floats, check_unique, float_array, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.types import Floats, Ints


_KEY = ["job_type", "scale_factor"]
_PARTNER = ["partner_type", "partner_scale_factor"]
_FRAME_COLUMNS = [*_KEY, *_PARTNER, "accelerator", "steps_per_s"]


@dataclass(frozen=True, eq=False, repr=False)
class PairThroughputs:
    """Steps/s of each job type alone and beside each other one on the same GPUs.

    Parameters
    ----------
    own
        ``own[a, b, j]``: steps/s of the whole job a while b shares its GPUs of type j; 0 where the
        two cannot share. Shape (keys, keys, accelerators).
    alone
        Steps/s without a partner; 0 where the job cannot run. Shape (keys, accelerators).
    keys
        Labels (job_type, scale_factor) of the job types.
    accelerators
        Names of the accelerator types.

    Raises
    ------
    InputError
        For wrong shapes, duplicate labels, values that are not finite numbers >= 0, and pairs of
        which only one member runs; the message names them.
    """

    own: Floats
    alone: Floats
    keys: pd.MultiIndex
    accelerators: tuple[str, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.keys, pd.MultiIndex) or self.keys.nlevels != 2:
            raise InputError(
                "The keys of pair throughputs are a MultiIndex (job_type, scale_factor); got "
                f"{getattr(self.keys, 'nlevels', 0)} levels."
            )
        object.__setattr__(self, "accelerators", tuple(listed("accelerators", self.accelerators)))
        object.__setattr__(self, "keys", self.keys.set_names(_KEY))
        object.__setattr__(self, "accelerators", tuple(map(str, self.accelerators)))
        check_unique("key of the pair throughputs", self.keys)
        check_unique("accelerator of the pair throughputs", pd.Index(self.accelerators))
        size, types = len(self.keys), len(self.accelerators)
        for name, shape in (("own", (size, size, types)), ("alone", (size, types))):
            values = float_array(name, getattr(self, name))
            if values.shape != shape:
                raise InputError(f"`{name}` has shape {values.shape}; the labels ask for {shape}.")
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        self._check_numbers()

    def _check_numbers(self) -> None:
        """Name the first value out of range, or the first pair that is half zero."""
        for values in (self.alone, self.own):
            wrong = np.argwhere(~((values >= 0) & (values <= LARGEST_NUMBER)))
            if wrong.size:
                cell = tuple(wrong[0])
                raise InputError(
                    f"The throughput of {self._name(cell)} is {values[cell]}; it must be a finite "
                    f"number >= 0 (steps/s)."
                )
        half = np.argwhere((self.own > 0) & (self.own.transpose(1, 0, 2) == 0))
        if half.size:
            a, b, j = half[0]
            raise InputError(
                f"{self._name((a, b, j))} runs, but {self._name((b, a, j))} does not (0 steps/s); "
                f"a pair that cannot share has 0 for both."
            )

    def _name(self, cell: tuple[Any, ...]) -> str:
        """Name a cell of `own` or `alone` for a message."""
        *members, accelerator = cell
        names = " beside ".join(str(self.keys.tolist()[member]) for member in members)
        return f"{names} on {self.accelerators[accelerator]!r}"

    @classmethod
    def of_frame(cls, frame: pd.DataFrame) -> PairThroughputs:
        """Make pair throughputs from a long table.

        Parameters
        ----------
        frame
            Columns job_type, scale_factor, partner_type, partner_scale_factor, accelerator and
            steps_per_s, one row per member of a pair. A row without a partner_type holds the
            steps/s alone; every key needs one. Pairs that are left out cannot share.

        Raises
        ------
        InputError
            For missing columns, rows that stand twice, keys without steps/s alone, and as the
            class.
        """
        table("The pair throughputs", frame, "members of a pair")
        for column in _FRAME_COLUMNS:
            if column not in frame.columns:
                raise InputError(
                    f"The pair throughputs have no column {column!r}; they need "
                    f"{', '.join(_FRAME_COLUMNS)}."
                )
        _check_names(frame)
        _refuse_twice(pd.MultiIndex.from_frame(frame[_FRAME_COLUMNS[:-1]]))
        without = frame["partner_type"].isna().to_numpy()
        single, pairs = frame[without], frame[~without]
        keys = pd.MultiIndex.from_frame(single[_KEY].drop_duplicates())
        where, accelerators = pd.factorize(frame["accelerator"])
        if (where < 0).any():
            row = frame.index[where < 0].tolist()[0]
            raise InputError(f"Row {row!r} of the pair throughputs names no accelerator.")
        steps_per_s = as_floats(frame["steps_per_s"])
        alone = np.zeros((len(keys), len(accelerators)))
        alone[_find(single[_KEY], keys), where[without]] = steps_per_s[without]
        own = np.zeros((len(keys), len(keys), len(accelerators)))
        a, b = _find(pairs[_KEY], keys), _find(pairs[_PARTNER], keys)
        own[a, b, where[~without]] = steps_per_s[~without]
        return cls(own, alone, keys, tuple(map(str, accelerators)))

    def to_frame(self) -> pd.DataFrame:
        """Return the long table of `of_frame`: the jobs alone first, then pairs that can share."""
        key, accelerator = np.indices(self.alone.shape).reshape(2, -1)
        a, b, j = np.nonzero(self.own)
        none = np.full(key.size, -1)
        members = self.keys.take(np.r_[key, a]).to_frame(index=False)
        partner = self.keys.take(np.r_[none, b]).to_frame(index=False).set_axis(_PARTNER, axis=1)
        partner[np.r_[none, b] < 0] = None
        frame = pd.concat([members, partner.astype({_PARTNER[1]: "Int64"})], axis=1)
        frame["accelerator"] = np.array(self.accelerators, dtype=object)[np.r_[accelerator, j]]
        frame["steps_per_s"] = np.r_[self.alone.ravel(), self.own[a, b, j]]
        return frame

    def normalized(self) -> Floats:
        """Steps/s beside a partner relative to alone, the shape of `own`; 0 where either is 0."""
        alone = np.broadcast_to(self.alone[:, None, :], self.own.shape)
        return np.divide(self.own, alone, out=np.zeros_like(self.own), where=alone > 0)

    def select(self, keys: Iterable[tuple[str, int]]) -> PairThroughputs:
        """Keep some keys, in the order given.

        Raises
        ------
        InputError
            For a key that is not there, with the nearest one.
        """
        pairs = [
            tuple(listed("A key", key, "(job type, scale factor)")) for key in listed("keys", keys)
        ]
        for pair in pairs:
            if len(pair) != 2:
                raise InputError(f"The key {written(pair)} must be (job type, scale factor).")
        for pair in pairs:
            hashable("key", pair)
        wanted = pd.MultiIndex.from_tuples(pairs, names=_KEY)
        rows = _find(wanted.to_frame(index=False), self.keys)
        return PairThroughputs(
            self.own[np.ix_(rows, rows)], self.alone[rows], self.keys[rows], self.accelerators
        )

    def lookup(self, jobs: pd.DataFrame, accelerators: Iterable[str]) -> tuple[Floats, Ints]:
        """Arrays for jobs by number: steps/s by key, and the key of each job.

        Parameters
        ----------
        jobs
            A jobs table with ``job_type`` and ``scale_factor``.
        accelerators
            Accelerator types, in the order wanted.

        Returns
        -------
        own
            Shape (keys + 1, keys + 1, accelerators); the last key shares with nobody.
        key
            Place of each job in `own`, the last one where the key is not there; shape (jobs,).

        Raises
        ------
        InputError
            For an accelerator that is not there, with the nearest one.
        """
        types = []
        for name in listed("accelerators", accelerators):
            choice("accelerator in the pair throughputs", name, self.accelerators)
            types.append(self.accelerators.index(name))
        own = np.pad(self.own[:, :, types], ((0, 1), (0, 1), (0, 0)))
        columns = [name for name in table("The jobs table", jobs).columns if name in _KEY]
        known = check_jobs(jobs[columns], required=_KEY)
        key = self.keys.get_indexer(pd.MultiIndex.from_frame(known[_KEY]))
        return own, np.where(key < 0, len(self.keys), key)

    def __repr__(self) -> str:
        pairs = int((self.own > 0).any(axis=2).sum())
        return (
            f"PairThroughputs: {len(self.keys)} keys, {pairs} ordered pairs that can share, "
            f"accelerators {', '.join(self.accelerators)}"
        )


def _find(labels: pd.DataFrame, keys: pd.MultiIndex) -> Ints:
    """Position of each label among the keys."""
    given = as_floats(labels.iloc[:, 1])
    gangs = np.where((given >= 0) & (given <= LARGEST_COUNT), given, -1.0).astype(np.int64)
    rows = keys.get_indexer(pd.MultiIndex.from_arrays([labels.iloc[:, 0], gangs]))
    if (rows < 0).any():
        missing = tuple(labels[rows < 0].to_numpy(dtype=object).tolist()[0])
        raise unknown_name("key (job type, scale factor)", missing, keys.tolist())
    return np.asarray(rows, dtype=np.intp)


def _check_names(frame: pd.DataFrame) -> None:
    """Raise if a cell that names something cannot be a name."""
    for column in _FRAME_COLUMNS[:-1]:
        for row, name in frame[column].items():
            if not (isinstance(name, str) or pd.api.types.is_scalar(name)):
                raise InputError(
                    f"Row {written(row)} of the pair throughputs has the {column} {written(name)}; "
                    f"it must be a text or number."
                )


def _refuse_twice(rows: pd.MultiIndex) -> None:
    """Raise if a row stands twice."""
    if not rows.is_unique:
        twice = rows[rows.duplicated()].tolist()[0]
        raise InputError(f"The pair throughputs have the row {written(twice)} twice.")
