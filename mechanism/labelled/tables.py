"""What users hand to the round scheduler, read and checked; its state as plain data."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import as_float, hashable, is_number, mapping
from apportion.errors import InputError, unknown_name, written
from apportion.table_checks import as_floats, check_unique

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.core import RoundCore
    from apportion.mechanism.labelled.rows import LabelledRows

    Label = tuple[Hashable, ...]
    Where = dict[Hashable, tuple[str, tuple[int, ...]]]

# Solvers keep to their bounds up to about this much.
TOLERANCE = 1e-6


def read_table(
    what: str,
    table: object,
    cluster: Cluster,
    *,
    most: float = np.inf,
    combinations: Mapping[Any, Sequence[Hashable]] | None = None,
    truths: bool = False,
) -> tuple[list[Label], NDArray[np.float64]]:
    """Read a table of rows (jobs or combinations) by accelerator types.

    Parameters
    ----------
    what
        Name of the argument, for messages.
    table
        A DataFrame, or anything with an attribute ``X`` that is one. Types may be missing (0).
    cluster
        Whose types the columns may be.
    most
        Largest value allowed.
    combinations
        The jobs of rows that are named otherwise than by a tuple of them.
    truths
        Whether True and False stand for 1 and 0.

    Returns
    -------
    The jobs of each row, and the values, shape (rows, types).
    """
    table = getattr(table, "X", table)
    if not isinstance(table, pd.DataFrame):
        raise InputError(
            f"{what} must be a DataFrame, rows jobs and columns accelerators, or an Allocation; "
            f"not {type(table).__name__}."
        )
    check_unique(f"row of {what}", table.index)
    check_unique(f"column of {what}", table.columns)
    for column in table.columns:
        if column not in cluster.gpus:
            table_of = what[0].lower() + what[1:]
            raise unknown_name(f"accelerator in the columns of {table_of}", column, cluster.gpus)
    named = {} if combinations is None else mapping("combinations", combinations)
    labels = [
        tuple(hashable("job", named[row])) if row in named else _label(row) for row in table.index
    ]
    _refuse_twice(what, labels)
    table = table.reindex(columns=list(cluster.accelerators), fill_value=0.0)
    values = as_floats(table, truths=truths)
    wrong = np.argwhere(~(np.isfinite(values) & (values >= -TOLERANCE) & (values <= most)))
    if wrong.size:
        row, kind = wrong[0]
        limit = ">= 0" if np.isinf(most) else f"between 0 and {most:g}"
        raise InputError(
            f"{what} of {written(table.index[row])} on {cluster.accelerators[kind]!r} is "
            f"{values[row, kind]}; it must be a number {limit}."
        )
    return labels, np.clip(values, 0.0, None)


def _label(row: Hashable) -> Label:
    """Return the jobs of a row: a tuple is a combination, anything else one job."""
    return row if isinstance(row, tuple) else (row,)


def _refuse_twice(what: str, labels: list[Label]) -> None:
    seen: set[frozenset[Hashable]] = set()
    for label in labels:
        if len(set(label)) < len(label) or not label:
            raise InputError(
                f"The row {written(label)} of {what} must name one or more different jobs."
            )
        if frozenset(label) in seen:
            raise InputError(f"{what} has the row {written(label)} twice.")
        seen.add(frozenset(label))


def read_scale_factors(
    given: Mapping[Any, int] | pd.Series | int | None,
    jobs: Iterable[Hashable],
    known: Mapping[Hashable, int],
    cluster: Cluster,
) -> dict[Hashable, int]:
    """Return the GPUs of each job: as given, else as known; 1 if none are given at all.

    Raises
    ------
    InputError
        If some are given and that of a job is not, or if a scale factor is not a whole number from
        1 to the GPUs of the largest type.
    """
    largest = max(cluster.gpus.values())
    same = given if is_number(given) else None
    table: dict[Any, int] = {}
    if given is not None and same is None:
        table = mapping("scale_factor", given, "a number of GPUs, or one by job")
    factors: dict[Hashable, int] = {}
    for job in jobs:
        if given is not None and same is None and job not in table and job not in known:
            raise InputError(
                f"Job {written(job)} has no scale factor, while others have; give the GPUs of each "
                f"job, or one number for all."
            )
        gpus = table.get(job, known.get(job, 1)) if same is None else same
        real = as_float(gpus)
        if not (1 <= real <= largest and real.is_integer()):
            raise InputError(
                f"Job {written(job)} has scale_factor = {written(gpus)}; it must be a whole number "
                f"from 1 to {largest}, the GPUs of the largest type of the cluster {cluster}."
            )
        factors[job] = int(real)
    return factors


def refuse_uneven(labels: Iterable[Label], scale: Mapping[Hashable, int]) -> None:
    """Raise if the jobs of a combination have different scale factors."""
    for label in labels:
        gpus = {job: scale[job] for job in label}
        if len(set(gpus.values())) > 1:
            raise InputError(
                f"The jobs of the combination {written(label)} have different scale factors "
                f"({gpus}); jobs that share devices must hold the same number of GPUs."
            )


def state_of(
    cluster: Cluster, core: RoundCore, rows: LabelledRows, where: Where, number: int
) -> dict[str, Any]:
    """Write down a scheduler between two rounds in lists, numbers and texts."""
    spec = asdict(cluster)
    # JSON knows no NaN, by which a cluster says that it has no price.
    spec["prices_per_gpu_hour"] = {k: v for k, v in spec["prices_per_gpu_hour"].items() if v == v}
    return {
        "cluster": spec,
        "settings": {
            "round_seconds": float(core.round_seconds),
            "placement": core.placer.strategy,
            "carry_over": core.carry_over,
            "work_conserving": core.work_conserving,
        },
        "core": core.state(),
        "labels": [[_plain(job) for job in label] for label in rows.labels],
        "scale": [[_plain(job), gpus] for job, gpus in rows.scale.items()],
        "where": [[_plain(job), name, list(devices)] for job, (name, devices) in where.items()],
        "round": number,
    }


def _plain(job: Hashable) -> str | float:
    """Return a job id as JSON can hold it."""
    plain = job.item() if isinstance(job, np.generic) else job
    if not isinstance(plain, (str, int, float)):
        raise InputError(
            f"Job {written(job)} cannot be written to the state: job ids must be texts or numbers, "
            f"not {type(job).__name__}."
        )
    return plain
