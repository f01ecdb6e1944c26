"""Messages as JSON, a line each, and an answer a line each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from apportion.service.messages import FORMAT

if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

    from apportion.service.service import DecisionService

__all__ = ["LONGEST_LINE", "answer_lines", "parsed"]

LONGEST_LINE = 8 * 2**20
"""Bytes of a message at most."""


def answer_lines(service: DecisionService, told: BinaryIO, answers: TextIO) -> None:
    """Answer every line until there are no more; blank ones are passed over.

    An answer says which line it is to (``line``, from 1), and stands in the same order.
    """
    number = 0
    while line := told.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            while line and not line.endswith(b"\n"):
                line = told.readline(LONGEST_LINE)
            answer = _refused(f"It is longer than {LONGEST_LINE} bytes.")
        elif not line.strip():
            continue
        else:
            answer = answer_to(service, line)
        answers.write(json.dumps({**answer, "line": number}) + "\n")
        answers.flush()


def answer_to(service: DecisionService, text: bytes) -> dict[str, Any]:
    """Answer one message in text."""
    try:
        given = parsed(text)
    except ValueError as error:
        return _refused(f"It is no JSON: {error}.")
    return service.answer(given)


def parsed(text: bytes) -> Any:
    """Read JSON as the standard has it: no NaN, no infinity, no name twice in an object.

    Raises
    ------
    ValueError
        If it is none.
    """
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError as error:
        raise ValueError("too many brackets inside one another") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _refused(error: str) -> dict[str, Any]:
    return {"v": FORMAT, "ok": False, "id": None, "error": error}
