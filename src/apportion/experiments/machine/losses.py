"""The workers of a back end: how many there are, and what it means when they are gone."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from apportion.errors import ApportionError
from apportion.experiments.machine.workers import lost, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


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
    gone
        Set by whoever has interrupted the main thread because the cluster is gone.
    """

    at_once: int | None
    engine: str = ""
    losses: tuple[type[BaseException], ...] = ()
    gone: threading.Event = field(default_factory=threading.Event)

    def or_lost(self, results: Iterable[Any]) -> Iterator[Any]:
        """Yield results, and turn the loss of workers into one line that says how to go on.

        Raises
        ------
        ApportionError
            If workers are lost.
        """
        try:
            yield from results
        except KeyboardInterrupt as error:
            if not self.gone.is_set():
                raise
            raise lost(f"The connection to the {self.engine} cluster is lost") from error
        except self.losses as error:
            raise lost(
                f"The {self.engine} cluster lost a worker, a node or the connection "
                f"({type(error).__name__}: {one_line(str(error))})"
            ) from error


def try_in_a_process(code: str, address: str, seconds: float) -> None:
    """Try to connect to a cluster, in a process of its own that can be ended.

    Engines try for minutes where something else listens, and may take Python with them.

    Parameters
    ----------
    code
        What connects; the address is its first argument.
    address
        Of the cluster.
    seconds
        How long to wait.

    Raises
    ------
    ApportionError
        If it fails, with its last word, or takes too long.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", code, address],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ApportionError(f"{address!r} has not answered in {seconds:.0f} s") from error
    if done.returncode != 0:
        raise ApportionError(f"{address!r} does not let us in: {one_line(done.stderr)}")
