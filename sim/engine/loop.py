"""The one loop of every simulation: say what happened, get a decision, apply it, let it run."""

from __future__ import annotations

from math import isinf
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np

from apportion.errors import SolveError, written
from apportion.mechanism.scheduler import NOBODY, Event

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from apportion.mechanism.scheduler import Decision, GangProgress, Scheduler
    from apportion.sim.engine.true_state import TrueState
    from apportion.sim.record import Record


_FOR_EVER = 1_000
"""Decisions in a row, all at one instant or all in vain, after which nobody ever gets ahead."""

_NAMED = 5


class Standstill:
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
            f"{self._name} gives none of the {active} active jobs any time, or none for which the "
            f"placement has devices, at {now_s:.0f} s, and no job arrives later; {self.waiting()} "
            f"would wait for ever."
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


class Runtime(Protocol):
    """What happens on the devices: lets gangs work, and books it in the truth."""

    def apply(self, now_s: float, decision: Decision) -> None:
        """Let the gangs of a decision have their devices from now on."""
        ...

    def tables(self, jobs: pd.Index) -> dict[str, pd.DataFrame]:
        """Return what there is to tell of the run, by name; `jobs` are named in their order."""
        ...

    def run(
        self, now_s: float, length_s: float, until_s: float, *, to_completion: bool
    ) -> tuple[float, GangProgress]:
        """Let them work for a while; return when it is over and what has come of it.

        Parameters
        ----------
        now_s
            The time, seconds.
        length_s
            For how long, seconds.
        until_s
            Stretches of this length may be repeated, as long as they begin before this time and
            nothing else happens in them.
        to_completion
            Whether to stop as soon as a job is done. If not, jobs are done when they are done, and
            the stretch is over early once every gang is done.

        Returns
        -------
        end_s : float
            Infinite if nothing would ever happen again.
        ran : GangProgress
            What has come of it.
        """
        ...

    def awaits(self, starts: NDArray[np.bool_]) -> bool:
        """Tell whether something is under way that needs no other decision to come to its end.

        That is a pause or a step of a gang that has not just started, or what comes from outside.

        Parameters
        ----------
        starts
            Which gangs have just started, by line of the decision that stands.
        """
        ...


def run(
    truth: TrueState,
    scheduler: Scheduler,
    runtime: Runtime,
    record: Record,
    begins: tuple[float, NDArray[np.intp]] | None = None,
) -> None:
    """Run the jobs until every one is complete.

    Parameters
    ----------
    truth
        The jobs as they are: when they arrive, what is left of them.
    scheduler
        Decides; knows `TrueState.told` and the devices only.
    runtime
        Lets gangs work at the speeds that they really have.
    record
        Is told of all of it.
    begins
        In the middle, where a scheduler has taken over: the time, and jobs that are there of which
        it is still to be told. By default with the first arrival.

    Raises
    ------
    SolveError
        If jobs wait for ever: no decision lets any of them work, and nothing else will happen. It
        names some of them.
    """
    now_s, untold, ran = truth.next_arrival_s, NOBODY, None
    if begins is not None:
        now_s, untold = begins
    standstill = Standstill(truth, scheduler.name)
    while truth.left:
        arrived = truth.admit(now_s)
        if untold.size:
            arrived, untold = np.concatenate([untold, arrived]), NOBODY
        if truth.idle:
            now_s = truth.next_arrival_s
            continue
        decision = scheduler.decide(Event(now_s, arrived, ran))
        if decision is not None:
            runtime.apply(now_s, decision)
            record.changed(now_s, decision)
        length_s, arrival_s = scheduler.valid_for_s(now_s), truth.next_arrival_s
        until_s = min(scheduler.unchanged_until_s(now_s), arrival_s)
        if scheduler.event_driven:
            length_s = min(length_s, arrival_s - now_s)
        active = truth.active.size
        end_s, ran = runtime.run(now_s, length_s, until_s, to_completion=scheduler.event_driven)
        if isinf(end_s):
            standstill.end(now_s, active)
        standstill.note(now_s, end_s, decision, ran, runtime)
        if truth.told.entity_use is not None:
            truth.told.entity_use.add(ran, now_s, end_s)
        record.ran(now_s, end_s, ran, active)
        now_s = end_s
