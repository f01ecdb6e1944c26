"""Runs in workers: workloads made there, figures sent back, failures told and not raised."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from apportion.comparison.progress import progress_display, wants_display
from apportion.comparison.provenance import plain
from apportion.comparison.workers import as_they_finish
from apportion.sim import simulate
from apportion.sweeps.backends import active_backend
from apportion.sweeps.sources import made_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.comparison.progress import Report
    from apportion.comparison.run_log import RunLog
    from apportion.sweeps.plan import PlannedRun

__all__ = ["run_in_workers"]

logger = logging.getLogger(__name__)


def run_in_workers(
    todo: Sequence[PlannedRun],
    log: RunLog,
    *,
    backend: str,
    address: str | None,
    n_jobs: int | None,
    progress: bool | None,
) -> dict[str, dict[str, Any]]:
    """Carry out runs, and add each to the log when it is finished.

    Returns
    -------
    dict
        Records by fingerprint: the label of the run, the figures of its summary, its ``error``.

    Raises
    ------
    ApportionError
        If the back end cannot be had, or a worker process died.
    """
    records: dict[str, dict[str, Any]] = {}
    if not todo:
        return records
    what = "run" if len(todo) == 1 else "runs"
    with (
        active_backend(backend, address, n_jobs) as at_once,
        progress_display(wants_display(progress), len(todo), what) as display,
    ):
        for number, figures in as_they_finish(_figures, todo, display.reports, at_once):
            run = todo[number]
            record = {"fingerprint": run.fingerprint, **run.label, **figures}
            log.append(record)
            display.finish(number)
            records[run.fingerprint] = record
    return records


def _figures(run: PlannedRun, report: Report | None) -> dict[str, Any]:
    """Simulate, and return the figures as plain values, or what went wrong."""
    try:
        workload = made_for(run.source, run.cluster, run.load, run.seed, resample=run.resample)
        result = simulate(
            run.policy, workload, run.cluster, seed=run.seed, progress=report, **run.settings
        )
    except Exception as error:  # whatever it is, hours of other runs must not be lost for it
        logger.info("%s failed.", run.label, exc_info=error)
        return {"error": f"{type(error).__name__}: {error}"}
    figures = plain(result.summary())
    figures.pop("policy")
    return {**figures, "error": None}
