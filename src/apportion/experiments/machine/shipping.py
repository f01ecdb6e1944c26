"""What all tasks need, sent once to each worker where that is quicker than with every task.

It goes from memory to memory, as joblib sends tasks; nothing is read from files.

Parts of a user's own, registered by assignment, in worker processes as well.

A worker imports what is installed, and so has what comes with the package and what entry points
offer. What a script has put into a registry it has not: that is sent to it, beside the tasks.
"""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from joblib.externals.loky.backend.reduction import dumps
from joblib.parallel import get_active_backend

from apportion.registry import Registry

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


_SMALL = 10_000
"""Bytes that may as well go with every task."""

_WORTH_A_START = 20_000_000
"""Bytes for all tasks together from which on it is quicker to start the processes of this machine
anew, each with the value, which takes seconds, than to send it with every task."""

_KEPT: dict[str, Any] = {}
"""What this process has been sent, by key."""


@dataclass(frozen=True)
class Shipped:
    """A value, or how a worker finds it."""

    value: Any

    def get(self) -> Any:
        """Return the value, in a worker."""
        return self.value


@dataclass(frozen=True)
class _InProcess(Shipped):
    """A value that every process has been sent when it was started, by key."""

    def get(self) -> Any:
        return _KEPT[self.value]


@dataclass(frozen=True)
class _InRay(Shipped):
    """A reference to a value in Ray's object store, which brings it once to every node."""

    def get(self) -> Any:
        import ray

        key = self.value.hex()
        if key not in _KEPT:
            _KEPT.clear()
            _KEPT[key] = ray.get(self.value)
        return _KEPT[key]


def shipped(value: Any, tasks: int) -> tuple[Shipped, dict[str, Any]]:
    """Prepare to send a value to the workers of joblib's active back end.

    Parameters
    ----------
    value
        What every task needs.
    tasks
        How many there are.

    Returns
    -------
    Shipped, dict
        What goes with each task, and options which that back end must have.
    """
    here = Shipped(value)
    try:
        content = pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        # E.g. of a class in a function, which joblib's own way of sending can handle.
        return here, {}
    backend = active_backend_name()
    if len(content) <= _SMALL:
        return here, {}
    if backend == "LokyBackend":
        if len(content) * tasks < _WORTH_A_START:
            return here, {}
        key = hashlib.sha256(content).hexdigest()
        _keep(key, content)  # for tasks that run in this process after all
        return _InProcess(key), {"initializer": _keep, "initargs": (key, content)}
    if backend == "DaskDistributedBackend":
        return here, {"scatter": [here]}
    if backend.endswith("RayBackend"):
        import ray

        return _InRay(ray.put(value)), {}
    return here, {}


def active_backend_name() -> str:
    """Return the name of the class of the back end that is active."""
    backend, _ = get_active_backend()
    return type(backend).__name__


def _keep(key: str, content: bytes) -> None:
    """Take in a value that the parent of this process has sent, in place of any before it."""
    _KEPT.clear()
    _KEPT[key] = pickle.loads(content)
