"""Messages held to their schema, and what may be known of a job to what can be decided."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.checks import LARGEST_NUMBER
from apportion.errors import InputError, written
from apportion.jobs import JOB_COLUMNS, check_jobs
from apportion.mechanism.leases.rules import spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_MADE = ("count", "current_option", "reallocation_factor", "network_priority")
"""Columns of a jobs table for `solve` that are worked out here."""

LONGEST_NAME = 256
"""Characters of a name at most."""
_LEAST_NUMBER = 1e-9
"""Speeds and weights above 0 at least: with smaller ones problems span too many decades."""
_SHOWN = 60
"""Characters of a value in an error at most."""
_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": lambda value: (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
    ),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def check_value(where: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Hold a value to the part of JSON Schema that messages use.

    Raises
    ------
    InputError
        If it is of another type or out of range; it names where.
    """
    if "const" in schema and value != schema["const"]:
        raise InputError(f"{where} is {shown(value)}; this service speaks {schema['const']!r}.")
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_KINDS[kind](value) for kind in kinds):
        raise InputError(f"{where} must be of type {' or '.join(kinds)}, not {shown(value)}.")
    if isinstance(value, str):
        _check_text(where, value)
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", math.inf):
            raise InputError(f"{where} has {len(value)} characters; 1 to {LONGEST_NAME} are valid.")
    elif isinstance(value, int | float):
        if value < schema.get("minimum", -math.inf):
            raise InputError(f"{where} is {shown(value)}; the least is {schema['minimum']}.")
        if value <= schema.get("exclusiveMinimum", -math.inf):
            least = schema["exclusiveMinimum"]
            raise InputError(f"{where} is {shown(value)}; it must be more than {least}.")
        if value > schema.get("maximum", math.inf):
            raise InputError(f"{where} is {shown(value)}; {schema['maximum']} is the most.")
    elif isinstance(value, dict | list):
        if len(value) < max(schema.get("minProperties", 0), schema.get("minItems", 0)):
            raise InputError(f"{where} is empty.")
        _check_inside(where, value, schema)


def shown(value: Any) -> str:
    """Return a value as JSON writes it, cut where it is long."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):  # from Python, which holds more than JSON
        text = written(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _check_text(where: str, value: str) -> None:
    """Refuse half of a pair of surrogates, which is no character."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where} has {value!a}, which is no text of Unicode.") from error


def _check_inside(where: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Hold the items of a list, or the fields of an object, to their schemas."""
    if isinstance(value, list):
        for place, each in enumerate(value):
            check_value(f"{where}[{place}]", each, schema.get("items", {}))
        return
    named = schema.get("properties", {})
    for name, each in value.items():
        if not 1 <= len(name) <= LONGEST_NAME or not name.strip():
            size = f"{len(name)} characters" if name.strip() else "blanks only"
            raise InputError(f"{where} has a name of {size}; 1 to {LONGEST_NAME}, not all blank.")
        _check_text(where, name)
        check_value(
            f"{where}.{name}", each, named.get(name, schema.get("additionalProperties", {}))
        )


def checked_facts(facts: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Check columns as every jobs table is checked; null takes a column away."""
    said = {
        job: {name: value for name, value in each.items() if value is not None}
        for job, each in facts.items()
    }
    alike: dict[tuple[tuple[str, type], ...], list[str]] = {}
    for job, each in said.items():
        kinds = tuple((name, type(value)) for name, value in each.items())
        alike.setdefault(kinds, []).append(job)
    for kinds, jobs in alike.items():
        index, names = pd.Index(jobs, dtype=object), [name for name, _ in kinds]
        check_jobs(pd.DataFrame([said[job] for job in jobs], index, columns=names))
    return said


def refuse_unfit(
    job: str,
    speeds: Mapping[str, float] | None,
    facts: Mapping[str, Any],
    most: Mapping[str, int],
    needs: frozenset[str],
) -> None:
    """Refuse a job that could not run on all GPUs that there ever were, or cannot be decided.

    A job that cannot be decided would keep everybody from a decision.
    """
    gang = int(facts.get("scale_factor", 1))
    fits = [name for name, gpus in most.items() if gpus >= gang]
    if not fits:
        had = ", ".join(f"{gpus} of {name}" for name, gpus in most.items())
        raise InputError(f"Job {written(job)} needs {gang} GPUs of one type; the most were {had}.")
    if speeds is not None and not any(speeds.get(name, 0.0) > 0 for name in fits):
        raise InputError(
            f"Job {written(job)} has no speed on any accelerator that has {gang} GPUs "
            f"({', '.join(fits)})."
        )
    if 0 < float(facts.get("weight", 1.0)) < _LEAST_NUMBER:
        raise InputError(
            f"Job {written(job)} has weight {facts['weight']:g}; {_LEAST_NUMBER:g} is the least."
        )
    for name in _MADE:
        if name in facts and name not in needs and (name != "count" or facts[name] != 1):
            raise InputError(
                f"Job {written(job)} has {name!r}, which the service works out itself; leave it "
                f"out. Jobs that are alike have a name each."
            )
    left, total = facts.get("steps_remaining"), facts.get("total_steps")
    if left is not None and total is not None and left > total:
        raise InputError(
            f"Job {written(job)} would have {left:g} steps_remaining of {total:g} total_steps."
        )
    for name in sorted(needs - facts.keys()):
        if name != "steps_remaining" or "total_steps" not in facts:
            meaning = f" ({JOB_COLUMNS[name].meaning})" if name in JOB_COLUMNS else ""
            raise InputError(f"Job {written(job)} has no {name!r}{meaning}, by which is decided.")


def where_it_may_run(
    speeds: Mapping[str, float], facts: Mapping[str, Any], gpus: Mapping[str, int]
) -> dict[str, float]:
    """Return the speeds of a job with 0 on types that its ``runs_on`` leaves out."""
    only = facts.get("runs_on", "")
    if only not in gpus:
        return dict(speeds)
    return {name: speed if name == only else 0.0 for name, speed in speeds.items()}


def refuse_type(job: str, facts: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuse a job of a type by which nothing can be decided."""
    told = facts.get("job_type")
    if told is None or not spelled(str(told), known):
        has = "no job_type" if told is None else f"job_type {shown(told)}"
        raise InputError(
            f"Job {written(job)} has {has}; this scheduler decides by it, and knows "
            f"{', '.join(known)}."
        )


def own_columns(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns that were told of a job."""
    return {name: value for name, value in told.items() if name != "throughputs"}


def checked_speed(job: str, steps_per_s: float) -> float:
    """Return a speed that policies can reckon with.

    Raises
    ------
    InputError
        If it is larger, or so small that it cannot be divided by.
    """
    if 0 < steps_per_s < _LEAST_NUMBER:
        raise InputError(
            f"Job {written(job)} makes {steps_per_s:g} steps/s; say 0 where it cannot run, else "
            f"{_LEAST_NUMBER:g} or more."
        )
    if not steps_per_s <= LARGEST_NUMBER:
        raise InputError(
            f"Job {written(job)} makes {steps_per_s:g} steps/s; {LARGEST_NUMBER:g} are the most."
        )
    return steps_per_s
