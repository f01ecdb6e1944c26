"""The errors that apportion raises, and the help it gives with a misspelt name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ApportionError",
    "InfeasibleError",
    "InputError",
    "SolveError",
    "unknown_name",
    "written",
]


class ApportionError(Exception):
    """Base of every error that apportion raises on purpose."""


class InputError(ApportionError, ValueError):
    """What the user gave cannot be used; the message names the thing and what would be valid.

    The command line turns it into one line on standard error and exit status 2.
    """


class SolveError(ApportionError, RuntimeError):
    """No solver found an optimal allocation; the message holds the status of each one tried."""


class InfeasibleError(SolveError):
    """No allocation meets every constraint of the policy; the message names the violated ones."""


def written(value: object) -> str:
    """Write a label or a number as a user would: numpy's scalars like Python's."""
    scalar = getattr(value, "item", None) if getattr(value, "ndim", None) == 0 else None
    return repr(value if scalar is None else scalar())


def unknown_name(
    kind: str, name: object, valid: Iterable[object], *, shown: str | None = None
) -> InputError:
    """Build the error for a name that is not among the valid ones, with the nearest of them.

    Parameters
    ----------
    kind
        What the name stands for, e.g. ``"policy"``.
    name
        The name as given.
    valid
        Every name that would have been accepted.
    shown
        What to print in place of all of them.
    """
    names = [str(candidate) for candidate in valid]
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return InputError(f"Unknown {kind} {written(name)}.{hint} Valid: {shown or ', '.join(names)}.")
