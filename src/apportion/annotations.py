"""Arguments and fields checked against their annotations, so that none has to be checked by hand.

``@checked`` before a function and `check_fields` in a dataclass refuse what is not of the annotated
kind: ``"x"`` for an ``int``, ``"no"`` for a ``bool``, NaN for a ``float``. Ranges, and kinds that
only the code at hand knows, are left to it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any, NamedTuple, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from apportion.checks import as_float, is_truth, is_whole
from apportion.errors import ApportionError, InputError, unknown_name, written

P = ParamSpec("P")
R = TypeVar("R")


class _Kind(NamedTuple):
    """One alternative of an annotation: how it is called, what is of it, and the valid names.

    `by_type` tells that all values of a type are of it, or none.
    """

    words: str
    holds: Callable[[Any], bool]
    names: tuple[str, ...] = ()
    by_type: bool = False


def _several(value: Any) -> bool:
    """Tell whether a value holds others; a text is one value."""
    scalar = isinstance(value, (str, bytes, bytearray, Mapping)) or getattr(value, "ndim", 1) == 0
    return isinstance(value, Iterable) and not scalar


def _is_float(value: Any) -> bool:
    """Tell whether a value is a real number that a float can hold, infinity included."""
    found = as_float(value)
    return not math.isnan(found) and (not math.isinf(found) or bool(value == found))


def _is_a(value: Any, name: str) -> bool:
    """Tell by the names of its classes what a value is, which loads none of them."""
    return any(each.__name__ == name for each in type(value).__mro__)


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of an array of real numbers, NaN and truths included; None for others."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is not None and hasattr(value, "shape"):
        return tuple(value.shape) if kind in "iufb" else None
    if isinstance(value, (list, tuple)):
        inner = [_shape(each) for each in value]
        alike = all(each is not None and each == inner[0] for each in inner)
        return (len(inner), *(inner[0] or ())) if inner and alike else (0,) if not inner else None
    if not isinstance(value, (bool, int, float)):
        return None
    return None if math.isinf(as_float(value)) and isinstance(value, int) else ()


_ARRAY = _Kind("an array of numbers", lambda value: _shape(value) is not None)
_KINDS: Mapping[str, _Kind] = {
    "None": _Kind("None", lambda value: value is None, by_type=True),
    "bool": _Kind("True or False", is_truth, by_type=True),
    "int": _Kind("a whole number", is_whole),
    "float": _Kind("a number", _is_float),
    "str": _Kind("a text", lambda value: isinstance(value, str), by_type=True),
    "Path": _Kind("a path", lambda value: isinstance(value, (str, os.PathLike))),
    "pd.DataFrame": _Kind("a DataFrame", lambda value: _is_a(value, "DataFrame"), by_type=True),
    "pd.Series": _Kind("a Series", lambda value: _is_a(value, "Series"), by_type=True),
    "pd.MultiIndex": _Kind("a MultiIndex", lambda value: _is_a(value, "MultiIndex")),
    "Mapping": _Kind("a mapping", lambda value: isinstance(value, Mapping), by_type=True),
    "Sequence": _Kind("a list", _several),
    "Iterable": _Kind("a list", _several),
    "Collection": _Kind("a list", _several),
    "tuple": _Kind("a tuple", lambda value: isinstance(value, (tuple, list))),
    "Callable": _Kind("a function", callable),
    "ArrayLike": _ARRAY,
    "Floats": _Kind("an array of numbers", lambda value: bool(_shape(value))),
    "NDArray": _Kind("an array", lambda value: hasattr(value, "dtype") and hasattr(value, "shape")),
    "Placement": _Kind("a list of (rack, machine, GPUs)", lambda v: len(_shape(v) or ()) == 2),
    "RequestRate": _Kind("a rate of requests", lambda value: hasattr(value, "most")),
    "Runs": _Kind(
        "a mapping to Runs",
        lambda value: isinstance(value, Mapping) and all(_is_a(r, "Run") for r in value.values()),
    ),
    "Shape": _Kind(
        "a list of GPUs by machine for each rack",
        lambda value: _several(value) and all(_several(rack) for rack in value),
    ),
    "np.random.Generator": _Kind("a Generator", lambda value: _is_a(value, "Generator")),
    "type": _Kind("a class", lambda value: isinstance(value, type)),
}
_CLASSES = (
    "AffinityGraph",
    "Allocation",
    "BatchLimits",
    "Bursts",
    "Cluster",
    "CommunicatingModel",
    "CommunicationProfile",
    "Comparison",
    "Compatibility",
    "Configurations",
    "Cost",
    "Devices",
    "Dimension",
    "ElasticJobs",
    "ElasticTables",
    "ElasticWorkload",
    "EstimatedSpeeds",
    "Exact",
    "GatedScheduler",
    "Goodput",
    "GoodputModel",
    "Instance",
    "Interconnect",
    "InterferenceEstimator",
    "Iterations",
    "JobTable",
    "JointShifts",
    "Layer",
    "Leases",
    "MachinePool",
    "MeasuredApplication",
    "MeasuredSteps",
    "MeasuredTraining",
    "ModelProfile",
    "NoiseScale",
    "OfferScheduler",
    "PairThroughputs",
    "Phase",
    "PhaseJob",
    "Plan",
    "Policy",
    "ProtectTimes",
    "Queue",
    "QueueScheduler",
    "RankedPlacement",
    "Resource",
    "RoundPlan",
    "Rounds",
    "Run",
    "ServedModel",
    "ServedRequest",
    "Serving",
    "ServingRun",
    "Session",
    "Span",
    "SpeedModel",
    "StepObservations",
    "StepTimes",
    "TextFile",
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
    right: set[tuple[str, type]] = set()  # whose values need no second look

    @functools.wraps(function)
    def with_checks(*args: P.args, **kwargs: P.kwargs) -> R:
        of_numpy = False
        for name, value in (dict(zip(names, args, strict=False)) | kwargs).items():
            if (name, type(value)) not in right:
                if _look(name, value, kinds.get(name)):
                    right.add((name, type(value)))
                of_numpy = of_numpy or _is_a(value, "generic")
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
            if any(_is_a(each, "generic") for each in (*args, *kwargs.values())):
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


def _check_arguments(
    function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], error: Exception
) -> bool:
    """Name the first argument that is not of its kind.

    Tells whether some may yet be why: arrays whose shapes differ, mappings that lack a key, and
    what could be read only once.
    """
    parameters = inspect.signature(function).parameters
    arrays = any(str(each.annotation) in ("ArrayLike", "Floats") for each in parameters.values())
    doubted = (Iterator, Mapping) if isinstance(error, KeyError) else Iterator
    doubtful = any(isinstance(each, doubted) for each in (*args, *kwargs.values()))
    for name, value in (dict(zip(parameters, args, strict=False)) | dict(kwargs)).items():
        kinds = _kinds(str(parameters[name].annotation)) if name in parameters else None
        if kinds is not None:
            _check(name, value, kinds)
    return doubtful or (arrays and not isinstance(error, AttributeError))


def at_the_door(value: Any) -> Any:
    """Return a function that explains its errors, or what is no function as it is."""
    cached = hasattr(value, "cache_info") and hasattr(value, "__wrapped__")
    plain = inspect.isfunction(value) or cached
    return explained(value) if plain and not hasattr(value, "with_checks") else value


def open_doors(face: dict[str, Any]) -> None:
    """Have all functions that a package shows explain errors, in the copies that it shows.

    Callers inside take a function from the module that defines it, as it is.

    Parameters
    ----------
    face
        The global names of the package, with ``__all__``.
    """
    for name in face["__all__"]:
        if name in face:
            face[name] = at_the_door(face[name])


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
        if _look(name, given, _kinds(str(field.type))):
            right.add((field.name, type(given)))
        if _is_a(given, "generic"):
            object.__setattr__(value, field.name, _plain(given))


_RIGHT_FIELDS: WeakKeyDictionary[type, set[tuple[str, type]]] = WeakKeyDictionary()
"""Fields of dataclasses and types whose values need no second look."""


def _plain(value: Any) -> Any:
    """Return a number of numpy as one of Python: eight bits soon overflow."""
    return value.item() if _is_a(value, "generic") else value


def _look(name: str, value: Any, kinds: tuple[_Kind, ...] | None) -> bool:
    """Check a value; tell whether every value of its type is right."""
    if kinds is not None:
        _check(name, value, kinds)
    sure = kinds is None or any(kind.by_type and kind.holds(value) for kind in kinds)
    return sure and not _is_a(value, "generic")


def _check(name: str, value: Any, kinds: tuple[_Kind, ...]) -> None:
    if not any(kind.holds(value) for kind in kinds):
        names = [each for kind in kinds for each in kind.names]
        made = {f"a {each.__name__}" for each in value.__mro__} if isinstance(value, type) else ()
        if any(kind.words in made for kind in kinds):
            raise InputError(f"{name} is the class {value.__name__}; write {value.__name__}().")
        if names and isinstance(value, str):
            raise unknown_name(name, value, names)
        raise InputError(f"{name} is {written(value)}; it must be {_called(kinds)}.")


@functools.cache
def _kinds(annotation: str) -> tuple[_Kind, ...] | None:
    """Read an annotation; None where it says something that only the code at hand can check."""
    try:
        return _of_node(ast.parse(annotation, mode="eval").body)
    except SyntaxError:
        return None


def _of_node(node: ast.expr) -> tuple[_Kind, ...] | None:
    """Return the alternatives of a part of an annotation, None where it may be anything."""
    if isinstance(node, ast.BinOp):
        left, right = _of_node(node.left), _of_node(node.right)
        return None if left is None or right is None else (*left, *right)
    if isinstance(node, ast.Subscript):
        name, inner = ast.unparse(node.value), node.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        kind = _literal(node) if name == "Literal" else _with_items(name, parts)
        return None if kind is None else (kind,)
    name = ast.unparse(node)
    if name in _CLASSES:
        return (_class(name),)
    return (_KINDS[name],) if name in _KINDS else None


def _literal(node: ast.Subscript) -> _Kind:
    valid = ast.literal_eval(node.slice)
    names = valid if isinstance(valid, tuple) else (valid,)
    words = " or ".join(map(repr, names))
    return _Kind(words, lambda value: isinstance(value, str) and value in names, names)


def _class(name: str) -> _Kind:
    def holds(value: Any) -> bool:
        return _is_a(value, name)

    made = {"Workload": ", as made by generate_workload() or read_workload(path)"}
    return _Kind(f"a {name}{made.get(name, '')}", holds, by_type=True)


def _any_of(kinds: tuple[_Kind, ...] | None) -> Callable[[Any], bool]:
    """Tell whether a value is of one of several kinds, or of any where none are known."""
    return lambda value: kinds is None or any(each.holds(value) for each in kinds)


def _called(kinds: tuple[_Kind, ...]) -> str:
    return " or ".join(dict.fromkeys(kind.words for kind in kinds))


def _with_items(name: str, parts: list[ast.expr]) -> _Kind | None:
    """Return the kind of a list, tuple or mapping whose items must be of some kinds."""
    kind = _KINDS.get(name)
    if kind is None or name in ("NDArray", "Callable"):
        return kind
    if name == "Mapping":
        key, item = (_any_of(_counted(_of_node(part))) for part in parts)
        known = _counted(_of_node(parts[1]))
        words = kind.words if known is None else f"{kind.words} to {_called(known)}"
        return _Kind(
            words,
            lambda value: kind.holds(value) and all(key(k) and item(v) for k, v in value.items()),
        )
    if name != "tuple" or ast.unparse(parts[-1]) == "...":
        items = _of_node(parts[0])
        return _all_alike(kind, _counted(items) if name == "Iterable" else items)
    checks = [_any_of(_of_node(part)) for part in parts]
    first = _of_node(parts[0])
    alike = first is not None and len({ast.unparse(part) for part in parts}) == 1
    each = f" of {len(parts)} items" + (f", each {_called(first)}" if first and alike else "")

    def right(value: Any) -> bool:
        several = kind.holds(value) and len(value) == len(parts)
        return several and all(holds(item) for holds, item in zip(checks, value, strict=True))

    return _Kind(f"{kind.words}{each}", right)


def _counted(kinds: tuple[_Kind, ...] | None) -> tuple[_Kind, ...] | None:
    """Let counts among other values be written as 8.0; whoever counts looks for fractions."""
    if kinds is None:
        return None
    return tuple(_KINDS["float"] if kind is _KINDS["int"] else kind for kind in kinds)


def _all_alike(kind: _Kind, items: tuple[_Kind, ...] | None) -> _Kind:
    """Return the kind of a list whose items are of one kind."""
    if items is None:
        return kind
    is_item = _any_of(items)

    def holds(value: Any) -> bool:
        if not kind.holds(value):
            return False
        # What can be read only once is checked where it is read.
        return not hasattr(value, "__len__") or all(is_item(item) for item in value)

    return _Kind(f"{kind.words} of items, each {_called(items)}", holds)
