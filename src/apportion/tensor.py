"""The throughput tensor: how fast every job runs under every option."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_COUNT
from apportion.errors import InputError, written
from apportion.problem_inputs import (
    OPTION_LEVELS,
    called,
    check_members,
    check_speeds,
    cluster_of,
    combination_table,
    each_alone,
    jobs_table,
    labelled_array,
    labelled_mapping,
    level_names,
    name_in_cluster,
    no_workers,
    rows_of_jobs,
)
from apportion.table_checks import as_floats, check_unique, table
from apportion.whole_files import writing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.problem_inputs import Jobs, Workers

    Throughputs: TypeAlias = "ThroughputTensor | pd.DataFrame | Mapping[Any, Any] | Sequence[Sequence[float]] | NDArray[Any]"  # noqa: E501


@dataclass(frozen=True, eq=False, repr=False)
class ThroughputTensor:
    """Steps/s of jobs, or of the members of combinations of jobs, under options.

    Parameters
    ----------
    values
        One row per member (a job in a row), one column per option, in steps/s of the whole job;
        0 where it cannot run. Rows are indexed by ``(row, job)``, where `row` is the job's own id
        or, for a combination that shares devices, the ids joined by ``" + "``. Columns are
        accelerator types, or have several levels with names out of `OPTION_LEVELS`, in any order:
        a level ``gpus`` says how many GPUs a row holds under an option. Levels without names are
        ``(accelerator, gpus)`` where all in the second are numbers, else ``(accelerator, tier)``.
    workers
        The GPUs of each type, if they are to come with the throughputs: a `Cluster`, a mapping, or
        text such as ``"v100=8,k80=16"``.
    jobs_table
        What else is known of the jobs (columns of `JOB_COLUMNS`), if it is to come with them.

    `of` makes one from what users have.

    Raises
    ------
    InputError
        For throughputs that are negative, infinite or missing, duplicate labels, and jobs that
        run nowhere; the message names them.
    """

    values: pd.DataFrame
    workers: Cluster | None = None
    jobs_table: pd.DataFrame | None = None

    def __post_init__(self) -> None:
        values = table("The throughputs", self.values)
        if values.index.nlevels != 2 or level_names(values.columns) is None:
            raise InputError(
                "A throughput tensor has rows (row, job) and columns accelerator, (accelerator, "
                "tier) or (accelerator, gpus), or levels with names out of "
                f"{', '.join(OPTION_LEVELS)}, accelerator among them; got {values.index.nlevels} "
                f"row and {values.columns.nlevels} column levels"
                f"{called(values.columns)}."
            )
        check_unique("option", values.columns)
        columns = values.columns
        types = columns.levels[0] if isinstance(columns, pd.MultiIndex) else columns
        if not all(isinstance(each, str) for each in types):  # those have one name in a cluster
            check_unique("option", pd.Index([*map(name_in_cluster, columns)]))
        alone = self._each_alone
        if not alone:
            check_unique("row of the throughput tensor", values.index)
        numbers = as_floats(values)
        check_speeds(values, numbers)
        if not alone:
            check_members(values.index)
        named = values.index.set_names(["row", "job"])
        frame = pd.DataFrame(numbers, index=named, columns=values.columns)
        object.__setattr__(self, "values", frame)
        anywhere = (numbers > 0).any(axis=1)
        if not alone:
            places = self.member_places[1]
            anywhere = np.bincount(places, weights=anywhere, minlength=len(self.jobs)) > 0
        if not anywhere.all():
            raise InputError(
                f"Job {written(self.jobs[int(anywhere.argmin())])} runs nowhere: its throughput is "
                f"0 under every option. Give it a positive throughput somewhere, or leave it out."
            )
        if self.workers is not None:
            cluster = cluster_of(self.workers, self.accelerator_of_option)
            object.__setattr__(self, "workers", cluster)
        if self.jobs_table is not None:
            object.__setattr__(self, "jobs_table", jobs_table(self.jobs_table, self.jobs))

    @classmethod
    def of(
        cls, table: Throughputs, *, workers: Workers | None = None, jobs: Jobs | None = None
    ) -> ThroughputTensor:
        """Make a tensor from a DataFrame, a mapping of mappings or an array.

        Parameters
        ----------
        table
            A DataFrame with one row per job and one column per option, or two row levels
            ``(row, job)`` for combinations; ``{job: {option: steps/s}}``, where a job cannot run
            under options that it does not name; a tensor; or an array, jobs by types, its jobs
            called 0 to n - 1.
        workers
            The GPUs of each type, which `solve` then need not be told: a `Cluster`, a mapping, or
            text. With an array also a list of counts, whose types are called 0 to n - 1; other
            workers give the columns of an array their names.
        jobs
            What else is known of the jobs, a table or a dict of columns (see `solve`).
        """
        if isinstance(table, ThroughputTensor):
            given = workers is not None or jobs is not None
            return table._with(workers, jobs) if given else table
        if isinstance(table, (np.ndarray, list, tuple)):
            table, workers = labelled_array(table, workers)
        if not isinstance(table, (pd.DataFrame, Mapping)):
            raise InputError(
                f"The throughputs must be a DataFrame (jobs by types), a mapping, an array or a "
                f"ThroughputTensor, not {type(table).__name__}."
            )
        if not isinstance(table, pd.DataFrame):
            table = labelled_mapping(table)
        if table.index.nlevels == 1:
            check_unique("job id", table.index)
            table = table.set_axis(rows_of_jobs(table.index), axis=0)
        return cls(table, workers, jobs)  # type: ignore[arg-type]

    def _with(self, workers: Workers | None, jobs: Jobs | None) -> ThroughputTensor:
        """Return the same throughputs with other workers or facts about the jobs, if given."""
        other = copy(self)
        if workers is not None:
            cluster = cluster_of(workers, self.accelerator_of_option)
            object.__setattr__(other, "workers", cluster)
        if jobs is not None:
            object.__setattr__(other, "jobs_table", jobs_table(jobs, self.jobs))
        return other

    def on_types_of(self, cluster: Cluster) -> ThroughputTensor:
        """Return throughputs with a column for each type of a cluster, 0 where there was none.

        Options of several levels stay as they are.
        """
        there = set(self.accelerator_of_option)
        if self.options.nlevels > 1 or cluster.gpus.keys() <= there:
            return self
        missing = [name for name in cluster.accelerators if name not in there]
        columns = pd.Index([*self.options, *missing], name=self.options.name)
        values = self.values.reindex(columns=columns, fill_value=0.0)
        return ThroughputTensor(values, self.workers, self.jobs_table)

    @property
    def cluster(self) -> Cluster:
        """The workers; an `InputError` that shows how to give them where there are none."""
        if self.workers is None:
            raise no_workers(dict.fromkeys(self.accelerator_of_option, 8))
        return self.workers

    @classmethod
    def of_combinations(
        cls,
        combinations: Mapping[tuple[Any, ...], Sequence[Sequence[float]]],
        options: Sequence[Any] | pd.Index,
        *,
        workers: Workers | None = None,
        jobs: Jobs | None = None,
    ) -> ThroughputTensor:
        """Make a tensor from combinations: a tuple of job ids, and one row of steps/s for each.

        For example ``{("a",): [[4.0]], ("b",): [[2.0]], ("a", "b"): [[3.0, 1.0]]}`` with the
        options ``["v100"]``. `workers` and `jobs` are as for `of`.
        """
        table = combination_table(combinations, options)
        return cls.of(table, workers=workers, jobs=jobs)

    @cached_property
    def _each_alone(self) -> bool:
        return each_alone(self.values.index)

    @cached_property
    def rows(self) -> pd.Index:
        """Labels of the rows of the allocation matrix: jobs and combinations."""
        if self._each_alone:
            return self.jobs
        return self.values.index.get_level_values(0).unique().rename(None)

    @cached_property
    def jobs(self) -> pd.Index:
        """Job ids, in the order in which they first appear."""
        jobs = self.values.index.get_level_values(1)
        return (jobs if self._each_alone else jobs.unique()).rename(None)

    @cached_property
    def member_places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row and job of each member, places in `rows` and `jobs`, shape (members,) each."""
        if self._each_alone:
            places = np.arange(len(self.jobs), dtype=np.intp)
            return places, places
        levels = (self.values.index.get_level_values(level) for level in (0, 1))
        row, job = (pd.factorize(level)[0] for level in levels)
        return row.astype(np.intp), job.astype(np.intp)

    @cached_property
    def solo(self) -> bool:
        """Whether every row is one job."""
        return self._each_alone or bool(self.rows.equals(self.jobs))

    @cached_property
    def has_tiers(self) -> bool:
        """Whether options have a level of tiers."""
        return self.option_level("tier") is not None

    @cached_property
    def options(self) -> pd.Index:
        """Labels of the options."""
        return self.values.columns

    def option_level(self, name: str) -> pd.Index | None:
        """Return what each option says at a level out of `OPTION_LEVELS`; None without it."""
        names = level_names(self.options) or ()
        return self.options.get_level_values(names.index(name)) if name in names else None

    @cached_property
    def type_labels(self) -> pd.Index:
        """Accelerator type of each option, as the columns have it."""
        return cast("pd.Index", self.option_level("accelerator")).rename(None)

    @cached_property
    def accelerator_of_option(self) -> NDArray[np.object_]:
        """Name of the accelerator type of each option, as in a cluster, shape (options,)."""
        return np.array([*map(str, self.type_labels.tolist())], dtype=object)

    @cached_property
    def gpus_of_option(self) -> NDArray[np.float64] | None:
        """GPUs that an option holds, where options say so; else None."""
        level = self.option_level("gpus")
        if level is None:
            return None
        gpus = as_floats(level)
        if not ((gpus >= 1) & (gpus == np.floor(gpus)) & (gpus <= LARGEST_COUNT)).all():
            raise InputError(f"GPUs in the options must be whole numbers >= 1, not {list(level)}.")
        return gpus

    def to_frame(self) -> pd.DataFrame:
        """Return the table, rows ``(row, job)`` and one column per option."""
        return self.values.copy()

    def to_parquet(self, path: str | Path) -> None:
        """Write one line per member and option: ``row, job, <option levels>, steps_per_s``."""
        levels = list(range(self.options.nlevels))
        frame = self.values.copy()
        frame.columns = frame.columns.set_names([f"option_{level}" for level in levels])
        long = cast("pd.Series", frame.stack(levels, future_stack=True)).rename("steps_per_s")
        with writing(path):
            long.reset_index().to_parquet(path, index=False)

    def __repr__(self) -> str:
        combined = int((~self.rows.isin(self.jobs)).sum())
        extra = f", {combined} combinations" if combined else ""
        head = f"ThroughputTensor: {len(self.jobs)} jobs{extra} x {len(self.options)} options"
        workers = "" if self.workers is None else f" on {self.workers}"
        return f"{head}, steps/s{workers}\n{self.values.to_string(max_rows=10)}"
