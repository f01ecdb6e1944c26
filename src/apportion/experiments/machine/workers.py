"""Tasks in worker processes, collected as they finish; Ctrl-C and deaths that leave no orphans.

How many workers a back end has, and what it means when they are gone.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import joblib

from apportion.errors import ApportionError
from apportion.experiments.machine.shipping import active_backend_name, shipped

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from apportion.experiments.machine.cells import Report
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


@dataclass(frozen=True)
class Workers:
    """What a back end gives to a sweep.

    Parameters
    ----------
    at_once
        Runs at once; None for one per processor.
    engine
        Its name in messages.
    losses
        Errors that it raises when a node, a worker or the connection to them is lost.
    gone
        Set by whoever has interrupted the main thread because the cluster is gone.
    """

    at_once: int | None
    engine: str = ""
    losses: tuple[type[BaseException], ...] = ()
    gone: threading.Event = field(default_factory=threading.Event)

    def or_lost(self, results: Iterable[Any]) -> Iterator[Any]:
        """Yield results, and turn the loss of workers into one line that says how to go on.

        Raises
        ------
        ApportionError
            If workers are lost.
        """
        try:
            yield from results
        except KeyboardInterrupt as error:
            if not self.gone.is_set():
                raise
            raise lost(f"The connection to the {self.engine} cluster is lost") from error
        except self.losses as error:
            raise lost(
                f"The {self.engine} cluster lost a worker, a node or the connection "
                f"({type(error).__name__}: {one_line(str(error))})"
            ) from error


def try_in_a_process(code: str, address: str, seconds: float) -> None:
    """Try to connect to a cluster, in a process of its own that can be ended.

    Engines try for minutes where something else listens, and may take Python with them.

    Parameters
    ----------
    code
        What connects; the address is its first argument.
    address
        Of the cluster.
    seconds
        How long to wait.

    Raises
    ------
    ApportionError
        If it fails, with its last word, or takes too long.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, address],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ApportionError(f"{address!r} has not answered in {seconds:.0f} s") from error
    if done.returncode != 0:
        raise ApportionError(f"{address!r} does not let us in: {one_line(done.stderr)}")
