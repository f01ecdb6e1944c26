"""Mechanisms of one's own: what they lack, what stands beside them, what they must make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.own import Watched, is_own
from apportion.mechanisms.settings import settings_of
from apportion.own_code import answered_by
from apportion.sim.about import Parts
from apportion.sim.traces.as_recorded import recorded_parts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.mechanisms import Mechanism
    from apportion.sim.about import AboutRun

BESIDE = ("network", "topology")
"""Settings that say what a run is about, and not how a mechanism decides: those of one's own need
not have them to run on any network."""


@dataclass(frozen=True)
class OwnMechanism:
    """A mechanism of one's own, beside which stand those of the package.

    Parameters
    ----------
    mechanism
        Makes the parts of a run. What it has of the attributes of
        `apportion.mechanisms.settings.MechanismSettings` is heeded.
    registered
        Under which name it is known; ``None`` for a value.
    beside
        Settings of a run that stand beside it, as it has none of these names (`BESIDE`).
    """

    mechanism: Mechanism
    registered: str | None = None
    beside: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What tables call it."""
        own = self.mechanism
        return self.registered or str(getattr(own, "name", None) or type(own).__name__)

    def __getattr__(self, name: str) -> Any:
        """Return what it has by itself, and what it lacks as those of the package have it."""
        if name in ("mechanism", "beside") or name.startswith("__"):
            raise AttributeError(name)
        if name in self.beside:
            return self.beside[name]
        return getattr(self.mechanism, name, _OF_ONES_OWN.get(name))

    def by_name(self) -> dict[str, Any]:
        """Return its name, its settings if it has some by name, and what stands beside it."""
        named: dict[str, Any] = getattr(self.mechanism, "by_name", dict)()
        return {**named, "mechanism": self.name, **self.beside}


_OF_ONES_OWN = {"elastic": False, "tells_speeds": True, "tells_pairs": True, "tick_s": 0.0}


def left_to_run(mechanism: Any, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a mechanism of one's own, or its class, leaves to the run."""
    kind = mechanism if isinstance(mechanism, type) else type(mechanism)
    if kind.__module__.startswith("apportion."):
        return {}
    own = {each.name for each in settings_of(kind)}
    return {
        name: told[name]
        for name in BESIDE
        if name in told and name not in own and not hasattr(mechanism, name)
    }


def watched(mechanism: Any, decider: Any, about: AboutRun) -> Parts:
    """Return the parts that a mechanism makes; a scheduler of one's own is watched.

    What it lacks is as in `apportion.mechanism.own.Watched`, and decisions that cannot be are
    refused in words.

    Raises
    ------
    InputError
        If these are no parts, the runtime lacks what the loop asks of it, or a network was given
        though gangs have no devices.
    """
    if getattr(decider, "replays", False):
        return recorded_parts(decider.label, about)
    name, parts = mechanism.name, mechanism.parts(decider, about)
    whose = answered_by(getattr(mechanism, "mechanism", mechanism), "parts")
    if not isinstance(parts, Parts):
        raise InputError(
            f"The mechanism {name!r} makes {written(parts)}; parts(decider, about) must return "
            f"apportion.sim.about.Parts(scheduler, runtime).{whose}"
        )
    if not isinstance(parts.columns, Sequence):
        raise InputError(
            f"The mechanism {name!r} gives Parts the columns {written(parts.columns)}; they must "
            f"be a list, empty for none.{whose}"
        )
    beside = getattr(mechanism, "beside", {})
    if beside and about.told is None:
        given = ", ".join(f"{each}={written(value)}" for each, value in beside.items())
        raise InputError(
            f"{given} does nothing to the mechanism {name!r}, which asks for no devices "
            f"(about.place). Leave it out.{whose}"
        )
    scheduler = parts.scheduler
    if not is_own(scheduler):
        raise InputError(
            f"The mechanism {name!r} gives Parts the scheduler {written(scheduler)}; it must be an "
            f"object with decide(event).{whose}"
        )
    needed: list[tuple[Any, tuple[str, ...]]] = [(parts.runtime, _RUNTIME)]
    if type(scheduler).__module__.startswith("apportion."):
        watches = scheduler
    elif about.told is not None:
        watches = Watched(scheduler, name, about.told, np.zeros(about.jobs.jobs))
    else:
        needed.append((scheduler, _SCHEDULER))
        watches = scheduler
    for part, names in needed:
        for lacks in [each for each in names if not hasattr(part, each)]:
            raise InputError(
                f"{type(part).__name__}, of the mechanism {name!r}, has no {lacks}; see "
                f"apportion.mechanism.scheduler and apportion.sim.engine.loop.{whose}"
            )
    return parts._replace(scheduler=watches)


_RUNTIME = ("apply", "run", "awaits", "tables")
_SCHEDULER = ("name", "event_driven", "decide", "valid_for_s", "unchanged_until_s")
