"""Delay timers as settings name them; `apportion.mechanism.leases.timers` makes them."""

from __future__ import annotations

from typing import Any

from apportion.checks import choice, read_number
from apportion.checks import seconds as check_seconds
from apportion.errors import InputError, written

TIMERS = ("none", "manual", "tuned")
"""Delay timers that have a name."""


def check_timers(timers: Any) -> None:
    """Refuse what are no delay timers.

    Raises
    ------
    InputError
        It tells what would be valid.
    """
    if isinstance(timers, str):
        if "," in timers:
            timer_seconds(timers)
        else:
            choice("timers", timers, TIMERS)
    elif not hasattr(timers, "timer_s"):
        raise InputError(
            f"timers is {written(timers)}; it must be {', '.join(TIMERS)}, two numbers of seconds "
            f"such as '3600,7200', or a value such as ManualTimers(machine_s=3600)."
        )


def timer_seconds(text: str) -> tuple[float, float]:
    """Read the machine and the rack timer, ``"3600,7200"``, seconds.

    Raises
    ------
    InputError
        If these are not two numbers that are 0 or more.
    """
    parts = [read_number(part.strip()) for part in text.split(",")]
    if len(parts) != 2:
        raise InputError(
            f"timers={written(text)} has {len(parts)} numbers; valid: two, the seconds for which "
            f"jobs hold out for a machine and for a rack, such as '3600,7200'."
        )
    machine_s, rack_s = parts
    for name, value in (("machine", machine_s), ("rack", rack_s)):
        check_seconds(f"the {name} timer of timers={written(text)}", value, infinite=True)
    return machine_s, rack_s
