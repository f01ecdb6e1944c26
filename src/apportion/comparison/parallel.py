"""Simulations in worker processes: one task per policy, collected as they finish."""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import joblib
from joblib.parallel import get_active_backend

from apportion.comparison.progress import Report, progress_display, wants_display
from apportion.errors import ApportionError
from apportion.sim import Run, Workload, simulate

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

    from apportion.cluster import Cluster
    from apportion.comparison.unfinished import Unfinished
    from apportion.policies import Policy

__all__ = ["Task", "run_tasks"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """One simulation, ready to be sent to a process."""

    policy: Policy
    workload: Workload
    cluster: Cluster
    settings: Mapping[str, Any]
    fingerprint: str


def run_tasks(
    tasks: Sequence[Task],
    store: Unfinished,
    *,
    resume: bool,
    n_jobs: int | None,
    progress: bool | None,
) -> tuple[dict[str, Run], dict[str, ApportionError]]:
    """Run what is not in the store yet.

    Returns
    -------
    dict, dict
        Finished runs and errors by label of the policy, each in the order of the tasks.
    """
    results: dict[str, Run | ApportionError] = {}
    todo = []
    for task in tasks:
        found = store.find(task.policy.label, task.fingerprint) if resume else None
        if found is None:
            todo.append(task)
        else:
            logger.info("%s was finished before.", task.policy.label)
            results[task.policy.label] = found
    with progress_display(wants_display(progress), len(todo)) as report_of:
        for number, result in _unordered(todo, [report_of(n) for n in range(len(todo))], n_jobs):
            task = todo[number]
            results[task.policy.label] = result
            if not isinstance(result, ApportionError):
                store.keep(task.policy.label, task.fingerprint, result)
    labels = [task.policy.label for task in tasks]
    runs = {label: run for label in labels if isinstance(run := results[label], Run)}
    errors = {label: e for label in labels if isinstance(e := results[label], ApportionError)}
    return runs, errors


def _unordered(
    tasks: Sequence[Task], reports: Sequence[Report | None], n_jobs: int | None
) -> Iterator[tuple[int, Run | ApportionError]]:
    """Yield the number and the result of each task as it finishes."""
    if not tasks:
        return
    here = os.getpid()
    with _one_thread_each():
        parallel = joblib.Parallel(
            n_jobs=min(n_jobs or joblib.effective_n_jobs(-1), len(tasks)),
            return_as="generator_unordered",
        )
        calls = (
            joblib.delayed(_simulate)(number, task, report, here)
            for number, (task, report) in enumerate(zip(tasks, reports, strict=True))
        )
        with _without_ctrl_c():
            results = cast("Generator[tuple[int, Run | ApportionError]]", parallel(calls))
        with closing(results):
            yield from results


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Start processes that never see Ctrl-C, which a terminal sends to all of a group.

    The parent alone answers it, and ends its workers. Python lets only the main thread say so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def _one_thread_each() -> AbstractContextManager[Any]:
    """Keep linear algebra in each worker to one thread; leave a back end of the user alone."""
    backend, _ = get_active_backend()
    if type(backend).__name__ == "LokyBackend":
        limited: AbstractContextManager[Any] = joblib.parallel_config(
            backend="loky", inner_max_num_threads=1
        )
        return limited
    return nullcontext()


def _simulate(
    number: int, task: Task, report: Report | None, parent: int
) -> tuple[int, Run | ApportionError]:
    """Run one simulation; a failure of the policy is a result, so that the others go on."""
    if os.getpid() != parent:
        # For processes that were not started under `_without_ctrl_c`.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run = simulate(
            task.policy, task.workload, task.cluster, progress=report, **dict(task.settings)
        )
    except ApportionError as error:
        return number, error
    return number, run
