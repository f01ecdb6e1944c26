"""How fast gangs are where they sit: the throughput over 1 + exposed communication.

Speeds of a network of one's own are checked at every turn.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError, written
from apportion.own_code import answered_by
from apportion.sim.engine.speeds import ByPlace, Speeds
from apportion.sim.network.shapes import shape_of_placement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from apportion.mechanism.decider import About
    from apportion.mechanism.devices import Held
    from apportion.mechanism.machines import Layout
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.network.model import MemoizedNetwork, NetworkModel
    from apportion.types import Bools, Floats


class NetworkSpeeds(Speeds):
    """Steps/s by the shapes of gangs, see `apportion.sim.engine.speeds.Speeds`.

    ``speed / (1 + overhead)``, the overhead being that of the job's type and the shape of its
    gang. No gang slows another.

    Parameters
    ----------
    free
        Speeds without exposed communication.
    job_types
        What each job trains, length (jobs,).
    network
        Knows the overheads.
    layout
        In which machines and racks devices are.
    """

    apart = True

    def __init__(
        self, free: Speeds, job_types: Sequence[str], network: NetworkModel, layout: Layout
    ) -> None:
        def slowdown(job: int, held: Held) -> float:
            shape = shape_of_placement(layout.placement(held))
            return 1 + network.overhead(job_types[job], shape)

        self.lasting = free.lasting  # type: ignore[misc]
        self._free, self._slowdown = free, ByPlace(np.ones(len(job_types)), slowdown)

    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        """Return the steps/s of every line, shape (lines,)."""
        rates: Floats = self._free.rates(gangs) / self._slowdown(gangs)
        return rates


_AT_ONCE = 100
"""So often speeds may change at one time."""


def speeds_on(network: MemoizedNetwork, alone: Speeds, about: About) -> Speeds:
    """Return how fast gangs are on a network.

    A network in which gangs slow each other down makes them itself, by ``speeds(alone, about)``, or
    has ``rates`` of its own; of any other one they follow from the shapes of gangs.

    Parameters
    ----------
    network
        Where they run.
    alone
        Speeds without any communication that the network adds.
    about
        Jobs and devices.

    Raises
    ------
    InputError
        If what the network makes has no ``rates``.
    """
    model: Any = network.model
    if hasattr(model, "speeds"):
        made = model.speeds(alone, about)
    elif hasattr(model, "rates"):
        made = model
    else:
        return NetworkSpeeds(alone, about.job_types, network, about.layout)
    if type(made).__module__.startswith("apportion.sim."):
        return made  # type: ignore[no-any-return]
    return OwnSpeeds(made, network.name, about.ids)


class OwnSpeeds(Speeds):
    """Speeds of one's own: what they lack is as `Speeds` has it, and what they say is checked.

    Parameters
    ----------
    own
        Has ``rates(gangs)`` or ``rates(gangs, there)``, and what else it needs of `Speeds`. Without
        ``there`` it is asked about those gangs only that are there.
    name
        Of the network, for messages.
    ids
        What users call the jobs.

    Raises
    ------
    InputError
        If it has no such ``rates``; and in a run if these are not one number >= 0 for each line,
        or no gang makes any progress.
    """

    def __init__(self, own: Any, name: str, ids: Sequence[Any]) -> None:
        rates = getattr(own, "rates", None)
        if not callable(rates):
            raise InputError(
                f"The network {name!r} makes {written(own)}, which has no "
                f"rates(gangs, there=None); see apportion.sim.engine.Speeds."
            )
        self._own, self._name, self._ids = own, name, ids
        self._at_once = np.nan, 0
        asked = signature(rates).parameters.values()
        positional = (each for each in asked if each.kind is not each.KEYWORD_ONLY)
        self._knows_there = sum(1 for _ in positional) > 1
        self.apart = bool(getattr(own, "apart", False))  # type: ignore[misc]

    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        """Return what it says of every line, shape (lines,)."""
        if there is None:
            return self._checked(gangs, self._own.rates(gangs))
        left, found = gangs.among(there), np.zeros(gangs.job.size)
        rates = self._own.rates(gangs, there)[there] if self._knows_there else self._own.rates(left)
        found[there] = self._checked(left, rates)
        return found

    def _checked(self, gangs: Gangs, rates: Any) -> Floats:
        lines = gangs.job.size
        try:
            found = np.array(rates, dtype=float)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"The rates of the network {self._name!r} are no numbers.{self._whose('rates')}"
            ) from error
        if found.shape != (lines,):
            raise InputError(
                f"The rates of the network {self._name!r} have the shape {found.shape}; there are "
                f"{lines} lines, so it must be ({lines},).{self._whose('rates')}"
            )
        wrong = ~(np.isfinite(found) & (found >= 0))
        if wrong.any():
            line = int(wrong.argmax())
            job = self._ids[int(gangs.job[line])]
            raise InputError(
                f"The rate of job {written(job)} on the network {self._name!r} is {found[line]}; "
                f"it must be a number of steps/s >= 0.{self._whose('rates')}"
            )
        if lines and not found.any():
            whose = self._whose("rates")
            raise InputError(
                f"The network {self._name!r} lets none of {lines} gangs progress.{whose}"
            )
        return found

    def _whose(self, method: str) -> str:
        return answered_by(self._own, method)

    def changes_s(self, now_s: float) -> float:
        """Return when its speeds change by themselves; infinite for never."""
        own = getattr(self._own, "changes_s", None)
        changes_s = np.inf if own is None else float(own(now_s))
        at_once = self._at_once[1] + 1 if self._at_once[0] == now_s else 0
        self._at_once = now_s, at_once if changes_s <= now_s else 0
        if np.isnan(changes_s) or at_once > _AT_ONCE:
            raise InputError(
                f"changes_s({now_s!r}) of the network {self._name!r} is {changes_s}, however often "
                f"its rates are asked for; it must be a later time, or infinite."
                f"{self._whose('changes_s')}"
            )
        return changes_s

    def worked(self, gangs: Gangs, worked_s: Floats) -> None:
        """Tell it how long each line worked."""
        if hasattr(self._own, "worked"):
            self._own.worked(gangs, worked_s)

    def tables(self, jobs: pd.Index) -> dict[str, pd.DataFrame]:
        """Return what it tells of the run."""
        tables = getattr(self._own, "tables", None)
        return {} if tables is None else dict(tables(jobs))
