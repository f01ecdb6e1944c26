"""The errors that apportion raises, and the help it gives with a misspelt name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Messages stay readable whatever they are about: an id of a megabyte, one of 100,000 jobs.
_MOST_BITS, _MOST_LETTERS, _MOST_NAMES, _MOST_COMPARED = 1024, 200, 100, 10_000

_SHORT = 5
"""Letters of a name so short that one that begins with another letter is another name."""


_INSTEAD = {"verbose": " What happens is logged: logging.basicConfig(level='INFO') shows it."}
"""What to do in place of names that other libraries have."""


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
    """Write a label or a number as a user would: numpy's scalars like Python's, on one line."""
    scalar = getattr(value, "item", None) if getattr(value, "ndim", None) == 0 else None
    plain = value if scalar is None else scalar()
    if isinstance(plain, int) and plain.bit_length() > _MOST_BITS:
        return f"a number of {plain.bit_length()} bits"
    try:
        text = " ".join(repr(plain).split())
    except (TypeError, ValueError):  # tables of things that no table can hold
        text = f"a {type(plain).__name__}"
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."


def _may_mean(given: str, known: str) -> bool:
    """Tell whether one name can be a slip for another: ``a100`` is none for ``v100``."""
    known = known.strip("'\"")
    return min(len(given), len(known)) > _SHORT or given[:1].lower() == known[:1].lower()


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
    known = {str(candidate): candidate for candidate in valid}
    names = list(known)
    near = written(name).strip("'\"") if not isinstance(name, str) else name[:_MOST_LETTERS]
    close = difflib.get_close_matches(near, names[:_MOST_COMPARED], n=1, cutoff=0.5)
    meant = written(known[close[0]]) if close else written(name)
    hint = f" Did you mean {meant}?" if meant != written(name) and _may_mean(near, close[0]) else ""
    hint = _INSTEAD.get(name, hint) if isinstance(name, str) else hint
    more = f", ... ({len(names)} in all)" if len(names) > _MOST_NAMES else ""
    listed = shown or ", ".join(names[:_MOST_NAMES]) + more
    return InputError(f"Unknown {kind} {written(name)}.{hint} Valid: {listed}.")
