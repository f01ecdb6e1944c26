"""Finished runs by policy, and their tables under each other and against each other."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from apportion.errors import unknown_name
from apportion.statistics.differences import differences_of
from apportion.statistics.intervals import batch_figures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from apportion.sim import Run


class RunsByPolicy:
    """Finished runs by policy: a mapping of them, and the tables of all of them.

    Attributes
    ----------
    runs
        The runs, in the order asked for.
    """

    runs: Mapping[str, Run]

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __getitem__(self, policy: str) -> Run:
        return self.runs[policy]

    def jobs(self) -> pd.DataFrame:
        """One row per policy and job: the jobs tables of all runs under each other."""
        each = {label: run.jobs.reset_index(names="job") for label, run in self.runs.items()}
        return _under_each_other(each)

    def by(self, column: str) -> pd.DataFrame:
        """One row per policy and group of jobs: those of a user, an entity, a partition.

        Columns ``policy``, the given one, and those of `Run.by`.

        Raises
        ------
        InputError
            For a column that the jobs tables do not have.
        """
        return _under_each_other(
            {label: run.by(column).reset_index() for label, run in self.runs.items()}
        )

    def schedule(self) -> pd.DataFrame:
        """One row per policy and stay: the schedules of all runs under each other.

        ``as_recorded`` has none, as logs tell no devices.

        Raises
        ------
        InputError
            If there are none, as nobody holds devices under ``mechanism="exact"``.
        """
        told = {label: run for label, run in self.runs.items() if "schedule" in run.tables}
        return _under_each_other(
            {label: run.schedule for label, run in (told or self.runs).items()}
        )

    @property
    def has_schedule(self) -> bool:
        """Whether there is a schedule of devices to save."""
        return any("schedule" in run.tables for run in self.runs.values())

    def jobs_against(self, policy: str) -> pd.DataFrame:
        """One row per job and other policy: by how much it came earlier or later than by `policy`.

        Parameters
        ----------
        policy
            One of those that ran, such as ``"as_recorded"``.

        Returns
        -------
        DataFrame
            ``policy`` (the other), ``job``, its ``start_s``, ``completion_s`` and ``jct_s``, and
            ``start_later_s`` and ``completion_later_s``, seconds after those by `policy`, below 0
            for earlier. The completion time (JCT) differs by as much as the completion, as jobs
            arrive when they do; ``jct_ratio`` is the JCT over that by `policy`.

        Raises
        ------
        InputError
            For a policy that did not run.
        """
        if policy not in self.runs:
            raise unknown_name("policy that ran", policy, self.runs)
        table, base = self.jobs(), self.runs[policy].jobs
        table = table[table["policy"] != policy].reset_index(drop=True)
        beside = base.loc[table["job"]].reset_index(drop=True)
        shown = table[["policy", "job", "start_s", "completion_s", "jct_s"]]
        return shown.assign(
            start_later_s=table["start_s"] - beside["start_s"],
            completion_later_s=table["completion_s"] - beside["completion_s"],
            jct_ratio=table["jct_s"] / beside["jct_s"],
        )

    def differences(self, against: str, level: float = 0.95) -> pd.DataFrame:
        """By how much figures differ from those of one policy, with paired intervals.

        Of figures that are means or sums over jobs, by batches of jobs in their order of arrival;
        see `apportion.statistics`, and for draws of other jobs `Sweep.differences`.

        Parameters
        ----------
        against, level
            As for `apportion.statistics.differences_of`, which says what the columns are.

        Raises
        ------
        InputError
            For a policy that did not run, and a level that is none.
        """
        return differences_of(self._batches, list(self.runs), against, level)

    @cached_property
    def _batches(self) -> dict[str, NDArray[np.float64]]:
        """Figures of batches of jobs, by policy."""
        return batch_figures({label: run.measured for label, run in self.runs.items()})


def _under_each_other(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the tables of policies as one, with the column ``policy`` in front."""
    table = pd.concat(tables.values(), ignore_index=True)
    table.insert(0, "policy", pd.Index(list(tables)).repeat([*map(len, tables.values())]))
    return table
