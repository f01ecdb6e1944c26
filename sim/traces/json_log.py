"""Logs in JSON: a list of items, each told by its number, as lines of other logs are."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.errors import InputError, written
from apportion.sim.traces.log import Log
from apportion.sim.traces.table import TraceTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.sim.traces.text import TextFile


def items_of(file: TextFile, key: str | None = None) -> list[Any]:
    """Return the list that a file holds, or that stands under a key of the object that it holds.

    Raises
    ------
    InputError
        For a file that is no JSON, naming the line, and for one without items.
    """
    try:
        content = json.loads(file.body.decode("utf-8"))
    except json.JSONDecodeError as error:
        line = error.lineno + file.first_line - 1
        raise InputError(f"{file.path}, line {line}: no JSON from here on: {error.msg}.") from error
    except (ValueError, RecursionError) as error:  # no UTF-8, endless digits, endless brackets
        reason = str(error).partition("\n")[0]
        raise InputError(f"{file.path} cannot be read as JSON: {reason}.") from error
    if key is not None:
        content = content.get(key) if isinstance(content, dict) else None
    if not isinstance(content, list) or not content:
        where = "" if key is None else f" under {key!r}"
        raise InputError(f"{file.path} holds no list of items{where}; it must be one of objects.")
    return content


def read_items(
    file: TextFile,
    items: Sequence[Any],
    columns: Sequence[str],
    cells_of: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> Log:
    """Make a log of items, numbered from 1; those that are not what they should be are left out.

    Parameters
    ----------
    file
        Where they come from.
    items
        Values of JSON; each should be an object.
    columns
        Of the table.
    cells_of
        Turns an object into cells by column; what is left out or None is blank. What raises
        `InputError` is left out, and told in its words.
    """
    rows: dict[int, dict[str, Any]] = {}
    refused: dict[int, str] = {}
    for number, item in enumerate(items, start=1):
        try:
            if not isinstance(item, dict):
                raise InputError(f"it is {written(item)}; it must be an object.")
            rows[number] = {name: _cell(each) for name, each in cells_of(item).items()}
        except InputError as error:
            refused[number] = str(error)
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=[*columns], dtype=object)
    return Log(TraceTable(file, frame, refused), "item")


def objects_of(parent: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects that are listed under a key of an item; none where there is no such key.

    Raises
    ------
    InputError
        For anything else.
    """
    found = parent.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InputError(f"{key} is {written(found)}; it must be a list of objects.")
    return found


def _cell(value: Any) -> Any:
    """Return a value as cells of other logs have it: a text, or NaN where it is blank."""
    if value is None or value == "":
        return math.nan
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode("utf-8")  # JSON may hold halves of characters
