"""Cells carried out by workers: what is finished is taken from a store, what is new goes there."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from apportion.experiments.machine.backends import Where, active_backend
from apportion.experiments.machine.cells import (
    Failure,
    NotPlainError,
    progress_display,
    wants_display,
)
from apportion.experiments.machine.shipping import OwnParts
from apportion.experiments.machine.workers import as_they_finish

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.experiments.machine.cells import Cell, Display, Report, Work
    from apportion.experiments.machine.store import Store
    from apportion.experiments.machine.workers import Workers

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 0.3


@dataclass(frozen=True)
class Outcome:
    """What has become of cells.

    Attributes
    ----------
    results, failures
        By fingerprint. Each cell is in one of the two.
    resumed
        Number of cells that were finished before.
    """

    results: Mapping[str, Any]
    failures: Mapping[str, Failure]
    resumed: int

    def by(self, name: str, cells: Sequence[Cell]) -> tuple[dict[Any, Any], dict[Any, Failure]]:
        """Return results and failures by something that tells the cells apart.

        Parameters
        ----------
        name
            A key of the labels.
        cells
            In the order to be.
        """
        marks = {cell.label[name]: cell.fingerprint for cell in cells}
        results = {key: self.results[mark] for key, mark in marks.items() if mark in self.results}
        failures = {key: self.failures[m] for key, m in marks.items() if m in self.failures}
        return results, failures


def carry_out(
    cells: Sequence[Cell], work: Work, store: Store, where: Where, *, progress: bool | None
) -> Outcome:
    """Carry out the cells that are not in a store yet, and add each to it when it is finished.

    A cell that fails stops no others. Cells of one fingerprint are carried out once, also where
    several processes, on any machines, use one store at the same time: each takes what no other
    one has begun, and waits for the rest.

    Parameters
    ----------
    cells, work
        What to do.
    store
        Opened for `Store.append`.
    where
        The workers.
    progress
        Whether to show one progress bar; None decides by who watches.

    Raises
    ------
    ApportionError
        If the back end cannot be had, or a worker was lost; the store has what is finished.
    """
    ended = _Ended(cells, work, store)
    resumed = sum(cell.fingerprint in ended.results for cell in cells)
    logger.info("%d of %d runs were finished before.", resumed, len(cells))
    if ended.todo():
        with (
            nullcontext() if store.leases is None else store.leases.at_work(),
            active_backend(where) as workers,
            progress_display(wants_display(progress), len(ended.todo())) as display,
        ):
            _carry_out_all(ended, workers, display)
    return Outcome(ended.results, ended.failures, resumed)


class _Ended:
    """What has become of cells by now, here and with other drivers that use the same store.

    Parameters
    ----------
    cells, work, store
        As for `carry_out`.
    """

    def __init__(self, cells: Sequence[Cell], work: Work, store: Store) -> None:
        self._cells = {cell.fingerprint: cell for cell in cells}
        self.work, self._store = work, store
        self._lock = threading.Lock()
        self.results = _finished(cells, work, store)
        self.failures: dict[str, Failure] = {}

    def todo(self) -> list[Cell]:
        """Return the cells that have not ended."""
        return [cell for mark, cell in self._cells.items() if not self.has(mark)]

    def has(self, mark: str) -> bool:
        """Whether a cell has ended."""
        return mark in self.results or mark in self.failures

    def look(self) -> None:
        """Take in what others have added to the store; what failed with them has failed."""
        with self._lock:
            for mark, record in self._store.later(self._cells).items():
                if self.has(mark):
                    continue
                if record.get("error") is not None:
                    self.failures[mark] = Failure.told(str(record["error"]))
                    continue
                with suppress(ValueError, TypeError, LookupError):  # no run: it is carried out here
                    self.results[mark] = self.work.unpack(self._cells[mark], record)

    def taking(self, marks: Sequence[str]) -> Callable[[int], bool]:
        """Return `take` for what asks by number."""
        return lambda number: self.take(marks[number])

    def take(self, mark: str) -> bool:
        """Take the lease of a cell, unless somebody else is at it or has just ended it."""
        leases = self._store.leases
        if leases is None:
            return True
        if not leases.take(mark):
            return False
        self.look()
        if self.has(mark):
            leases.release(mark)
        return not self.has(mark)

    def end(self, cell: Cell, result: Any) -> None:
        """Keep a result, and give the lease of its cell back."""
        _keep(cell, result, self.work, self._store)
        if isinstance(result, Failure):
            self.failures[cell.fingerprint] = result
        else:
            self.results[cell.fingerprint] = result
        if self._store.leases is not None:
            self._store.leases.release(cell.fingerprint)

    def wait(self) -> None:
        """Wait until others have ended all that is left, or left something of it."""
        while marks := [cell.fingerprint for cell in self.todo()]:
            if self._store.leases is None or self._store.leases.free(marks):
                return
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            self.look()


def _carry_out_all(ended: _Ended, workers: Workers, display: Display) -> None:
    """Carry out whatever nobody else is at, until nothing is left that has not ended."""
    function = partial(_carried_out, ended.work.carry_out, OwnParts.of_here())
    numbers = {cell.fingerprint: number for number, cell in enumerate(ended.todo())}
    while todo := ended.todo():
        marks = [cell.fingerprint for cell in todo]
        here = as_they_finish(
            function,
            [cell.task for cell in todo],
            [display.reports[numbers[mark]] for mark in marks],
            workers.at_once,
            ended.work.shared,
            ended.taking(marks),
        )
        for number, result in workers.or_lost(here):
            ended.end(todo[number], result)
            display.finish(numbers[marks[number]])
        ended.look()
        ended.wait()
        for mark in marks:
            if ended.has(mark):
                display.finish(numbers[mark])


def _carried_out(
    function: Callable[[Any, Report | None, Any], Any],
    own_parts: OwnParts,
    task: Any,
    report: Report | None,
    shared: Any,
) -> Any:
    """Carry out one task in a worker; whatever goes wrong is a result, so that others go on."""
    try:
        own_parts.take_in()
        return function(task, report, shared)
    except Exception as error:  # e.g. of a policy of the user's; hours of others must not be lost
        logger.info("%s failed.", task, exc_info=error)
        return Failure.of(error)


def _finished(cells: Sequence[Cell], work: Work, store: Store) -> dict[str, Any]:
    """Return the results that the store has, by fingerprint.

    Raises
    ------
    InputError
        If the file of the store cannot be read.
    """
    wanted = {cell.fingerprint: cell for cell in cells}
    results = {}
    for fingerprint, record in store.finished(wanted).items():
        cell = wanted[fingerprint]
        try:
            results[fingerprint] = work.unpack(cell, record)
        except (ValueError, TypeError, LookupError) as error:
            logger.warning("%s runs again: what is stored is no run (%s).", _named(cell), error)
    return results


def _keep(cell: Cell, result: Any, work: Work, store: Store) -> None:
    """Add a result, or why there is none, to the store."""
    head = {"fingerprint": cell.fingerprint, **cell.label}
    if isinstance(result, Failure):
        store.append({**head, "error": str(result)})
        return
    try:
        record = {**head, **work.pack(cell, result), "error": None}
    except NotPlainError as error:
        logger.warning("%s cannot be kept to go on from (%s).", _named(cell), error)
        return
    store.append(record)


def _named(cell: Cell) -> str:
    return ", ".join(f"{name} {value}" for name, value in cell.label.items())
