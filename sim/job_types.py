"""The job types that generated workloads are made of: 26 models with batch sizes, and their speed.

Single-GPU steps/s are the figures of Gavel (Narayanan et al., OSDI 2020, Table 2; artefact, MIT
licence); gangs of several GPUs follow `apportion.estimators.scaled_throughput`.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.checks import choice, listed, whole
from apportion.errors import InputError
from apportion.estimators import DISTRIBUTED_FAMILIES, family_of, scaled_throughput
from apportion.table_checks import check_unique

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


def job_types() -> pd.DataFrame:
    """Steps/s on one GPU of every job type.

    Returns
    -------
    DataFrame
        Indexed by job type (26 rows), one column per accelerator: v100, p100, k80.
    """
    table = resources.files("apportion.sim.data") / "job_types.csv"
    with table.open(encoding="utf-8") as lines:
        return pd.read_csv(lines, comment="#", index_col="job_type")


def job_type_throughputs(
    scale_factors: Iterable[int] = (1, 2, 4, 8), accelerators: Sequence[str] | None = None
) -> pd.DataFrame:
    """Steps/s of every job type with every number of GPUs that it may be distributed over.

    Parameters
    ----------
    scale_factors
        GPUs per job; above one, only the families of `DISTRIBUTED_FAMILIES` have rows.
    accelerators
        Columns, in this order; all that the table knows by default.

    Returns
    -------
    DataFrame
        The shape of ``Workload.throughputs``: rows (job_type, scale_factor), a column per type.

    Raises
    ------
    InputError
        For an accelerator that the table does not know.
    """
    single = job_types()
    names = list(single.columns) if accelerators is None else listed("accelerators", accelerators)
    for name in names:
        choice("accelerator in the table of job types", name, single.columns)
    if not names:
        raise InputError("accelerators is empty; leave it out, or name one at least.")
    check_unique("accelerator", pd.Index(names))
    single = single[names]
    given = listed("scale_factors", scale_factors)
    gangs = np.unique([whole("A scale factor", each, 1, integral=True) for each in given])
    if not gangs.size:
        raise InputError("scale_factors is empty; name one number of GPUs at least.")
    keys, rows = [], []
    for job_type, speeds in zip(single.index, single.to_numpy(), strict=True):
        family = family_of(job_type)
        allowed = gangs if family in DISTRIBUTED_FAMILIES else gangs[gangs == 1]
        keys += [(job_type, int(gang)) for gang in allowed]
        rows.append(scaled_throughput(speeds, family, allowed[:, None]))
    index = pd.MultiIndex.from_tuples(keys, names=["job_type", "scale_factor"])
    return pd.DataFrame(np.vstack(rows), index=index, columns=single.columns)


def draw_job_types(
    scale_factors: pd.Series, throughputs: pd.DataFrame, reference: str, rng: np.random.Generator
) -> pd.Series:
    """Draw a job type for every job, uniformly among those that run with its number of GPUs.

    One random number is used per job, whatever the table: the first jobs of a longer series draw
    what they draw in a shorter one.

    Parameters
    ----------
    scale_factors
        GPUs of each job, indexed by job.
    throughputs
        Steps/s, rows (job_type, scale_factor).
    reference
        Accelerator type that a job type must run on to be drawn.
    rng
        Source of randomness.

    Raises
    ------
    InputError
        If no job type runs with the GPUs of a job.
    """
    runs = throughputs.index[throughputs[reference].to_numpy() > 0]
    type_names = runs.get_level_values(0).to_numpy(dtype=object)
    gangs = runs.get_level_values(1).to_numpy()
    wanted = scale_factors.to_numpy()
    uniform = rng.random(len(wanted))
    drawn: NDArray[np.object_] = np.empty(len(wanted), dtype=object)
    for gang in np.unique(wanted):
        jobs = wanted == gang
        candidates = type_names[gangs == gang]
        if not candidates.size:
            job = scale_factors.index[jobs].tolist()[0]
            raise InputError(
                f"Job {job!r} has scale factor {gang}, but no job type in the throughputs runs on "
                f"so many {reference} GPUs; they know scale factors "
                f"{', '.join(map(str, np.unique(gangs)))}."
            )
        drawn[jobs] = candidates[(uniform[jobs] * candidates.size).astype(np.int64)]
    return pd.Series(drawn, index=scale_factors.index, dtype=str, name="job_type")
