"""What orders, rules, timers and schedulers have in common: a repr that shows what was chosen."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from apportion.annotations import check_fields


class Part:
    """A dataclass whose repr leaves out fields that have their default value."""

    def __post_init__(self) -> None:
        """Refuse options that are not of their kind; called by dataclasses."""
        if is_dataclass(self):
            check_fields(self)

    def __repr__(self) -> str:
        own: tuple[Any, ...] = fields(self) if is_dataclass(self) else ()
        changed = [
            f"{part.name}={getattr(self, part.name)!r}"
            for part in own
            if part.repr and getattr(self, part.name) != _default(part)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def _default(part: Any) -> object:
    """Value that a field has unless another is given."""
    # Of a class that was pickled by value, as a notebook's, what says "none" is not MISSING.
    return part.default_factory() if callable(part.default_factory) else part.default
