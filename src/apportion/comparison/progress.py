"""One progress bar over all policies, fed by small files that the runs write."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Report", "progress_display", "wants_display"]

_SECONDS_BETWEEN_LOOKS = 0.2


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


@contextlib.contextmanager
def progress_display(shown: bool, runs: int) -> Iterator[Callable[[int], Report | None]]:
    """Show the mean progress of `runs` simulations while the block runs.

    Yields
    ------
    callable
        Gives the `Report` of the run with that number, or None where nothing is shown.
    """
    if not shown or not runs:
        yield lambda number: None
        return
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="apportion-") as name:
        folder = Path(name)
        watcher = threading.Thread(target=_watch, args=(folder, runs, stop), daemon=True)
        watcher.start()
        try:
            yield lambda number: Report(folder / str(number))
        finally:
            stop.set()
            watcher.join()


def _watch(folder: Path, runs: int, stop: threading.Event) -> None:
    """Redraw the bar until told to stop."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeElapsedColumn

    bar = Progress(
        "{task.description}",
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(
            f"simulating {runs} {'policy' if runs == 1 else 'policies'}", total=runs
        )
        while not stop.wait(_SECONDS_BETWEEN_LOOKS):
            bar.update(task, completed=sum(map(_fraction, folder.iterdir())))


def _fraction(file: Path) -> float:
    """Read how far one run is; 0 where the file is just being written."""
    try:
        return float(file.read_text())
    except (OSError, ValueError):
        return 0.0
