"""The workers of a back end: how many there are, and what it means when they are gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apportion.comparison.workers import lost

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Workers", "first_line"]


@dataclass(frozen=True)
class Workers:
    """What a back end gives to a sweep.

    Parameters
    ----------
    at_once
        Runs at once; None for one per processor.
    engine
        Its name in messages.
    losses
        Errors that it raises when a node, a worker or the connection to them is lost.
    """

    at_once: int | None
    engine: str = ""
    losses: tuple[type[BaseException], ...] = ()

    def or_lost(self, results: Iterable[Any]) -> Iterator[Any]:
        """Yield results, and turn the loss of workers into one line that says how to go on.

        Raises
        ------
        ApportionError
            If workers are lost.
        """
        try:
            yield from results
        except self.losses as error:
            raise lost(
                f"The {self.engine} cluster lost a worker, a node or the connection "
                f"({type(error).__name__}: {first_line(error)})"
            ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of a message that may have many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or ["no message"])[0].rstrip(".")
