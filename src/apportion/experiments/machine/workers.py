"""Tasks in worker processes, collected as they finish; Ctrl-C and deaths that leave no orphans."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import joblib

from apportion.errors import ApportionError
from apportion.experiments.machine.shipping import active_backend_name, shipped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from apportion.experiments.machine.progress import Report
    from apportion.experiments.machine.shipping import Shipped

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_SECONDS_BETWEEN_LOOKS = 0.5


def as_they_finish(
    function: Callable[[_Task, Report | None, Any], _Result],
    tasks: Sequence[_Task],
    reports: Sequence[Report | None],
    n_jobs: int | None,
    shared: Any = None,
    wanted: Callable[[int], bool] = lambda number: True,
) -> Iterator[tuple[int, _Result]]:
    """Yield the number and the result of each task as soon as it is finished.

    Tasks go to the back end of joblib that is active, to processes of this machine by default.

    Parameters
    ----------
    function
        Called with a task, its report and `shared`, in a worker.
    tasks, reports
        The tasks, and where each tells how far it is.
    n_jobs
        Tasks at once; None for one per processor. 1 runs in this process.
    shared
        What every task needs; it is sent once to each worker.
    wanted
        Asked with the number of a task when its turn has come, in any thread; if not, it is left
        out.

    Raises
    ------
    ApportionError
        If a process died.
    """
    if not tasks:
        return
    parent = os.getpid() if _starts_children() else None
    given, options = shipped(shared, len(tasks))
    with _with_options(options):
        parallel = _Reaching(
            n_jobs=min(n_jobs or joblib.effective_n_jobs(-1), len(tasks)),
            return_as="generator_unordered",
            batch_size=cast("Any", 1),  # whose type is inferred from its default, a text
        )
        calls = (
            joblib.delayed(_numbered)(number, function, task, report, parent, given)
            for number, (task, report) in enumerate(zip(tasks, reports, strict=True))
            if wanted(number)
        )
        with _without_ctrl_c():
            results = cast("Generator[tuple[int, _Result]]", parallel(calls))
        with closing(results):
            try:
                yield from results
            except BrokenExecutor as error:
                reason = (
                    f"A worker process died, perhaps for lack of memory ({one_line(str(error))})"
                )
                raise lost(reason) from error


class _Reaching(joblib.Parallel):  # type: ignore[misc]  # joblib has no types
    """Sends what is asked of a cluster there, one task or one CPU though it be.

    joblib carries out itself what has no more than one worker.
    """

    def _initialize_backend(self) -> int:
        at_once = int(super()._initialize_backend() or 1)
        here = type(self._backend).__module__ == "joblib._parallel_backends"
        return at_once if here else max(at_once, 2)


def lost(reason: str) -> ApportionError:
    """Make the error of workers that are gone, which says how to go on."""
    return ApportionError(
        f"{reason.rstrip('.')}. Finished runs are kept where there is an output folder; the same "
        f"call or command goes on from there."
    )


def one_line(text: str) -> str:
    """Return the line that says what happened: of a traceback its error, else the first."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Died|Lost)\b.*: ", line)]
    return (errors[-1:] or lines or ["no reason is given"])[0][:300].rstrip(".")


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


def _with_options(options: Mapping[str, Any]) -> AbstractContextManager[Any]:
    """Give the active back end options, and keep linear algebra in each child to one thread."""
    if _starts_children():
        children: AbstractContextManager[Any] = joblib.parallel_config(
            backend="loky", inner_max_num_threads=1, **options
        )
        return children
    if not options:
        return nullcontext()
    changed: AbstractContextManager[Any] = joblib.parallel_config(backend="dask", **options)
    return changed


def _starts_children() -> bool:
    """Whether the active back end has workers that are children of this process."""
    return active_backend_name() == "LokyBackend"


def _numbered(
    number: int,
    function: Callable[[_Task, Report | None, Any], _Result],
    task: _Task,
    report: Report | None,
    parent: int | None,
    given: Shipped,
) -> tuple[int, _Result]:
    """Carry out one task; `parent` is the process that has started this one, if any has."""
    if parent is not None and os.getpid() != parent:
        # For processes that were not started under `_without_ctrl_c`.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _end_with(parent)
    return number, function(task, report, given.get())


@cache
def _end_with(parent: int) -> None:
    """End this process, once and for all, when the parent that started it has been killed.

    Otherwise a worker would go on for nothing with all that is in its queue.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
