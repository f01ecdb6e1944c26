"""Finished runs of an unfinished comparison, kept in a folder so that it can be resumed."""

from __future__ import annotations

import contextlib
import logging
import shutil
from typing import TYPE_CHECKING

from apportion.experiments.machine.store import FILE, RunLog
from apportion.experiments.run_records import NotPlainError, record_of, run_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from apportion.experiments.comparisons.parallel import Task
    from apportion.sim import Run

__all__ = ["FOLDER", "Unfinished"]

logger = logging.getLogger(__name__)

FOLDER = ".partial"
"""Folder of the finished runs, inside the output folder."""


class Unfinished:
    """The finished runs below an output folder, each found by the fingerprint of its task.

    Parameters
    ----------
    out
        The output folder of the comparison; None to keep nothing.
    resume
        Whether runs that are there already count.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """

    def __init__(self, out: Path | None, *, resume: bool) -> None:
        self._folder = None if out is None else out / FOLDER
        self._log = RunLog(self._folder)
        self._log.open(resume=resume)

    def keep(self, task: Task, run: Run) -> None:
        """Store a finished run."""
        try:
            record = record_of(run, task)
        except NotPlainError as error:
            logger.warning(
                "%s cannot be kept for a comparison that is stopped (%s).", run.policy, error
            )
            return
        self._log.append({"fingerprint": task.fingerprint, "policy": run.policy, **record})

    def find(self, tasks: Iterable[Task]) -> dict[str, Run]:
        """Return the runs of those tasks that are finished, by label of their policy.

        Raises
        ------
        InputError
            If the file of the runs cannot be read.
        """
        wanted = {task.fingerprint: task for task in tasks}
        found = {}
        for fingerprint, record in self._log.finished(wanted).items():
            task = wanted[fingerprint]
            try:
                found[task.policy.label] = run_of(record, task)
            except (ValueError, TypeError, LookupError) as error:
                logger.warning(
                    "%s runs again: what is stored is no run (%s).", task.policy.label, error
                )
        return found

    def close(self, *, finished: bool) -> None:
        """Delete the folder if the comparison is finished, or if nothing is in it."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            if finished or not (self._folder / FILE).stat().st_size:
                shutil.rmtree(self._folder)
