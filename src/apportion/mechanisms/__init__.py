"""Ways in which decisions are carried out, as values: rounds, leases, configurations, ...

A value holds every setting of its mechanism, checked, with its default and a line that explains it.
Functions take the value, options of the command line and files of settings are made from its
fields; so a setting is spelt out once. Nothing here loads numpy.
"""

from __future__ import annotations

from typing import Any, Protocol

from apportion.checks import choice
from apportion.errors import InputError, written
from apportion.mechanisms.configurations import Configurations
from apportion.mechanisms.iterations import Iterations
from apportion.mechanisms.shares import Exact, Leases, Queue, Rounds
from apportion.registry import Registry

__all__ = [
    "MECHANISMS",
    "Configurations",
    "Exact",
    "Iterations",
    "Leases",
    "Mechanism",
    "Queue",
    "Rounds",
    "mechanism_name",
]


class Mechanism(Protocol):
    """A way in which decisions are carried out; one of one's own has this, and is a value too.

    What else it may have is in `MechanismSettings`, the base of those of the package.
    """

    def parts(self, decider: Any, about: Any) -> Any:
        """Make scheduler, runtime and columns of a run.

        Parameters
        ----------
        decider
            A policy or a scheduler.
        about
            The run, an `apportion.sim.about.AboutRun`.

        Returns
        -------
        apportion.sim.about.Parts
            Made anew for each run.
        """
        ...


MECHANISMS: Registry[Any] = Registry(
    "mechanism",
    "apportion.mechanisms",
    {each.name: each for each in (Rounds, Exact, Leases, Queue, Iterations, Configurations)},
    lambda value: callable(getattr(value, "parts", None)),
)
"""The mechanisms by name: classes, whose fields are settings, or values; one of one's own is added
by assigning it."""

_OLD_NAMES = {"ideal": "exact"}


def mechanism_name(name: Any) -> str:
    """Return the name of a mechanism, also for an old one.

    Raises
    ------
    InputError
        If there is none of that name, with the nearest one.
    """
    name = _OLD_NAMES.get(name, name) if isinstance(name, str) else name
    if isinstance(name, str) and name.endswith(")") and name not in MECHANISMS:
        raise InputError(
            f"mechanism is {written(name)}; in Python its settings stand beside it, "
            f"mechanism='rounds', round_seconds=600, or in a value, ap.Rounds(seconds=600)."
        )
    return name if name in MECHANISMS else choice("mechanism", name, MECHANISMS)
