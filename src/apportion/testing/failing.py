"""How it is said that a part does not keep its contract: which one, on what input, and where."""

from __future__ import annotations

from typing import Any, NoReturn

from apportion.own_code import place_of, written_in


def called(part: Any) -> str:
    """Return what messages call a part: its class, and what it is made of where that is told."""
    if isinstance(part, type):
        return part.__qualname__
    kind = type(part)
    tells = any("__repr__" in vars(each) for each in kind.__mro__[:-1])
    return repr(part) if tells else f"{kind.__qualname__}()"


def fail(
    part: Any,
    broken: str,
    numbers: str,
    *,
    text: str | None = None,
    error: BaseException | None = None,
) -> NoReturn:
    """Raise for a part that breaks its contract.

    Parameters
    ----------
    part
        What is checked.
    broken
        What it is not.
    numbers
        By which that shows.
    text
        The input on which it shows, as code.
    error
        What it raises there.

    Raises
    ------
    AssertionError
        Always. It says where the error comes from in code of one's own, or where the part stands.
    """
    lines = [f"{called(part)} is not {broken}: {numbers.rstrip('.')}."]
    lines += [] if text is None else [f"Input: {text}."]
    raised, written = None if error is None else place_of(error), written_in(part)
    if raised is not None:
        lines.append(f"Raised in {raised}.")
    elif written is not None:
        lines.append(f"Written in {written}.")
    raise AssertionError("\n".join(lines)) from error
