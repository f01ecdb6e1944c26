"""Space sharing: rows for pairs of jobs that share devices, by class, and back to pairs of jobs.

Pairs of identical jobs are as alike as the jobs: the total time that class g spends beside class h
is one row, whatever the number of jobs. A pair that is no better than taking turns is left out:
where ``own / alone`` of the two sums to at most 1, time slicing gives both as much (exact).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.policies.instance import usage_of_gpus

if TYPE_CHECKING:
    from apportion.policies.instance import Instance
    from apportion.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class PairTable:
    """How fast jobs run beside each other, by key (job type and scale factor).

    Parameters
    ----------
    own
        Steps/s of a job of one key beside one of another under each option, 0 where they cannot
        share; shape (keys, keys, options).
    key
        Key of each job, shape (jobs,).
    """

    own: Floats
    key: Ints

    def in_order(self, jobs: Ints, options: Ints) -> PairTable:
        """Return what is known with jobs and options in another order, given by their places.

        Keys are numbered as they first appear.
        """
        key = self.key[jobs]
        first = np.sort(np.unique(key, return_index=True)[1])
        seen = key[first]
        keys = np.concatenate([seen, np.setdiff1d(np.arange(self.own.shape[0]), seen)])
        own = self.own[np.ix_(keys, keys)][:, :, options]
        return PairTable(own, np.argsort(keys)[key])


def add_pairs(
    instance: Instance, table: PairTable, only: Ints | None = None
) -> tuple[Instance, Ints]:
    """Append a row for every pair of jobs (classes) that is worth running together.

    Parameters
    ----------
    instance
        A problem whose rows are single jobs (classes of `count` jobs).
    table
        Throughputs of pairs; its keys are those of the classes.
    only
        The pairs to look at, shape (pairs, 2), the smaller number first, under every option. By
        default all, each under the options where the two make more than by taking turns.

    Returns
    -------
    instance
        With a row for each pair, which holds the GPUs of the larger of the two. ``X`` of such a row
        is the time that all jobs of the one class together spend beside jobs of the other, in units
        of the round: it may exceed 1.
    pairs
        The two classes of each added row, shape (pairs, 2).
    """
    first, second = np.triu_indices(instance.jobs) if only is None else only.T
    enough = (first != second) | (instance.count[first] >= 2)
    first, second = first[enough], second[enough]
    speeds = np.stack(
        [
            table.own[table.key[first], table.key[second]],
            table.own[table.key[second], table.key[first]],
        ]
    )
    alone = np.stack([instance.throughput[first], instance.throughput[second]])
    both = (speeds > 0).all(axis=0) & (alone > 0).all(axis=0)
    relative = np.divide(speeds, alone, out=np.zeros_like(speeds), where=alone > 0).sum(axis=0)
    # A pair drawn by rule stands on every type; an optimum uses it only where it beats turns.
    speeds = speeds * (both & ((relative > 1.0 + 1e-12) | (only is not None)))
    useful = np.flatnonzero(speeds.any(axis=(0, 2)))
    first, second, speeds = first[useful], second[useful], speeds[:, useful]
    row = instance.rows + np.arange(useful.size)
    gpus = np.maximum(instance.gpus[first], instance.gpus[second])
    added = usage_of_gpus(gpus, instance.option_accelerator, instance.capacity.size)
    extended = replace(
        instance,
        throughput=np.vstack([instance.throughput, speeds[0], speeds[1]]),
        member_row=np.concatenate([instance.member_row, row, row]),
        member_job=np.concatenate([instance.member_job, first, second]),
        member_share=np.concatenate(
            [instance.member_share, 1 / instance.count[first], 1 / instance.count[second]]
        ),
        own_usage=sparse.csr_array(sparse.vstack([instance.usage, added])),
    )
    return extended, np.column_stack([first, second])


def pairs_of_jobs(pairs: Ints, total: Floats, class_of: Ints) -> tuple[Ints, Floats]:
    """Split the time of pairs of classes over few pairs of jobs, every job of a class alike.

    Jobs of two classes are lined up and matched from the north-west corner: at most as many pairs
    as jobs. Jobs of one class are matched around a circle.

    Parameters
    ----------
    pairs
        The two classes of each row, shape (pairs, 2).
    total
        Time of each row under each option, shape (pairs, options).
    class_of
        Class of each job, shape (jobs,).

    Returns
    -------
    jobs
        The two jobs of each pair, shape (job pairs, 2).
    X
        Share of time of each, shape (job pairs, options).
    """
    order = np.argsort(class_of, kind="stable")
    starts = np.searchsorted(class_of[order], np.arange(class_of.max(initial=-1) + 2))
    matched, shares = [np.empty((0, 2), dtype=np.intp)], [np.empty((0, total.shape[1]))]
    for (g, h), time in zip(pairs, total, strict=True):
        if not time.any():
            continue
        ours, theirs = order[starts[g] : starts[g + 1]], order[starts[h] : starts[h + 1]]
        if g == h:  # around a circle, but for two, which have one pair
            ours, theirs = np.split(ours, 2) if ours.size == 2 else (ours, np.roll(ours, -1))
        jobs, part = _north_west(ours, theirs)
        matched.append(jobs)
        shares.append(part[:, None] * time)
    return np.vstack(matched), np.vstack(shares)


def _north_west(ours: Ints, theirs: Ints) -> tuple[Ints, Floats]:
    """Match two classes: each of our jobs gives 1/n, each of theirs takes 1/m."""
    cuts = np.union1d(
        np.arange(ours.size + 1) * theirs.size, np.arange(theirs.size + 1) * ours.size
    )
    middle = (cuts[:-1] + cuts[1:]) / 2
    jobs = np.column_stack(
        [ours[(middle // theirs.size).astype(int)], theirs[(middle // ours.size).astype(int)]]
    )
    return jobs, np.diff(cuts) / (ours.size * theirs.size)
