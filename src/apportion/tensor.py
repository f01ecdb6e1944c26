"""The throughput tensor: how fast every job runs under every option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from apportion.errors import InputError, written
from apportion.jobs import check_unique

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["COMBINATION", "ThroughputTensor"]

COMBINATION = " + "


@dataclass(frozen=True, eq=False, repr=False)
class ThroughputTensor:
    """Steps/s of jobs, or of the members of combinations of jobs, under options.

    Parameters
    ----------
    values
        One row per member (a job in a row), one column per option, in steps/s of the whole job;
        0 where it cannot run. Rows are indexed by ``(row, job)``, where `row` is the job's own id
        or, for a combination that shares devices, the ids joined by ``" + "``. Columns are
        accelerator types, or pairs with a type first: ``(accelerator, tier)``,
        ``(accelerator, gpus)``.

    Use `of` to make one from what users have.

    Raises
    ------
    InputError
        For throughputs that are negative, infinite or missing, duplicate labels, and jobs that
        run nowhere; the message names them.
    """

    values: pd.DataFrame

    def __post_init__(self) -> None:
        values = self.values
        if values.index.nlevels != 2 or values.columns.nlevels > 2:
            raise InputError(
                "A throughput tensor has rows (row, job) and columns accelerator, (accelerator, "
                f"tier) or (accelerator, gpus); got {values.index.nlevels} row and "
                f"{values.columns.nlevels} column levels."
            )
        check_unique("option", values.columns)
        check_unique("row of the throughput tensor", values.index)
        numbers = values.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)
        self._check_numbers(numbers)
        self._check_members()
        frame = pd.DataFrame(numbers, index=values.index, columns=values.columns)
        object.__setattr__(self, "values", frame.rename_axis(index=["row", "job"]))
        anywhere = np.asarray((numbers > 0).any(axis=1))
        runs = pd.Series(anywhere, index=values.index.get_level_values(1))
        nowhere = ~runs.groupby(level=0, sort=False).any()
        if nowhere.any():
            raise InputError(
                f"Job {written(nowhere.index[nowhere][0])} runs nowhere: its throughput is 0 under "
                f"every option. Give it a positive throughput somewhere, or leave it out."
            )

    def _check_members(self) -> None:
        """Name the first combination that does not have the jobs that its label says."""
        index = self.values.index
        combined = index[index.get_level_values(0) != index.get_level_values(1)]
        members: dict[Any, list[str]] = {}
        for row, job in combined:
            members.setdefault(row, []).append(str(job))
        for row, jobs in members.items():
            named = str(row).split(COMBINATION)
            if len(jobs) == 1 and len(named) == 1:
                raise InputError(
                    f"The row {written(row)} is of job {jobs[0]!r} only; a row of one job has the "
                    f"job's own id."
                )
            if len(named) > 1 and len(jobs) < len(named):
                missing = next((name for name in named if name not in jobs), named[-1])
                raise InputError(
                    f"The combination {written(row)} has no throughputs for its member "
                    f"{missing!r}; it needs a row for each of {', '.join(named)}."
                )

    def _check_numbers(self, numbers: NDArray[np.float64]) -> None:
        """Name the first throughput that is not a finite number >= 0."""
        wrong = ~np.isfinite(numbers) | (numbers < 0)
        if wrong.any():
            member, option = np.argwhere(wrong)[0]
            job, value = self.values.index[member][1], self.values.iloc[member, option]
            raise InputError(
                f"The throughput of job {written(job)} on {_name(self.values.columns[option])} is "
                f"{written(value)}; it must be a finite number of steps/s, 0 where the job "
                f"cannot run."
            )

    @classmethod
    def of(cls, table: ThroughputTensor | pd.DataFrame | Mapping[Any, Any]) -> ThroughputTensor:
        """Make a tensor from a DataFrame or a mapping of mappings.

        A DataFrame has one row per job and one column per option, or two row levels
        ``(row, job)`` for combinations.
        """
        if isinstance(table, ThroughputTensor):
            return table
        if not isinstance(table, pd.DataFrame):
            table = pd.DataFrame.from_dict(dict(table), orient="index")
        if table.index.nlevels == 1:
            check_unique("job id", table.index)
            own = pd.MultiIndex.from_arrays([table.index, table.index], names=["row", "job"])
            table = table.set_axis(own, axis=0)
        return cls(table)

    @classmethod
    def of_combinations(
        cls,
        combinations: Mapping[tuple[Any, ...], Sequence[Sequence[float]]],
        options: Sequence[Any] | pd.Index,
    ) -> ThroughputTensor:
        """Make a tensor from combinations: a tuple of job ids, and one row of steps/s for each.

        For example ``{("a",): [[4.0]], ("b",): [[2.0]], ("a", "b"): [[3.0, 1.0]]}`` with the
        options ``["v100"]``.
        """
        labels, rows = [], []
        for members, speeds in combinations.items():
            if len(speeds) != len(members):
                raise InputError(
                    f"The combination {members!r} has {len(speeds)} rows of throughputs for "
                    f"{len(members)} jobs."
                )
            name = members[0] if len(members) == 1 else COMBINATION.join(map(str, members))
            labels += [(name, job) for job in members]
            rows += [list(speed) for speed in speeds]
        index = pd.MultiIndex.from_tuples(labels, names=["row", "job"])
        return cls(pd.DataFrame(rows, index=index, columns=pd.Index(options)))

    @property
    def rows(self) -> pd.Index:
        """Labels of the rows of the allocation matrix: jobs and combinations."""
        return self.values.index.get_level_values(0).unique().rename(None)

    @property
    def jobs(self) -> pd.Index:
        """Job ids, in the order in which they first appear."""
        return self.values.index.get_level_values(1).unique().rename(None)

    @property
    def options(self) -> pd.Index:
        """Labels of the options."""
        return self.values.columns

    @property
    def accelerator_of_option(self) -> pd.Index:
        """Accelerator type of each option."""
        return self.options.get_level_values(0)

    @property
    def gpus_of_option(self) -> NDArray[np.float64] | None:
        """GPUs that an option holds, where options are (accelerator, gpus); else None."""
        if self.options.nlevels == 1:
            return None
        level = self.options.get_level_values(1)
        if not pd.api.types.is_numeric_dtype(level):
            return None
        gpus = level.to_numpy(dtype=float)
        if (gpus < 1).any() or (gpus != np.floor(gpus)).any():
            raise InputError(f"GPUs in the options must be whole numbers >= 1, not {list(level)}.")
        return np.asarray(gpus, dtype=float)

    def to_frame(self) -> pd.DataFrame:
        """Return the table, rows ``(row, job)`` and one column per option."""
        return self.values.copy()

    def to_parquet(self, path: str | Path) -> None:
        """Write one line per member and option: ``row, job, <option levels>, steps_per_s``."""
        levels = list(range(self.options.nlevels))
        frame = self.values.copy()
        frame.columns = frame.columns.set_names([f"option_{level}" for level in levels])
        long = cast("pd.Series", frame.stack(levels, future_stack=True)).rename("steps_per_s")
        long.reset_index().to_parquet(path, index=False)

    def __repr__(self) -> str:
        combined = int((~self.rows.isin(self.jobs)).sum())
        extra = f", {combined} combinations" if combined else ""
        head = f"ThroughputTensor: {len(self.jobs)} jobs{extra} x {len(self.options)} options"
        return f"{head}, steps/s\n{self.values.to_string(max_rows=10)}"


def _name(option: Any) -> str:
    """Write an option as a user would."""
    return " at ".join(map(written, option)) if isinstance(option, tuple) else written(option)
