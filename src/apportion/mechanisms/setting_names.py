"""The settings of a simulation by name: as type checkers see them, and in brackets.

What each one is for is described where it belongs: in the fields of the mechanism that heeds it
(`apportion.mechanisms`) and in `apportion.sim.settings.settings_for`. A test holds the names to
them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from apportion.checks import as_word, read_number
from apportion.errors import InputError, unknown_name

if TYPE_CHECKING:
    from apportion.mechanisms import Mechanism


StartCosts = float | str | Mapping[str, float]
"""Seconds of every job, by job type, or ``"measured"``."""

ByType = float | Mapping[str, float]
"""Seconds of every job, or by job type."""


class SimulationSettings(TypedDict, total=False):
    """Settings of the mechanism, and of what policies are told of speeds."""

    # Of several mechanisms.
    resolve_seconds: float | None
    resolve_every: float | None
    preemption_overhead_seconds: StartCosts | None
    placement: Any
    network: Any
    topology: Any
    # Rounds.
    round_seconds: float | None
    placement_sensitive: bool | None
    carry_over: bool | None
    leases: bool | None
    tiers: bool | None
    # Leases.
    lease_seconds: float | None
    checkpoint_seconds_per_gpu: ByType | None
    timers: Any
    # Iterations on shared links.
    order: Any
    gate: Any
    exclusive: bool | None
    gpu_memory_gb: float | None
    s_per_byte: float | None
    penalty_s_per_byte: float | None
    startup_s: float | None
    counted_over: str | None
    rack_links: bool | None
    sharing: Any
    turns_count_transfers: bool | None
    loads_count_transfers: bool | None
    loads_times_gpus: bool | None
    loads_s_per_byte: float | None
    all_reduce: str | None
    add_s_per_byte: float | None
    overlap: bool | None
    timeline: bool | None
    # Configurations of elastic jobs.
    interval_seconds: float | None
    gang_restart: str | None
    restart_seconds: ByType | None
    rescale_seconds: ByType | None
    growth: float | None
    gang_sizes: str | None
    goodputs: str | None
    keep_paused: bool | None
    reallocation_seconds: ByType | None
    restart_stages: Any
    serving: Any
    # What policies are told of speeds.
    speeds: Literal["told", "estimated", "agnostic"] | None
    references: int | None
    optimism: float | None
    rows: Literal["job", "type"] | None


class ComparisonSettings(SimulationSettings, total=False):
    """Those that `apportion.compare` has not among its own parameters."""

    learn_pairs: bool | None
    record_prices: bool | None


class SweepSettings(ComparisonSettings, total=False):
    """Those of `apportion.simulate` that are the same for every run of a sweep."""

    mechanism: Mechanism | str | None


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


def in_brackets(name: str, settings: Mapping[str, object]) -> str:
    """Write a value of an option with its settings, as ``leases(lease_seconds=1800)``."""
    told = [(key, as_word(value)) for key, value in settings.items() if value is not None]
    inner = ", ".join(f"{key}={_quoted(word)}" for key, word in told)
    return f"{name}({inner})" if inner else name


def _quoted(word: str) -> str:
    """Put a word in quotes where commas or quotes in it would be taken for ends."""
    mark = '"' if "'" in word else "'"
    return f"{mark}{word}{mark}" if any(each in word for each in ",'\"()") else word


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
