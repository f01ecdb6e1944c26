"""The kinds of values that the text of an annotation names, and how errors call them."""

from __future__ import annotations

import ast
import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from apportion.checks import as_float, is_truth, is_whole
from apportion.syntax import PARSING


class Kind(NamedTuple):
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


def is_a(value: Any, name: str) -> bool:
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


_ARRAY = Kind("an array of numbers", lambda value: _shape(value) is not None)
_KINDS: Mapping[str, Kind] = {
    "None": Kind("None", lambda value: value is None, by_type=True),
    "bool": Kind("True or False", is_truth, by_type=True),
    "int": Kind("a whole number", is_whole),
    "float": Kind("a number", _is_float),
    "str": Kind("a text", lambda value: isinstance(value, str), by_type=True),
    "Path": Kind("a path", lambda value: isinstance(value, (str, os.PathLike))),
    "pd.DataFrame": Kind("a DataFrame", lambda value: is_a(value, "DataFrame"), by_type=True),
    "pd.Series": Kind("a Series", lambda value: is_a(value, "Series"), by_type=True),
    "pd.MultiIndex": Kind("a MultiIndex", lambda value: is_a(value, "MultiIndex")),
    "Mapping": Kind("a mapping", lambda value: isinstance(value, Mapping), by_type=True),
    "Sequence": Kind("a list", _several),
    "Iterable": Kind("a list", _several),
    "Collection": Kind("a list", _several),
    "tuple": Kind("a tuple", lambda value: isinstance(value, (tuple, list))),
    "Callable": Kind("a function", callable),
    "ArrayLike": _ARRAY,
    "Floats": Kind("an array of numbers", lambda value: bool(_shape(value))),
    "NDArray": Kind("an array", lambda value: hasattr(value, "dtype") and hasattr(value, "shape")),
    "Placement": Kind("a list of (rack, machine, GPUs)", lambda v: len(_shape(v) or ()) == 2),
    "RequestRate": Kind(
        "a rate of requests, such as apportion.elastic.DiurnalRate(0.5)",
        lambda value: hasattr(value, "most"),
    ),
    "Runs": Kind(
        "a mapping to Runs",
        lambda value: isinstance(value, Mapping) and all(is_a(r, "Run") for r in value.values()),
    ),
    "Shape": Kind(
        "a list of GPUs by machine for each rack",
        lambda value: _several(value) and all(_several(rack) for rack in value),
    ),
    "np.random.Generator": Kind("a Generator", lambda value: is_a(value, "Generator")),
    "type": Kind("a class", lambda value: isinstance(value, type)),
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


@functools.cache
def kinds_of(annotation: str) -> tuple[Kind, ...] | None:
    """Read an annotation; None where it says something that only the code at hand can check."""
    try:
        with PARSING:
            return _of_node(ast.parse(annotation, mode="eval").body)
    except SyntaxError:
        return None


def _of_node(node: ast.expr) -> tuple[Kind, ...] | None:
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


def _literal(node: ast.Subscript) -> Kind:
    valid = ast.literal_eval(node.slice)
    names = valid if isinstance(valid, tuple) else (valid,)
    words = " or ".join(map(repr, names))
    return Kind(words, lambda value: isinstance(value, str) and value in names, names)


def _class(name: str) -> Kind:
    def holds(value: Any) -> bool:
        return is_a(value, name)

    made = {"Workload": ", as made by generate_workload() or read_workload(path)"}
    return Kind(f"a {name}{made.get(name, '')}", holds, by_type=True)


def _any_of(kinds: tuple[Kind, ...] | None) -> Callable[[Any], bool]:
    """Tell whether a value is of one of several kinds, or of any where none are known."""
    return lambda value: kinds is None or any(each.holds(value) for each in kinds)


def called(kinds: tuple[Kind, ...]) -> str:
    """Return what errors call some kinds."""
    return " or ".join(dict.fromkeys(kind.words for kind in kinds))


def _with_items(name: str, parts: list[ast.expr]) -> Kind | None:
    """Return the kind of a list, tuple or mapping whose items must be of some kinds."""
    kind = _KINDS.get(name)
    if kind is None or name in ("NDArray", "Callable"):
        return kind
    if name == "Mapping":
        key, item = (_any_of(_counted(_of_node(part))) for part in parts)
        known = _counted(_of_node(parts[1]))
        words = kind.words if known is None else f"{kind.words} to {called(known)}"
        return Kind(
            words,
            lambda value: kind.holds(value) and all(key(k) and item(v) for k, v in value.items()),
        )
    if name != "tuple" or ast.unparse(parts[-1]) == "...":
        items = _of_node(parts[0])
        return _all_alike(kind, _counted(items) if name == "Iterable" else items)
    checks = [_any_of(_of_node(part)) for part in parts]
    first = _of_node(parts[0])
    alike = first is not None and len({ast.unparse(part) for part in parts}) == 1
    each = f" of {len(parts)} items" + (f", each {called(first)}" if first and alike else "")

    def right(value: Any) -> bool:
        several = kind.holds(value) and len(value) == len(parts)
        return several and all(holds(item) for holds, item in zip(checks, value, strict=True))

    return Kind(f"{kind.words}{each}", right)


def _counted(kinds: tuple[Kind, ...] | None) -> tuple[Kind, ...] | None:
    """Let counts among other values be written as 8.0; whoever counts looks for fractions."""
    if kinds is None:
        return None
    return tuple(_KINDS["float"] if kind is _KINDS["int"] else kind for kind in kinds)


def _all_alike(kind: Kind, items: tuple[Kind, ...] | None) -> Kind:
    """Return the kind of a list whose items are of one kind."""
    if items is None:
        return kind
    is_item = _any_of(items)

    def holds(value: Any) -> bool:
        if not kind.holds(value):
            return False
        # What can be read only once is checked where it is read.
        return not hasattr(value, "__len__") or all(is_item(item) for item in value)

    return Kind(f"{kind.words} of items, each {called(items)}", holds)
