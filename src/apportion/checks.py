"""Values from outside, checked in one place: their kind, range, finiteness and size.

Every function takes what a user gave and the name of what it is for. It returns the value as the
type that the rest of the code expects, or raises `InputError` that says what would be valid.
Tables are checked by `apportion.table_checks`, kinds that follow from annotations by
`apportion.annotations`. Nothing here loads numpy, so that the command line can use it at once.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from apportion.errors import InputError, unknown_name, written

LARGEST_COUNT = 10**9
"""Most GPUs, jobs or parts of anything: sums and products of counts stay exact in 64 bits."""

LARGEST_NUMBER = 1e18
"""Largest steps, seconds and steps/s: sums and ratios of them stay finite."""
_LONGEST_FILE_NAME = 255  # bytes; of the file systems in use
LONGEST_LABEL = 1_000
"""Most characters of the name of a job, a type, a user."""

MOST_BYTES = 8 * 2**30
"""Most memory that a call takes on: more is a slip of the pen far more often than a wish."""

_LARGEST_WHOLE = 2**63 - 1


def is_truth(value: object) -> bool:
    """Tell whether a value is True or False, of Python or of numpy."""
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")


def is_whole(value: object) -> bool:
    """Tell whether a value is an integer of 64 bits, and no truth value."""
    integer = isinstance(value, numbers.Integral) and is_number(value)
    return integer and abs(int(value)) <= _LARGEST_WHOLE  # type: ignore[call-overload]


def is_number(value: object) -> bool:
    """Tell whether a value is a real number, infinity included: no NaN, truth value or text."""
    return not math.isnan(as_float(value))


def whole(
    name: str, value: Any, least: int = 0, most: int = LARGEST_COUNT, *, integral: bool = False
) -> int:
    """Return a whole number in a range.

    Parameters
    ----------
    name
        What it is for.
    value
        Any integer; with `integral` also a float without a fraction, such as ``8.0``.
    least, most
        The range.
    """
    given = value
    if integral and is_number(value) and as_float(value).is_integer():
        given = int(value)
    if not is_whole(given) or not least <= given <= most:
        words = f"a whole number >= {least}" + at_most(as_float(value), most)
        raise InputError(f"{name} is {written(value)}; it must be {words}.")
    return int(given)


def at_most(value: float, most: float) -> str:
    """Return the upper end of a range in words, for a value above it; nothing for others."""
    return f" and <= {most:,}" if value > most else ""


def number(
    name: str,
    value: Any,
    *,
    least: float = 0.0,
    most: float = LARGEST_NUMBER,
    strict: bool = False,
    infinite: bool = False,
    words: str = "a number",
) -> float:
    """Return a real number in a range.

    Parameters
    ----------
    name
        What it is for.
    value
        Any real number.
    least, most, strict
        The range; `least` itself is refused if `strict`.
    infinite
        Whether infinity is valid too.
    words
        What it is, for the error, e.g. ``"a number of seconds"``.
    """
    real = as_float(value)
    inside = real > least if strict else real >= least
    endless = infinite and isinstance(value, float) and real == math.inf
    if not (inside and (real <= most or endless)):
        limit = f" {'>' if strict else '>='} {least:g}" if math.isfinite(least) else ""
        limit += at_most(real, most)
        raise InputError(f"{name} is {written(value)}; it must be {words}{limit}.")
    return real


def seconds(name: str, value: Any, *, strict: bool = False, infinite: bool = False) -> float:
    """Return a length of time in seconds, >= 0, or > 0 if `strict`."""
    words = "a number of seconds"
    return number(name, value, strict=strict, infinite=infinite, words=words)


def check_memory(what: str, count: float, bytes_each: float) -> None:
    """Refuse what would need more than `MOST_BYTES`, before any of it is made.

    Parameters
    ----------
    what
        What there would be so many of, e.g. ``"jobs"``.
    count, bytes_each
        How many, and about what each takes.
    """
    needed = count * bytes_each
    if needed > MOST_BYTES:
        raise InputError(
            f"{count:,.4g} {what} would take about {needed / 2**30:,.0f} GiB of memory; at most "
            f"{MOST_BYTES / bytes_each:,.4g} fit into the {MOST_BYTES / 2**30:g} GiB that a call "
            f"may take."
        )


def seed(value: Any, name: str = "seed") -> int:
    """Return the seed of random numbers."""
    return whole(name, value, 0, _LARGEST_WHOLE)


def as_word(value: object) -> str:
    """Write a value as the command line and its files take it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(as_word, value))
    if isinstance(value, Mapping):
        return ",".join(f"{name}={as_word(each)}" for name, each in value.items())
    # Every digit of a float, but 360 and not 360.0.
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def yes_no(name: str, value: Any) -> bool:
    """Return a truth value; texts such as ``"no"`` and numbers are refused."""
    if not is_truth(value):
        raise InputError(f"{name} is {written(value)}; it must be True or False.")
    return bool(value)


