"""Arguments and fields checked against their annotations, so that none has to be checked by hand.

``@checked`` before a function and `check_fields` in a dataclass refuse what is not of the annotated
kind: ``"x"`` for an ``int``, ``"no"`` for a ``bool``, NaN for a ``float``. Ranges, and kinds that
only the code at hand knows, are left to it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from apportion.annotations.kinds import Kind, called, is_a, kinds_of
from apportion.errors import ApportionError, InputError, unknown_name, written

P = ParamSpec("P")
R = TypeVar("R")


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
    kinds = {name: kinds_of(str(each.annotation)) for name, each in parameters.items()}
    names = list(kinds)
    right: set[tuple[str, type]] = set()  # whose values need no second look

    @functools.wraps(function)
    def with_checks(*args: P.args, **kwargs: P.kwargs) -> R:
        of_numpy = False
        for name, value in (dict(zip(names, args, strict=False)) | kwargs).items():
            if (name, type(value)) not in right:
                if _look(name, value, kinds.get(name)):
                    right.add((name, type(value)))
                of_numpy = of_numpy or is_a(value, "generic")
        _refuse_unknown(function, parameters, kwargs)
        if of_numpy:
            args = tuple(map(_plain, args))  # type: ignore[assignment]
            kwargs = {name: _plain(value) for name, value in kwargs.items()}  # type: ignore[assignment]
        return function(*args, **kwargs)

    with_checks.with_checks = True  # type: ignore[attr-defined]
    return with_checks


def explained(function: Callable[P, R]) -> Callable[P, R]:
    """Say which argument is not of its kind, where a function cannot work with it.

    What the function itself refuses or accepts is left to it, so that it costs nothing where all
    is well. Before ``__post_init__`` of a dataclass it looks at the fields. Where numbers of numpy
    fail, those of Python are tried: eight bits soon overflow.

    Raises
    ------
    InputError
        From the function: in place of an error of Python, if an argument is not of the kind that
        it is annotated with.
    """

    @functools.wraps(function)
    def with_reasons(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except ApportionError:
            raise
        except Exception as error:
            if any(is_a(each, "generic") for each in (*args, *kwargs.values())):
                plain = {name: _plain(value) for name, value in kwargs.items()}
                numbers: Any = map(_plain, args)
                return with_reasons(*numbers, **plain)  # pyright: ignore[reportCallIssue]
            if function.__name__ == "__post_init__":
                check_fields(args[0])
            elif _check_arguments(function, args, kwargs, error):
                reason = f"there is no {error}" if isinstance(error, KeyError) else error
                raise InputError(
                    f"The arguments of {function.__name__} do not fit together: {reason}."
                ) from error
            raise

    with_reasons.with_checks = True  # type: ignore[attr-defined]
    return with_reasons


def _refuse_unknown(
    function: Callable[..., Any],
    parameters: Mapping[str, inspect.Parameter],
    given: Mapping[str, Any],
) -> None:
    """Name an argument that a function does not have, and those that it has."""
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return
    for name in given:
        if name not in parameters:
            known = [each for each in parameters if each != "self"]
            raise unknown_name(f"argument of {function.__name__}", name, known)


def _check_arguments(
    function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], error: Exception
) -> bool:
    """Name the first argument that is not of its kind.

    Tells whether some may yet be why: arrays whose shapes differ, mappings that lack a key, and
    what could be read only once.
    """
    parameters = inspect.signature(function).parameters
    _refuse_unknown(function, parameters, kwargs)
    arrays = any(str(each.annotation) in ("ArrayLike", "Floats") for each in parameters.values())
    doubted = (Iterator, Mapping) if isinstance(error, KeyError) else Iterator
    doubtful = any(isinstance(each, doubted) for each in (*args, *kwargs.values()))
    for name, value in (dict(zip(parameters, args, strict=False)) | dict(kwargs)).items():
        kinds = kinds_of(str(parameters[name].annotation)) if name in parameters else None
        if kinds is not None:
            _check(name, value, kinds)
    return doubtful or (arrays and not isinstance(error, AttributeError))


def at_the_door(value: Any) -> Any:
    """Return a function that explains its errors, or what is no function as it is."""
    cached = hasattr(value, "cache_info") and hasattr(value, "__wrapped__")
    plain = inspect.isfunction(value) or cached
    return explained(value) if plain and not hasattr(value, "with_checks") else value


def check_fields(value: Any) -> None:
    """Check the kinds of the fields of a dataclass, e.g. in its ``__post_init__``.

    Numbers of numpy become those of Python. A field that users know by another name too has that
    in its metadata, as ``name``: errors call it so.

    Raises
    ------
    InputError
        For the first field that is not of the kind that it is annotated with.
    """
    right = _RIGHT_FIELDS.setdefault(type(value), set())
    for field in fields(value):
        given = getattr(value, field.name)
        if (field.name, type(given)) in right:
            continue
        name = field.metadata.get("name") or field.name
        if _look(name, given, kinds_of(str(field.type))):
            right.add((field.name, type(given)))
        if is_a(given, "generic"):
            object.__setattr__(value, field.name, _plain(given))


_RIGHT_FIELDS: WeakKeyDictionary[type, set[tuple[str, type]]] = WeakKeyDictionary()
"""Fields of dataclasses and types whose values need no second look."""


def _plain(value: Any) -> Any:
    """Return a number of numpy as one of Python: eight bits soon overflow."""
    return value.item() if is_a(value, "generic") else value


def _look(name: str, value: Any, kinds: tuple[Kind, ...] | None) -> bool:
    """Check a value; tell whether every value of its type is right."""
    if kinds is not None:
        _check(name, value, kinds)
    sure = kinds is None or any(kind.by_type and kind.holds(value) for kind in kinds)
    return sure and not is_a(value, "generic")


def _check(name: str, value: Any, kinds: tuple[Kind, ...]) -> None:
    if not any(kind.holds(value) for kind in kinds):
        names = [each for kind in kinds for each in kind.names]
        made = {f"a {each.__name__}" for each in value.__mro__} if isinstance(value, type) else ()
        if any(kind.words in made for kind in kinds):
            raise InputError(f"{name} is the class {value.__name__}; write {value.__name__}().")
        if names and isinstance(value, str):
            raise unknown_name(name, value, names)
        table = "\n" in repr(value)  # which nobody reads on one line
        shown = f"a {type(value).__name__}" if table else written(value)
        raise InputError(f"{name} is {shown}; it must be {called(kinds)}.")
