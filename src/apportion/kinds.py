"""Arguments and fields checked against their annotations, so that none has to be checked by hand.

``@checked`` before a function and `check_fields` in a dataclass refuse what is not of the annotated
kind: ``"x"`` for an ``int``, ``"no"`` for a ``bool``, NaN for a ``float``. Ranges, and kinds that
only the code at hand knows, are left to it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, ParamSpec, TypeVar

from apportion.checks import is_number, is_truth, is_whole
from apportion.errors import InputError, unknown_name, written

__all__ = ["check_fields", "checked"]

P = ParamSpec("P")
R = TypeVar("R")


class _Kind(NamedTuple):
    """One alternative of an annotation: how it is called, what is of it, and the valid names."""

    words: str
    holds: Callable[[Any], bool]
    names: tuple[str, ...] = ()


def _several(value: Any) -> bool:
    """Tell whether a value holds others; a text is one value."""
    scalar = isinstance(value, (str, bytes, bytearray, Mapping)) or getattr(value, "ndim", 1) == 0
    return isinstance(value, Iterable) and not scalar


def _is_a(value: Any, name: str) -> bool:
    """Tell by the names of its classes what a value is, which loads none of them."""
    return any(each.__name__ == name for each in type(value).__mro__)


_KINDS: Mapping[str, _Kind] = {
    "None": _Kind("None", lambda value: value is None),
    "bool": _Kind("True or False", is_truth),
    "int": _Kind("a whole number", is_whole),
    "float": _Kind("a number", is_number),
    "str": _Kind("a text", lambda value: isinstance(value, str)),
    "Path": _Kind("a path", lambda value: isinstance(value, (str, os.PathLike))),
    "pd.DataFrame": _Kind("a DataFrame", lambda value: _is_a(value, "DataFrame")),
    "pd.Series": _Kind("a Series", lambda value: _is_a(value, "Series")),
    "pd.MultiIndex": _Kind("a MultiIndex", lambda value: _is_a(value, "MultiIndex")),
    "Mapping": _Kind("a mapping", lambda value: isinstance(value, Mapping)),
    "Sequence": _Kind("a list", _several),
    "Iterable": _Kind("a list", _several),
    "Collection": _Kind("a list", _several),
    "tuple": _Kind("a tuple", lambda value: isinstance(value, (tuple, list))),
    "Callable": _Kind("a function", callable),
}
_CLASSES = (
    "Cluster",
    "Configurations",
    "Dimension",
    "ElasticWorkload",
    "Exact",
    "GatedScheduler",
    "Instance",
    "Interconnect",
    "InterferenceEstimator",
    "Iterations",
    "Leases",
    "OfferScheduler",
    "PairThroughputs",
    "Policy",
    "Queue",
    "QueueScheduler",
    "Resource",
    "RoundPlan",
    "Rounds",
    "Serving",
    "ThroughputTensor",
    "Workload",
)
"""Classes of this package, told by name: annotations are not imported where they are checked."""


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check the kinds of the arguments of a function before it runs.

    Numbers of numpy are passed on as those of Python.

    Raises
    ------
    InputError
        From the function: for the first argument that is not of the kind that it is annotated
        with; the message names it.
    """
    parameters = inspect.signature(function).parameters
    kinds = {name: _kinds(str(each.annotation)) for name, each in parameters.items()}
    names = list(kinds)
    known = {name: kind for name, kind in kinds.items() if kind is not None}

    @functools.wraps(function)
    def with_checks(*args: P.args, **kwargs: P.kwargs) -> R:
        given = dict(zip(names, args, strict=False)) | kwargs
        for name, value in given.items():
            if name in known:
                _check(name, value, known[name])
        if any(_is_a(value, "generic") for value in given.values()):
            args = tuple(map(_plain, args))  # type: ignore[assignment]
            kwargs = {name: _plain(value) for name, value in kwargs.items()}  # type: ignore[assignment]
        return function(*args, **kwargs)

    return with_checks


def check_fields(value: Any) -> None:
    """Check the kinds of the fields of a dataclass, e.g. in its ``__post_init__``.

    Numbers of numpy become those of Python. A field that users know by another name too has that
    in its metadata, as ``name``: errors call it so.

    Raises
    ------
    InputError
        For the first field that is not of the kind that it is annotated with.
    """
    for field in fields(value):
        kinds = _kinds(str(field.type))
        given = getattr(value, field.name)
        if kinds is not None:
            _check(field.metadata.get("name") or field.name, given, kinds)
        if _is_a(given, "generic"):
            object.__setattr__(value, field.name, _plain(given))


def _plain(value: Any) -> Any:
    """Return a number of numpy as one of Python: eight bits soon overflow."""
    return value.item() if _is_a(value, "generic") else value


def _check(name: str, value: Any, kinds: tuple[_Kind, ...]) -> None:
    if not any(kind.holds(value) for kind in kinds):
        names = [each for kind in kinds for each in kind.names]
        if names and isinstance(value, str):
            raise unknown_name(name, value, names)
        words = " or ".join(dict.fromkeys(kind.words for kind in kinds))
        raise InputError(f"{name} is {written(value)}; it must be {words}.")


@functools.cache
def _kinds(annotation: str) -> tuple[_Kind, ...] | None:
    """Read an annotation; None where it says something that only the code at hand can check."""
    kinds = []
    for part in _alternatives(annotation):
        name, _, inner = part.partition("[")
        if name == "Literal":
            kinds.append(_literal(part))
        elif name in _CLASSES:
            kinds.append(_class(name))
        elif name in _KINDS:
            kinds.append(_with_items(_KINDS[name], name, inner.removesuffix("]")))
        else:
            return None
    return tuple(kinds)


def _alternatives(annotation: str) -> list[str]:
    """Split ``"A | B[C | D]"`` at the bars that stand outside of brackets."""
    parts, depth = [""], 0
    for letter in annotation:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _literal(part: str) -> _Kind:
    node = ast.parse(part, mode="eval").body
    valid = ast.literal_eval(node.slice) if isinstance(node, ast.Subscript) else ()
    names = valid if isinstance(valid, tuple) else (valid,)
    words = " or ".join(map(repr, names))
    return _Kind(words, lambda value: isinstance(value, str) and value in names, names)


def _class(name: str) -> _Kind:
    def holds(value: Any) -> bool:
        return _is_a(value, name)

    made = {"Workload": ", as made by generate_workload() or read_workload(path)"}
    return _Kind(f"a {name}{made.get(name, '')}", holds)


def _with_items(kind: _Kind, name: str, inner: str) -> _Kind:
    """Add what the items of a list, or of a tuple of one length, must be."""
    if name not in ("Sequence", "Collection", "tuple") or not inner:
        return kind
    whole, *others = (each.strip() for each in inner.split(",")) if "[" not in inner else ("",)
    items = _kinds(whole)
    length = 1 + len(others) if name == "tuple" and "..." not in others else None
    if items is None or not set(others) <= {whole, "..."}:
        return kind

    def holds(value: Any) -> bool:
        if not kind.holds(value):
            return False
        if not hasattr(value, "__len__"):  # what can be read only once is checked where it is read
            return True
        right = length is None or len(value) == length
        return right and all(any(each.holds(item) for each in items) for item in value)

    count = "" if length is None else f"{length} items, each "
    words = " or ".join(dict.fromkeys(each.words for each in items))
    return _Kind(f"{kind.words} of {count or 'items, each '}{words}", holds)
