"""Messages as JSON, a line each, and an answer a line each."""

from __future__ import annotations

import json
import queue
import threading
from typing import TYPE_CHECKING, Any

from apportion.service.messages import refusal

if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

    from apportion.service.service import DecisionService

LONGEST_LINE = 8 * 2**20
"""Bytes of a message at most."""
_MOST_AT_ONCE = 256
"""Lines that are answered together at most."""


def answer_lines(service: DecisionService, told: BinaryIO, answers: TextIO) -> None:
    """Answer every line until there are no more; blank ones are passed over.

    An answer says which line it is to (``line``, from 1), and stands in the same order. Lines that
    come while others are answered are answered together, by one write to the disk.
    """
    waiting: queue.Queue[tuple[int, bytes] | None] = queue.Queue(_MOST_AT_ONCE)
    reader = threading.Thread(target=_read, args=(told, waiting), daemon=True)
    reader.start()
    more = True
    while more:
        lines = [waiting.get()]
        while len(lines) < _MOST_AT_ONCE and lines[-1] is not None and not waiting.empty():
            lines.append(waiting.get())
        there = [line for line in lines if line is not None]
        more = len(there) == len(lines)
        found = answers_to(service, [text for _, text in there])
        for (number, _), answer in zip(there, found, strict=True):
            answers.write(json.dumps({**answer, "line": number}) + "\n")
        answers.flush()


def _read(told: BinaryIO, waiting: queue.Queue[tuple[int, bytes] | None]) -> None:
    """Put lines by number where they wait, and at last nothing."""
    number = 0
    while line := told.readline(LONGEST_LINE + 1):
        number += 1
        rest = line
        while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
            rest = told.readline(LONGEST_LINE + 1)
        if line.strip() or rest is not line:
            waiting.put((number, line))
    waiting.put(None)


def answers_to(service: DecisionService, texts: list[bytes]) -> list[dict[str, Any]]:
    """Answer messages in text."""
    given: list[Any] = []
    wrong: dict[int, dict[str, Any]] = {}
    for place, text in enumerate(texts):
        try:
            given.append(parsed(text))
        except ValueError as error:
            wrong[place] = refusal(None, f"No JSON: {error}.")
    right = iter(service.answer_all(given))
    return [wrong[place] if place in wrong else next(right) for place in range(len(texts))]


def parsed(text: bytes) -> Any:
    """Read JSON as the standard has it: no NaN, no infinity, no name twice in an object.

    Raises
    ------
    ValueError
        If it is none, or too long.
    """
    if len(text) > LONGEST_LINE:
        raise ValueError(f"it is longer than {LONGEST_LINE} bytes")
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
