"""Cells of an experiment: how one is carried out, what stops one, and one bar over all."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import traceback
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.errors import ApportionError, InfeasibleError, InputError, SolveError
from apportion.own_code import said_with_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


_KINDS = {kind.__name__: kind for kind in (InputError, SolveError, InfeasibleError)}


class NotPlainError(ValueError):
    """A result holds something that plain values cannot stand for, e.g. dates as names of jobs."""


@dataclass(frozen=True)
class Cell:
    """One piece of work, with a result of its own.

    Attributes
    ----------
    label
        What tells it from the others, as plain values: the first columns of its row.
    fingerprint
        Equal only for cells with equal results; by it a finished one is found again.
    task
        What goes to a worker, small. What all cells need is in `Work.shared`.
    """

    label: Mapping[str, Any]
    fingerprint: str
    task: Any


@dataclass(frozen=True)
class Work:
    """How cells are carried out, and how their results are kept.

    Attributes
    ----------
    carry_out
        Called in a worker with the task of a cell, what it calls to tell how far it is (or None),
        and `shared`; returns the result.
    shared
        What all cells need, such as workloads; sent once to each worker.
    pack
        Turns a cell and its result into values that JSON has, or raises `NotPlainError`.
    unpack
        Turns a cell and such values into the result again.
    """

    carry_out: Callable[[Any, Report | None, Any], Any]
    shared: Any
    pack: Callable[[Cell, Any], Mapping[str, Any]]
    unpack: Callable[[Cell, Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Failure:
    """Why a cell has no result, as texts: an error of another process cannot always be sent.

    Attributes
    ----------
    kind, message, traceback
        The class of the error, what it says, and where it came from.
    """

    kind: str
    message: str
    traceback: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Take down an error, and where in code of the user's it comes from, if it does."""
        said, traced = said_with_place(error), "".join(traceback.format_exception(error))
        return cls(type(error).__name__, said, traced)

    @classmethod
    def told(cls, text: str) -> Failure:
        """Make one of what stands in the column ``error`` of a table."""
        kind, _, message = text.partition(": ")
        return cls(kind, message, "In another process, which had it to carry out.")

    def __str__(self) -> str:
        """Return what stands in the column ``error`` of a table."""
        return f"{self.kind}: {self.message}"

    def error(self, before: str = "") -> ApportionError:
        """Make an error of the kind of this one, where that is one of apportion's.

        Parameters
        ----------
        before
            Words before the message.
        """
        own = self.kind in _KINDS or self.kind == ApportionError.__name__
        kind = _KINDS.get(self.kind, ApportionError)
        return kind(f"{before}{self.message if own else self}")

    def cause(self) -> ApportionError:
        """Make an error that shows where this came from, for others to be raised from."""
        made = ApportionError(str(self))
        made.add_note(self.traceback)
        return made


_SECONDS_BETWEEN_LOOKS = 0.2
# Runs differ in length: their speed is that of the last ten minutes.
_SECONDS_OF_SPEED = 600.0


class Report:
    """What a run in any process calls to tell how far it is.

    A file per run needs no server, no shared memory and no clean-up after a worker that died.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, fraction_done: float, jobs_done: int) -> None:
        """Note that a share of the run is done."""
        # A full or vanished temporary folder must not stop a simulation.
        with contextlib.suppress(OSError):
            self._file.write_text(f"{fraction_done:.4f}")


def wants_display(progress: bool | None) -> bool:
    """Decide whether to show a bar: as asked, or if a person watches and rich is installed."""
    if progress is None:
        return sys.stderr.isatty() and find_spec("rich") is not None
    return progress and find_spec("rich") is not None


class Display:
    """How far a number of runs is.

    Parameters
    ----------
    runs
        Number of runs.
    folder
        Where they tell; None where nothing is shown.
    """

    def __init__(self, runs: int, folder: Path | None) -> None:
        self._folder = folder
        self._finished: set[int] = set()
        self._furthest: dict[int, float] = {}
        files = [None if folder is None else folder / str(number) for number in range(runs)]
        self.reports = [None if file is None else Report(file) for file in files]

    def finish(self, number: int) -> None:
        """Count a run as finished, wherever it ran and whether it failed."""
        self._finished.add(number)
        if self._folder is not None:
            with contextlib.suppress(OSError):
                (self._folder / str(number)).unlink(missing_ok=True)

    def done(self) -> float:
        """Return the number of runs that are done, the fractions of running ones included.

        It never falls: a file that is just being written is as far as when it was last read.
        """
        for file in [] if self._folder is None else self._folder.iterdir():
            number = int(file.name)
            self._furthest[number] = max(self._furthest.get(number, 0.0), _fraction(file))
        running = self._furthest.keys() - self._finished
        return len(self._finished) + sum(self._furthest[number] for number in sorted(running))


@contextlib.contextmanager
def progress_display(shown: bool, runs: int) -> Iterator[Display]:
    """Show the mean progress of `runs` simulations while the block runs.

    Parameters
    ----------
    shown
        Whether to show anything.
    runs
        How many.
    """
    if not shown or not runs:
        yield Display(runs, None)
        return
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="apportion-") as name:
        display = Display(runs, Path(name))
        text = f"{runs} run" + "s" * (runs > 1)
        watcher = threading.Thread(target=_watch, args=(display, text, runs, stop), daemon=True)
        watcher.start()
        try:
            yield display
        finally:
            stop.set()
            watcher.join()


def _watch(display: Display, text: str, runs: int, stop: threading.Event) -> None:
    """Redraw the bar until told to stop."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        "{task.description}",
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        "left:",
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=_SECONDS_OF_SPEED,
    )
    with bar:
        task = bar.add_task(text, total=runs)
        while not stop.wait(_SECONDS_BETWEEN_LOOKS):
            bar.update(task, completed=display.done())


def _fraction(file: Path) -> float:
    """Read how far one run is; 0 where the file is just being written."""
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return 0.0