def choice(kind: str, value: Any, valid: Collection[str]) -> str:
    """Return one of the valid names, or name the nearest of them.

    A registry is asked itself whether a name is valid: it knows those of installed packages.
    """
    if not isinstance(value, str) or value not in valid:
        raise unknown_name(kind, value, valid)
    return value


def label(what: str, value: Any) -> str:
    """Return the name of a thing as text: something to read, and not all too long."""
    if value is None or (isinstance(value, (bytes, float)) and value != value):
        raise InputError(f"A {what} is {written(value)}; it must be a text.")
    text = str(value)
    if not text.strip() or len(text) > LONGEST_LABEL:
        raise InputError(
            f"A {what} is {written(text)}; it must be a text of 1 to {LONGEST_LABEL} characters."
        )
    return text


def file_path(name: str, value: Any) -> Path:
    """Return the path of a file or folder."""
    if not isinstance(value, (str, os.PathLike)) or isinstance(os.fspath(value), bytes):
        raise InputError(f"{name} is {written(value)}; it must be the path of a file or folder.")
    text = os.fspath(value)
    if not text.strip() or "\0" in text:
        raise InputError(f"{name} is {text!r}; it must be the path of a file or folder.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name} is {text!r}, which is not text in UTF-8.") from error
    if any(len(os.fsencode(part)) > _LONGEST_FILE_NAME for part in Path(text).parts):
        raise InputError(
            f"{name} is {written(value)}; names of files have up to {_LONGEST_FILE_NAME} bytes."
        )
    return Path(text)


def listed(name: str, value: Any, valid: str = "a list") -> list[Any]:
    """Return several values as a list; a text is one value, not several letters."""
    one = isinstance(value, (str, bytes, bytearray, Mapping)) or getattr(value, "ndim", 1) == 0
    if one or not isinstance(value, Iterable):
        raise InputError(f"{name} is {written(value)}; it must be {valid}.")
    return list(value)


def hashable(what: str, value: Any) -> list[Any]:
    """Return several labels as a list."""
    labels = listed(what, value)
    for each in labels:
        try:
            hash(each)
        except TypeError as error:
            raise InputError(f"{written(each)} cannot be a {what}.") from error
    return labels


def mapping(name: str, value: Any, valid: str = "a mapping") -> dict[Any, Any]:
    """Return a mapping, or a Series, as a dict."""
    series = getattr(value, "ndim", 0) == 1 and hasattr(value, "to_dict")
    if not (isinstance(value, Mapping) or series):
        raise InputError(f"{name} is {written(value)}; it must be {valid}.")
    return dict(value)


def read_number(text: str) -> float:
    """Read a real number; NaN where a text is none."""
    try:
        return float(text) if "_" not in text else math.nan
    except ValueError:
        return math.nan


def read_whole(text: str, least: int = 0, most: int = LARGEST_COUNT) -> int:
    """Read a whole number in a range, written in digits.

    Raises
    ------
    ValueError
        If it is none; the text says what would be valid.
    """
    digits = text.strip()
    valid = digits.isascii() and digits.isdecimal()
    value = int(digits[:20]) if valid else -1  # 20 digits are too large already
    if not least <= value <= most:
        words = f"a whole number >= {least}" + at_most(value, most)
        raise ValueError(f"{written(text)} must be {words}")
    return value


def as_float(value: Any) -> float:
    """Return a real number as a float, infinite where it is too large; NaN for all else."""
    plain = isinstance(value, (int, float)) or type(value).__module__ == "numpy"
    if not (plain and isinstance(value, numbers.Real)) or is_truth(value):
        return math.nan
    try:
        return float(value)
    except TypeError:  # lengths of time of numpy pass for integers
        return math.nan
    except OverflowError:
        return -math.inf if value < 0 else math.inf
