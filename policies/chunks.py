"""Many rows, a few at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 4096
"""Rows at a time that stay in the processor's cache."""


def chunks(rows: int) -> Iterator[slice]:
    """Return pieces of so many rows, in their order."""
    return (slice(start, min(start + CHUNK, rows)) for start in range(0, rows, CHUNK))
