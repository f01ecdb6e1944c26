"""Settings in brackets behind a name or a file: ``leases(lease_seconds=1800, timers=tuned)``."""

from __future__ import annotations

import math
import re
from inspect import signature
from pathlib import Path
from typing import Any

from apportion.checks import read_number
from apportion.errors import InputError, unknown_name

_SETTING = re.compile(r"""\s*([a-z_]+)\s*=\s*('[^']*'|"[^"]*"|[^,'"]*?)\s*(?:,|$)""")
_WITH_SETTINGS = re.compile(r"(?s)(.*?)\((.*)\)\s*")
_LAST_BRACKETS = re.compile(r"""(?s)(.*)\(((?:[^()'"]|'[^']*'|"[^"]*"|\([^()]*\))*)\)\s*""")
"""The settings are what the last brackets hold: a name before them may have brackets of its own."""


def name_and_settings(text: str) -> tuple[str, str] | None:
    """Return what stands before the brackets and in them; None if it ends with none."""
    found = _LAST_BRACKETS.fullmatch(text) or _WITH_SETTINGS.fullmatch(text)
    return None if found is None else (found[1].strip(), found[2])


def listed_settings(what: str, whole: str, text: str) -> list[tuple[str, str]]:
    """Return names and values out of ``NAME=VALUE, ...``, values without their quotes.

    Parameters
    ----------
    what, whole
        What they are of, and what was given in all, for messages.
    text
        What stood in brackets.

    Raises
    ------
    InputError
        With the place from which it cannot be read.
    """
    found, place = [], 0
    while text[place:].strip():
        each = _SETTING.match(text, place)
        if each is None:
            raise InputError(
                f"{what} {whole!r} cannot be read from {text[place:].strip()!r} on; settings are "
                f"written NAME=VALUE with commas between them, values with commas in quotes."
            )
        found.append((each[1], each[2].strip("'\"")))
        place = each.end()
    return found


def value_in_brackets(kind: Any, what: str, given: str) -> Any:
    """Make ``kind(FILE, ...)`` of a file, or of one with settings in brackets.

    Raises
    ------
    InputError
        For a setting that it has not, with the nearest.
    """
    within = None if Path(given).exists() else name_and_settings(given)
    if within is None:
        return kind(given)
    valid = list(signature(kind).parameters)[1:]
    settings = listed_settings(what, given, within[1])
    for name, _ in settings:
        if name not in valid:
            raise unknown_name(f"setting of {what} in {given!r}", name, valid)
    return kind(within[0], **{name: value_of(word) for name, word in settings})


def value_of(word: str) -> Any:
    """Return what a word says: yes and no, a number, ``a=6,b=8`` by name, else the text itself."""
    if word in ("yes", "no"):
        return word == "yes"
    if "=" in word and "(" not in word:
        parts = [part.partition("=") for part in word.split(",")]
        return {name.strip(): value_of(value.strip()) for name, _, value in parts}
    number = read_number(word)
    if math.isnan(number):
        return word
    return int(number) if number.is_integer() else number
