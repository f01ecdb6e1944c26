"""Simulations in worker processes: one task per policy, collected as they finish."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apportion.errors import ApportionError
from apportion.experiments.machine.progress import progress_display, wants_display
from apportion.experiments.machine.workers import as_they_finish
from apportion.sim import Run, Workload, simulate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.cluster import Cluster
    from apportion.experiments.comparisons.unfinished import Unfinished
    from apportion.experiments.machine.progress import Report
    from apportion.sim.deciders import Decider

__all__ = ["Task", "run_tasks"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """One simulation, ready to be sent to a process."""

    policy: Decider
    workload: Workload
    cluster: Cluster
    settings: Mapping[str, Any]
    fingerprint: str


def run_tasks(
    tasks: Sequence[Task],
    store: Unfinished,
    *,
    n_jobs: int | None,
    progress: bool | None,
) -> tuple[dict[str, Run], dict[str, ApportionError]]:
    """Run what is not in the store yet.

    Returns
    -------
    dict, dict
        Finished runs and errors by label of the policy, each in the order of the tasks.
    """
    results: dict[str, Run | ApportionError] = {**store.find(tasks)}
    for label in results:
        logger.info("%s was finished before.", label)
    todo = [task for task in tasks if task.policy.label not in results]
    what = "policy" if len(todo) == 1 else "policies"
    with progress_display(wants_display(progress), len(todo), what) as display:
        for number, result in as_they_finish(_simulate, todo, display.reports, n_jobs):
            display.finish(number)
            task = todo[number]
            results[task.policy.label] = result
            if not isinstance(result, ApportionError):
                store.keep(task, result)
    labels = [task.policy.label for task in tasks]
    runs = {label: run for label in labels if isinstance(run := results[label], Run)}
    errors = {label: e for label in labels if isinstance(e := results[label], ApportionError)}
    return runs, errors


def _simulate(task: Task, report: Report | None, _: None) -> Run | ApportionError:
    """Run one simulation; a failure of the policy is a result, so that the others go on."""
    try:
        return simulate(
            task.policy, task.workload, task.cluster, progress=report, **dict(task.settings)
        )
    except ApportionError as error:
        return error
    except Exception as error:  # of a policy of the user's; hours of others must not be lost for it
        failure = ApportionError(f"{type(error).__name__}: {error}")
        # An error of another process has no traceback, and may not even be one that can be sent.
        failure.add_note("".join(traceback.format_exception(error)))
        return failure
