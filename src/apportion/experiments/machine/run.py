"""Cells carried out by workers: what is finished is taken from a store, what is new goes there."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from apportion.experiments.machine.backends import Where, active_backend
from apportion.experiments.machine.cells import Failure, NotPlainError
from apportion.experiments.machine.own_parts import OwnParts
from apportion.experiments.machine.progress import progress_display, wants_display
from apportion.experiments.machine.workers import as_they_finish

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.experiments.machine.cells import Cell, Work
    from apportion.experiments.machine.progress import Report
    from apportion.experiments.machine.store import Store

__all__ = ["Outcome", "carry_out"]

logger = logging.getLogger(__name__)


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

    A cell that fails stops no others. Cells of one fingerprint are carried out once.

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
    results = _finished(cells, work, store)
    resumed = sum(cell.fingerprint in results for cell in cells)
    logger.info("%d of %d runs were finished before.", resumed, len(cells))
    failures: dict[str, Failure] = {}
    todo = list({c.fingerprint: c for c in cells if c.fingerprint not in results}.values())
    if not todo:
        return Outcome(results, failures, resumed)
    function = partial(_carried_out, work.carry_out, OwnParts.of_here())
    tasks = [cell.task for cell in todo]
    with (
        active_backend(where) as workers,
        progress_display(wants_display(progress), len(todo)) as display,
    ):
        ended = as_they_finish(function, tasks, display.reports, workers.at_once, work.shared)
        for number, result in workers.or_lost(ended):
            cell = todo[number]
            _keep(cell, result, work, store)
            display.finish(number)
            if isinstance(result, Failure):
                failures[cell.fingerprint] = result
            else:
                results[cell.fingerprint] = result
    return Outcome(results, failures, resumed)


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
