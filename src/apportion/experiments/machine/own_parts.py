"""Parts of a user's own, registered by assignment, in worker processes as well.

A worker imports what is installed, and so has what comes with the package and what entry points
offer. What a script has put into a registry it has not: that is sent to it, beside the tasks.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from joblib.externals.loky.backend.reduction import dumps

from apportion.mechanism.gates.registry import GATES
from apportion.mechanism.offers.registry import SCHEDULERS
from apportion.mechanism.placements.registry import PLACEMENTS
from apportion.mechanism.queue import QUEUES
from apportion.mechanism.stay import GATED
from apportion.sim.contention.models import TRAINED
from apportion.sim.network.registry import NETWORKS
from apportion.sim.traces.read import TRACE_FORMATS

if TYPE_CHECKING:
    from apportion.registry import Registry

__all__ = ["OwnParts"]

_REGISTRIES: dict[str, Registry[Any]] = {
    registry.group: registry
    for registry in (GATED, GATES, PLACEMENTS, QUEUES, SCHEDULERS, NETWORKS, TRACE_FORMATS, TRAINED)
}

_HERE = uuid4().hex
"""Tells this process from others, on this machine and elsewhere."""


@dataclass(frozen=True)
class OwnParts:
    """What a process has put into registries, ready to be sent.

    Attributes
    ----------
    home
        The process.
    parts
        Group of the registry, name and content.
    """

    home: str
    parts: tuple[tuple[str, str, bytes], ...]

    @classmethod
    def of_here(cls) -> OwnParts:
        """Return what this process has put into registries.

        What cannot be sent, e.g. because it holds an open file, is left out: runs need not use it,
        and one that does says that its name is unknown.
        """
        own = [
            (group, name, value)
            for group, registry in _REGISTRIES.items()
            for name, value in registry.own().items()
        ]
        sent = ((group, name, _content(value)) for group, name, value in own)
        return cls(_HERE, tuple((group, name, each) for group, name, each in sent if each))

    def take_in(self) -> None:
        """Make the parts known in this process, in place of those that were sent before."""
        if self.home == _HERE:
            return
        for group, registry in _REGISTRIES.items():
            mine = {name: content for home, name, content in self.parts if home == group}
            registry.take_over({name: pickle.loads(content) for name, content in mine.items()})


def _content(value: object) -> bytes | None:
    """Return a value as bytes, as joblib sends tasks, or None if it cannot be sent."""
    try:
        return bytes(dumps(value))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
