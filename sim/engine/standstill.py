"""When nothing can happen any more in a simulation: nobody gets ahead, and nobody will."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from apportion.errors import SolveError, written
from apportion.resumable import Resumable

if TYPE_CHECKING:
    from apportion.mechanism.scheduler import Decision, GangProgress
    from apportion.sim.engine.loop import Runtime
    from apportion.sim.engine.true_state import TrueState

_FOR_EVER = 1_000
"""Decisions in a row, all at one instant or all in vain, after which nobody ever gets ahead."""

_NAMED = 5


class Standstill(Resumable):
    """Counts decisions by which nobody gets ahead, although nothing else is awaited.

    Not counted are those before the last arrival, those in which somebody makes a step, and those
    in which a gang that did not start anew will get ahead by itself, as after a pause, or requests
    are to come (`Runtime.awaits`). So what is counted is waiting without devices, gangs that stand
    still with them, and starts that end before they have come to work.

    Counted by itself is what is decided at one instant while no job is done, as by a scheduler
    whose decisions stand for no time.

    Parameters
    ----------
    truth
        The jobs.
    name
        What messages call who decides.
    """

    kept = ("_quiet", "_at", "_decided")

    def __init__(self, truth: TrueState, name: str) -> None:
        self._truth, self._name, self._quiet = truth, name, 0
        self._at, self._decided = (-1.0, 0), 0

    def note(
        self,
        now_s: float,
        end_s: float,
        decision: Decision | None,
        ran: GangProgress,
        runtime: Runtime,
    ) -> None:
        """Take down what has come of a decision, from `now_s` to `end_s`.

        Raises
        ------
        SolveError
            If nobody has got ahead by 1,000 decisions in a row, or as many were made at one
            instant; it names jobs that wait.
        """
        if end_s == now_s:
            self._note_instant(now_s)
        if ran.rate.dot(ran.worked_s):
            self._quiet = 0
            return
        starts = ran.gangs.job < 0 if decision is None else decision.starts
        if self._truth.more_come or runtime.awaits(starts):
            return
        self._quiet += 1
        if self._quiet >= _FOR_EVER:
            hint = (
                " Some have devices: do starts take longer than they last?" if starts.size else ""
            )
            raise SolveError(
                f"None of the {self._truth.active.size} active jobs ({self.waiting()}) gets ahead "
                f"under {self._name}: no step was made in {_FOR_EVER:,} decisions up to "
                f"{now_s:.0f} s, and no job arrives later.{hint}"
            )

    def end(self, now_s: float, active: int) -> NoReturn:
        """Refuse a run in which nothing would ever happen again."""
        raise SolveError(
            f"{self._name} gives none of the {active} active jobs any time at {now_s:.0f} s, and "
            f"no job arrives later; {self.waiting()} would wait for ever."
        )

    def _note_instant(self, now_s: float) -> None:
        """Count decisions at one instant that no job is done after."""
        at = (now_s, self._truth.left)
        self._decided = self._decided + 1 if at == self._at else 1
        self._at = at
        if self._decided >= _FOR_EVER:
            raise SolveError(
                f"{self._name} has decided {_FOR_EVER:,} times at {now_s:.0f} s, each time for 0 s "
                f"(valid_for_s); {self.waiting()} would wait for ever."
            )

    def waiting(self) -> str:
        """Return the names of jobs that are not done, the first few of them."""
        truth = self._truth
        names = [written(truth.ids[job]) for job in truth.active[:_NAMED].tolist()]
        return ", ".join(names) + (", ..." if truth.active.size > _NAMED else "")
