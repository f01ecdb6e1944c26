"""Progress calls of a long simulation, a few per second at most."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.sim.engine.true_state import TrueState

__all__ = ["Progress"]

_LEAST_SECONDS = 0.25


class Progress:
    """Calls ``report(fraction_done, jobs_done)`` if enough time has passed since the last call."""

    def __init__(self, report: Callable[[float, int], None] | None) -> None:
        self._report = report
        self._next = time.monotonic() + _LEAST_SECONDS

    def update(self, truth: TrueState) -> None:
        """Report now, unless the last report is too recent."""
        if self._report is not None and time.monotonic() >= self._next:
            self._report(truth.fraction_done, truth.done)
            self._next = time.monotonic() + _LEAST_SECONDS

    def finish(self, truth: TrueState) -> None:
        """Report the end."""
        if self._report is not None:
            self._report(1.0, truth.done)
