"""What an experiment consists of: cells, how one is carried out, and what stops one."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apportion.errors import ApportionError, InfeasibleError, InputError, SolveError
from apportion.own_code import said_with_place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apportion.experiments.machine.progress import Report

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
