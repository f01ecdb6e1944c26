"""What a decision service is told and asks back: the kinds of messages, checked and as a schema.

A message is a JSON object with an ``op`` of the table `MESSAGES`, and the fields of that kind.
``id`` makes it safe to send twice: a second message with the same id gets the first one's answer.
``at_s`` is the time of what it tells, seconds on the sender's clock; where the first message has
none, the clock of the service counts for all. An answer has ``ok``; with ``false`` nothing has
changed, and ``error`` says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.errors import InputError, unknown_name
from apportion.jobs import JOB_COLUMNS
from apportion.service.checking import LONGEST_NAME, check_value, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = "apportion.decide/1"
"""Version of the schema; a service refuses messages of another one."""
_MOST_S = 1e12
"""Of a time, for a slip of units would stop all later messages: some 30,000 years."""
_MOST_GPUS = 100_000
"""Of a type: each is a device in memory."""
_JOB = {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}
_NAMES = {"minLength": 1, "maxLength": LONGEST_NAME, "pattern": r"\S"}
SPEED = {"type": "number", "minimum": 0}
_SPEEDS = {"type": "object", "additionalProperties": SPEED}
OWN_COLUMN = {"type": ["number", "string", "boolean", "null"]}
_TYPES = {"number": "number", "count": "integer", "text": "string", "truth": "boolean"}
COLUMNS = {
    name: {
        "type": [_TYPES.get(column.kind, "string"), "null"],
        "description": f"{column.meaning}: {column.valid.lower()}".replace("NaN", "null"),
    }
    for name, column in JOB_COLUMNS.items()
}
"""Of the jobs table; ranges are held to where the table is checked, in words of their own."""
_SOME_JOB = {
    "type": "object",
    "properties": {"throughputs": _SPEEDS, **COLUMNS},
    "additionalProperties": OWN_COLUMN,
    "description": (
        "Throughputs, columns of the jobs table, and columns of your own: numbers, texts, true or "
        "false. A column called as an accelerator type is the throughput on it. "
        "Their names are 1 to 256 characters, not all blank; names that look like misspelt "
        "ones of the jobs table, and those of what a run tells of jobs (order, start_s, jct_s, "
        "cost, ...), are refused. null: the job has no such column, or not any more."
    ),
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
    "id": Field(
        _JOB,
        "a name of the message of the sender's choice, for sending it twice: the second is "
        "answered as the first, whatever its at_s; with other fields it is refused; state and "
        "health, which change nothing, are not kept: sent again they tell of now",
    ),
    "op": Field({"type": "string"}, "kind of the message", needed=True),
    "at_s": Field(
        {"type": "number", "minimum": -_MOST_S, "maximum": _MOST_S},
        "time of what is told, s; never earlier than the last; in every message that changes or "
        "asks something, or in none: then the clock of the service counts",
    ),
}
_BY_JOB = {
    "type": "object",
    "minProperties": 1,
    "propertyNames": _NAMES,
    "additionalProperties": _SOME_JOB,
}
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
                    "propertyNames": _NAMES,
                    "additionalProperties": {
                        "type": "integer",
                        "minimum": 0,
                        "maximum": _MOST_GPUS,
                    },
                },
                "GPUs by accelerator, of the types that change; a type that is not named stays",
                needed=True,
            ),
            "new_types": Field(
                {"type": "boolean"},
                "true: there may be types among them that were not there before; without it they "
                "are refused, as misspelt",
            ),
        },
    ),
    "decide": (
        "Who has what from now on?",
        {
            "jobs": Field(
                _SOME_JOBS, "tell of these only, and of all whose devices are others than before"
            ),
            "devices": Field(
                {"type": "boolean"},
                "true: numbers of devices in place of shares; schedulers give devices anyway",
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
        raise InputError(f"A message is a JSON object with 'op', not {shown(given)}.")
    op = given.get("op")
    if not isinstance(op, str):
        raise InputError(f"A message needs an 'op'. Valid: {', '.join(MESSAGES)}.")
    if op not in MESSAGES:
        raise unknown_name("op", op, MESSAGES)
    fields = {**_EVERY, **MESSAGES[op][1]}
    for name, value in given.items():
        if name not in fields:
            raise unknown_name(f"field of {op!r}", name, fields)
        check_value(f"{op}.{name}", value, fields[name].schema)
    for name, field in fields.items():
        if field.needed and name not in given:
            raise InputError(f"{op!r} needs {name!r}: {field.text}.")
    own = {name: given[name] for name in MESSAGES[op][1] if name in given}
    return ServiceMessage(op, given.get("id"), given.get("at_s"), own)


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
