"""What a run keeps, as JSON holds it, every bit of every number; nothing is pickled."""

from __future__ import annotations

import sys
from base64 import b64decode, b64encode
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray


class Resumable(Protocol):
    """Anything of a run that changes as time goes by: it can be written down, and taken up again.

    A class names the attributes on which later steps depend, ``kept = ("_shares", "_sharing")``,
    and has its state by these, without underscores in front: a part, which has ``state`` and
    ``restore`` itself, by its own state, as is each part in a list or a dictionary; a random
    generator by that of its draws; everything else by `packed`. A class that names nothing keeps
    nothing. What is not so overrides both methods, and anything with the two methods is a part,
    whatever it derives from.
    """

    def state(self) -> dict[str, Any]:
        """Return everything that later steps depend on, as JSON holds it, every bit kept."""
        return {name.lstrip("_"): packed(getattr(self, name)) for name in getattr(self, "kept", ())}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state` in a part that was made alike.

        Parts, generators and dictionaries go on in place, as others may hold them; every other
        attribute is set anew.

        Raises
        ------
        InputError
            If something is missing; then nothing changes.
        LookupError, TypeError, ValueError, AttributeError
            If it is none otherwise.
        """
        names = getattr(self, "kept", ())
        for name in names:
            if name.lstrip("_") not in state:
                of = type(self).__name__
                raise InputError(f"The state of the {of} has no {name.lstrip('_')!r}.")
        for name in names:
            now = getattr(self, name)
            then = _taken_up(now, state[name.lstrip("_")])
            if then is not now:
                setattr(self, name, then)


def _taken_up(now: Any, written: Any) -> Any:
    """Return what was written down: what is there now, if it can go on in place."""
    if hasattr(now, "restore"):
        now.restore(written)
        return now
    parts = [*now.values()] if isinstance(now, dict) else now if isinstance(now, list) else []
    if parts and all(hasattr(part, "restore") for part in parts):
        states = written["dict"][1] if isinstance(now, dict) else written
        for part, state in zip(parts, states, strict=True):
            part.restore(state)
        return now
    then = unpacked(written)
    if isinstance(now, np.random.Generator):
        now.bit_generator.state = then
    elif isinstance(now, dict) and isinstance(then, dict):
        now.clear()
        now.update(then)
    else:
        return then
    return now


def packed(value: Any) -> Any:
    """Return a value as JSON holds it.

    Numbers, texts, nothing and lists are themselves. A dictionary with one key says what else it
    is, a named tuple or a member of an enumeration by the name of its class; of arrays see `plain`.
    A list of tuples of one kind and length is written by columns, so that the kind is said once.

    Raises
    ------
    TypeError
        If it is, or holds, anything but these: arrays, dictionaries, sets, tuples, members of
        enumerations, parts with a state, and random generators.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list):
        return _list(value)
    if isinstance(value, tuple):
        name = _name_of(type(value))
        return {name: [packed(each) for each in value]}
    if isinstance(value, Enum):
        return {_name_of(type(value)): [value.value]}
    if isinstance(value, dict):
        return {"dict": [_list([*value]), _list([*value.values()])]}
    if isinstance(value, deque):
        return {"deque": _list([*value])}
    if isinstance(value, (set, frozenset)):
        return {type(value).__name__: sorted((packed(each) for each in value), key=repr)}
    if isinstance(value, np.ndarray):
        return plain(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.Generator):
        return packed(value.bit_generator.state)
    if hasattr(value, "state") and hasattr(value, "restore"):
        return value.state()
    raise TypeError(f"A state holds no {type(value).__name__}: {value!r:.60}.")


def _list(values: list[Any]) -> Any:
    """Write down a list, tuples and members of one class by columns."""
    kinds = {*map(type, values)}
    if kinds <= {bool, int, float, str, type(None)}:
        return values.copy()
    kind = kinds.pop()
    if not kinds and issubclass(kind, Enum):
        return {"list": [_name_of(kind), [[each.value for each in values]]]}
    if not kinds and issubclass(kind, tuple) and len({*map(len, values)}) == 1 and values[0]:
        columns = [_list([*column]) for column in zip(*values, strict=True)]
        return {"list": [_name_of(kind), columns]}
    return [packed(each) for each in values]


def unpacked(written: Any) -> Any:
    """Return the value that `packed` wrote down, other than a part or a generator.

    Raises
    ------
    ValueError, LookupError, TypeError
        If it is none.
    """
    if isinstance(written, list):
        return [unpacked(each) for each in written]
    if not isinstance(written, dict):
        return written
    if "data" in written:
        return array_of(written)
    ((kind, items),) = written.items()
    if kind == "dict":
        return dict(zip(*map(unpacked, items), strict=True))
    if kind == "list":
        make = _maker(items[0])
        return [make(row) for row in zip(*map(unpacked, items[1]), strict=True)]
    return _maker(kind)(unpacked(items))


def plain(array: NDArray[Any]) -> dict[str, Any]:
    """Return kind, shape and bytes of an array of numbers or truths."""
    data = b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"kind": array.dtype.str, "shape": list(array.shape), "data": data}


def array_of(plain: Mapping[str, Any]) -> NDArray[Any]:
    """Return the array that `plain` wrote down.

    Raises
    ------
    ValueError, KeyError
        If it is none.
    """
    kind = np.dtype(plain["kind"])
    if kind.kind not in "biuf":
        raise ValueError(f"An array of kind {plain['kind']!r} holds no numbers.")
    data = b64decode(plain["data"], validate=True)
    return np.frombuffer(data, dtype=kind).reshape(plain["shape"]).copy()


def _maker(kind: str) -> Callable[[Any], Any]:
    """Return what makes a collection, a named tuple or a member again of what is in it."""
    plain_kinds = {"tuple": tuple, "set": set, "frozenset": frozenset, "deque": deque}
    return plain_kinds[kind] if kind in plain_kinds else _named(kind)


def _name_of(kind: type) -> str:
    """Return the name under which tuples or members of a class are written."""
    if kind is tuple:
        return "tuple"
    name = f"{kind.__module__}.{kind.__qualname__}"
    try:
        _named(name)
    except ValueError as error:
        raise TypeError(str(error)) from error
    return name


def _named(name: str) -> Callable[[list[Any]], Any]:
    """Return what makes a named tuple or a member again, of a module that is imported already."""
    module, _, kind = name.rpartition(".")
    found = getattr(sys.modules.get(module), kind, None)
    if isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_make"):
        return found._make  # type: ignore[no-any-return]
    if isinstance(found, type) and issubclass(found, Enum):
        return lambda values: found(*values)
    raise ValueError(f"There is no named tuple or enumeration {name!r}.")
