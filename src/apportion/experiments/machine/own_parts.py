"""Parts of a user's own, registered by assignment, in worker processes as well.

A worker imports what is installed, and so has what comes with the package and what entry points
offer. What a script has put into a registry it has not: that is sent to it, beside the tasks.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from joblib.externals.loky.backend.reduction import dumps

from apportion.registry import Registry

__all__ = ["OwnParts"]

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
        Registry, name and content.
    """

    home: str
    parts: tuple[tuple[Registry[Any], str, bytes], ...]

    @classmethod
    def of_here(cls) -> OwnParts:
        """Return what this process has put into registries.

        What cannot be sent, e.g. because it holds an open file, is left out: runs need not use it,
        and one that does says that its name is unknown.
        """
        own = [
            (registry, name, value)
            for _, registry in sorted(Registry.all.items())
            for name, value in registry.own().items()
        ]
        sent = ((registry, name, _content(value)) for registry, name, value in own)
        return cls(_HERE, tuple((where, name, each) for where, name, each in sent if each))

    def take_in(self) -> None:
        """Make the parts known in this process, in place of those that were sent before."""
        if self.home == _HERE:
            return
        parts = [(where, name, pickle.loads(content)) for where, name, content in self.parts]
        for registry in list(Registry.all.values()):
            registry.take_over({name: value for where, name, value in parts if where is registry})


def _content(value: object) -> bytes | None:
    """Return a value as bytes, as joblib sends tasks, or None if it cannot be sent."""
    try:
        return bytes(dumps(value))
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
