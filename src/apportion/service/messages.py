"""What a decision service is told and asks back: the kinds of messages, checked and as a schema.

A message is a JSON object with an ``op`` of the table `MESSAGES`, and the fields of that kind.
``id`` makes it safe to send twice: a second message with the same id gets the first one's answer.
``at_s`` is the time of what it tells, seconds on the sender's clock; where the first message has
none, the clock of the service counts for all. An answer has ``ok``; with ``false`` nothing has
changed, and ``error`` says why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.errors import InputError, unknown_name, written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["FORMAT", "MESSAGES", "ServiceMessage", "messages_schema", "read_message", "refusal"]

FORMAT = "apportion.decide/1"
"""Version of the schema; a service refuses messages of another one."""
_LONGEST = 256
"""Characters of a name at most."""
_MOST_GPUS = 100_000
"""Of a type: each is a device in memory."""
_JOB = {"type": "string", "minLength": 1, "maxLength": _LONGEST}
_SPEEDS = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}}
_COLUMNS = {"type": ["number", "string", "boolean", "null"]}
_SOME_JOB = {
    "type": "object",
    "properties": {"throughputs": _SPEEDS},
    "additionalProperties": _COLUMNS,
}


class Field(NamedTuple):
    """A field of a message.

    Attributes
    ----------
    schema
        What it may hold, as JSON Schema says it.
    text
        What it means.
    needed
        Whether it must be there.
    """

    schema: Mapping[str, Any]
    text: str
    needed: bool = False


_EVERY = {
    "v": Field({"const": FORMAT}, "version of the schema; the service's own if left out"),
    "id": Field(_JOB, "a name of the message of the sender's choice, for sending it twice"),
    "op": Field({"type": "string"}, "kind of the message", needed=True),
    "at_s": Field(
        {"type": "number"},
        "time of what is told, s; never earlier than the last; in every message that changes or "
        "asks something, or in none: then the clock of the service counts",
    ),
}
_BY_JOB = {"type": "object", "minProperties": 1, "additionalProperties": _SOME_JOB}
_SOME_JOBS = {"type": "array", "minItems": 1, "items": _JOB}
MESSAGES: Mapping[str, tuple[str, Mapping[str, Field]]] = {
    "add": (
        "Jobs have come.",
        {
            "jobs": Field(
                _BY_JOB,
                "by job: throughputs, steps/s by accelerator, and columns of the jobs table",
                needed=True,
            )
        },
    ),
    "update": (
        "Something else is known of jobs: what is given, the rest stays.",
        {"jobs": Field(_BY_JOB, "by job: throughputs, or columns of the jobs table", needed=True)},
    ),
    "remove": ("Jobs are done, or gone.", {"jobs": Field(_SOME_JOBS, "their names", needed=True)}),
    "observe": (
        "A job has run: what was made of it is learnt.",
        {
            "job": Field(_JOB, "its name", needed=True),
            "accelerator": Field(_JOB, "where it ran", needed=True),
            "steps": Field({"type": "number", "minimum": 0}, "steps that were made", needed=True),
            "seconds": Field(
                {"type": "number", "exclusiveMinimum": 0}, "seconds of work", needed=True
            ),
        },
    ),
    "cluster": (
        "The GPUs are others from now on.",
        {
            "gpus": Field(
                {
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": {
                        "type": "integer",
                        "minimum": 0,
                        "maximum": _MOST_GPUS,
                    },
                },
                "GPUs by accelerator, of the types that change; a type that is not named stays",
                needed=True,
            )
        },
    ),
    "decide": (
        "Who has what from now on?",
        {
            "jobs": Field(
                _SOME_JOBS, "tell of these only, and of all whose devices are others than before"
            ),
            "devices": Field(
                {"type": "boolean"}, "numbers of devices too, where a policy gives shares"
            ),
        },
    ),
    "explain": ("Why has a job what it has?", {"job": Field(_JOB, "its name", needed=True)}),
    "state": ("Everything that is known.", {}),
    "health": ("Is the service well, and what has it done?", {}),
}
"""What each kind says, and its fields beside those of every message."""


@dataclass(frozen=True)
class ServiceMessage:
    """A message that has been checked.

    Attributes
    ----------
    op, id, at_s
        Its kind, name and time, if it has any.
    fields
        The fields of its kind.
    """

    op: str
    id: str | None
    at_s: float | None
    fields: Mapping[str, Any]


def read_message(given: Any) -> ServiceMessage:
    """Check a message.

    Raises
    ------
    InputError
        If it is no object, or a field is unknown, missing, or holds what it may not.
    """
    if not isinstance(given, dict):
        raise InputError(f"A message is a JSON object with 'op', not {written(given)}.")
    op = given.get("op")
    if not isinstance(op, str):
        raise InputError(f"A message needs an 'op'. Valid: {', '.join(MESSAGES)}.")
    if op not in MESSAGES:
        raise unknown_name("op", op, MESSAGES)
    fields = {**_EVERY, **MESSAGES[op][1]}
    for name, value in given.items():
        if name not in fields:
            raise unknown_name(f"field of {op!r}", name, fields)
        _check(f"{op}.{name}", value, fields[name].schema)
    for name, field in fields.items():
        if field.needed and name not in given:
            raise InputError(f"{op!r} needs {name!r}: {field.text}.")
    own = {name: given[name] for name in MESSAGES[op][1] if name in given}
    return ServiceMessage(op, given.get("id"), given.get("at_s"), own)


_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    ),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def _check(where: str, value: Any, schema: Mapping[str, Any]) -> None:
    """Hold a value to the part of JSON Schema that `MESSAGES` uses."""
    if "const" in schema and value != schema["const"]:
        raise InputError(f"{where} is {written(value)}; this service speaks {schema['const']!r}.")
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_KINDS[kind](value) for kind in kinds):
        raise InputError(f"{where} must be of type {' or '.join(kinds)}, not {written(value)}.")
    if isinstance(value, str):
        _check_text(where, value)
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", math.inf):
            raise InputError(f"{where} has {len(value)} characters; 1 to {_LONGEST} are valid.")
    elif isinstance(value, int | float):
        if value < schema.get("minimum", -math.inf) or value <= schema.get(
            "exclusiveMinimum", -math.inf
        ):
            least = schema.get("minimum", schema.get("exclusiveMinimum"))
            raise InputError(f"{where} is {written(value)}; the least is {least}.")
        if value > schema.get("maximum", math.inf):
            raise InputError(f"{where} is {written(value)}; {schema['maximum']} is the most.")
    elif isinstance(value, dict | list):
        if len(value) < max(schema.get("minProperties", 0), schema.get("minItems", 0)):
            raise InputError(f"{where} is empty.")
        _check_inside(where, value, schema)


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
            _check(f"{where}[{place}]", each, schema.get("items", {}))
        return
    named = schema.get("properties", {})
    for name, each in value.items():
        if not 1 <= len(name) <= _LONGEST:
            raise InputError(f"{where} has a name of {len(name)} characters; 1 to {_LONGEST}.")
        _check_text(where, name)
        _check(f"{where}.{name}", each, named.get(name, schema.get("additionalProperties", {})))


def refusal(name: str | None, error: str, *, retry: bool = False) -> dict[str, Any]:
    """Return the answer to a message that is refused, or was never read."""
    return {"v": FORMAT, "ok": False, "id": name, "error": error, "retry": retry}


def messages_schema() -> dict[str, Any]:
    """Return the schema of messages; `apportion.service.answers` has that of answers."""
    kinds = []
    for op, (text, own) in MESSAGES.items():
        fields = {**_EVERY, "op": Field({"const": op}, "kind of the message", True), **own}
        kinds.append(
            {
                "title": op,
                "description": text,
                "type": "object",
                "properties": {
                    name: {**field.schema, "description": field.text}
                    for name, field in fields.items()
                },
                "required": [name for name, field in fields.items() if field.needed],
                "additionalProperties": False,
            }
        )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": FORMAT,
        "description": "A message to the decision service; $defs.answer is what comes back.",
        "oneOf": kinds,
    }
