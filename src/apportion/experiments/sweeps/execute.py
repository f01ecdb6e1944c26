"""Runs in workers: workloads made there, figures sent back, failures told and not raised."""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from apportion.experiments.machine.backends import active_backend
from apportion.experiments.machine.progress import progress_display, wants_display
from apportion.experiments.machine.workers import as_they_finish
from apportion.experiments.provenance import plain
from apportion.experiments.sweeps.sources import made_for
from apportion.sim import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.cluster import Cluster
    from apportion.experiments.machine.progress import Report
    from apportion.experiments.machine.store import RunLog
    from apportion.experiments.sweeps.plan import PlannedRun
    from apportion.experiments.sweeps.sources import Source
    from apportion.sim.deciders import Decider

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
        If the back end cannot be had, or a worker was lost.
    """
    records: dict[str, dict[str, Any]] = {}
    if not todo:
        return records
    what = "run" if len(todo) == 1 else "runs"
    sources = {run.source.name: run.source for run in todo}
    tasks = [_Task.of(run) for run in todo]
    with (
        active_backend(backend, address, n_jobs) as workers,
        progress_display(wants_display(progress), len(todo), what) as display,
    ):
        results = as_they_finish(_figures, tasks, display.reports, workers.at_once, sources)
        for number, figures in workers.or_lost(results):
            run = todo[number]
            record = {"fingerprint": run.fingerprint, **run.label, **figures}
            log.append(record)
            display.finish(number)
            records[run.fingerprint] = record
    return records


@dataclass(frozen=True)
class _Task:
    """A run with the name of its source in place of it, as one workload serves many runs."""

    policy: Decider
    source: str
    cluster: Cluster
    load: float
    seed: int
    resample: bool
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, run: PlannedRun) -> _Task:
        """Leave out what is sent once to each worker."""
        named: dict[str, Any] = {each.name: getattr(run, each.name) for each in fields(cls)}
        named["source"] = run.source.name
        return cls(**named)


def _figures(run: _Task, report: Report | None, sources: Mapping[str, Source]) -> dict[str, Any]:
    """Simulate, and return the figures as plain values, or what went wrong."""
    source = sources[run.source]
    try:
        workload = made_for(source, run.cluster, run.load, run.seed, resample=run.resample)
        result = simulate(
            run.policy, workload, run.cluster, seed=run.seed, progress=report, **run.settings
        )
    except Exception as error:  # whatever it is, hours of other runs must not be lost for it
        logger.info("%s failed.", run, exc_info=error)
        return {"error": f"{type(error).__name__}: {error}"}
    figures = plain(result.summary())
    figures.pop("policy")
    return {**figures, "error": None}
