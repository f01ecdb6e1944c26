"""A model as it is served: GPUs of a replica, and seconds by batch, or of prefill and decode."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import label, number, whole
from apportion.errors import InputError, unknown_name, written
from apportion.own_code import asked
from apportion.sim.inference.read import seconds_of_table

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from apportion.cluster import Cluster

PHASES = {
    "request": "a batch of requests that are answered at once, size: requests",
    "prefill": "the prompts of a language model, size: tokens of all that join together",
    "decode": "one token for each request of a batch, size: requests",
}
"""Kinds of iterations in a table of a `ServedModel`."""

_MOST_BATCH = 65_536

BatchSeconds = Mapping[str, Mapping[int, float]] | Callable[[str, int], float] | None
"""Seconds by type and size, or a callable ``(accelerator, size) -> seconds``."""


@dataclass(frozen=True, eq=False)
class ServedModel:
    """How replicas of a model serve requests.

    Without seconds a request takes its own ``duration_s`` on any type, alone.

    Parameters
    ----------
    gpus
        GPUs of a replica, all on one machine: of all types, or by type.
    request
        Seconds that a batch of requests takes, by type and size of the batch:
        ``{"a100": {1: 0.02, 8: 0.05}}``. They begin and end together.
    prefill, decode
        Of a language model, both or neither, in place of `request`: seconds for the prompts that
        join a batch, by type and tokens, and seconds of a step that gives each request one token,
        by type and size of the batch. Prompts may join after every step.
    batch
        Most requests at a time; by default the largest batch of the table, which a callable needs.
    cache_tokens
        Of a language model, the most tokens that a replica holds at a time, of all types or by
        type: the memory for keys and values over the bytes of a token. A request takes its context
        and all that it will be given as long as it is served. By default memory is no limit.

    Notes
    -----
    Between the sizes of a table seconds are interpolated linearly. A batch below the smallest takes
    as long as that, a larger one than the largest is not made. Tokens beyond the largest number go
    on with the slope of the last two; a single number of tokens stands for a proportion.

    Raises
    ------
    InputError
        For sizes and seconds that are none, fewer seconds for a larger size, types that only one
        phase knows, and phases that do not go together.
    """

    gpus: int | Mapping[str, int] = 1
    request: BatchSeconds = None
    prefill: BatchSeconds = None
    decode: BatchSeconds = None
    batch: int | None = None
    cache_tokens: int | Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        if self.request is not None and (self.prefill is not None or self.decode is not None):
            raise InputError(
                "A model has either seconds of a request, or of prefill and decode; leave one out."
            )
        if (self.prefill is None) != (self.decode is None):
            missing = "decode" if self.decode is None else "prefill"
            raise InputError(
                f"A language model needs seconds of prefill and decode; add {missing}."
            )
        for phase in PHASES:
            told = getattr(self, phase)
            if isinstance(told, Mapping):
                object.__setattr__(self, phase, _checked(phase, told))
            elif told is not None and not callable(told):
                raise InputError(
                    f"The seconds of {phase} are {written(told)}; they must be by type and size, "
                    f"{{'a100': {{1: 0.02}}}}, or a callable (accelerator, size) -> seconds."
                )
        tables = [table for table in (self.request, self.prefill, self.decode) if table is not None]
        known = [set(table) for table in tables if isinstance(table, Mapping)]
        if any(each != known[0] for each in known):
            raise InputError(
                f"prefill knows {', '.join(sorted(known[0]))}, decode "
                f"{', '.join(sorted(known[1]))}; both need the same types."
            )
        self._check_gpus()
        batched = self.request if self.request is not None else self.decode
        if self.batch is not None:
            whole("batch", self.batch, 1, _MOST_BATCH)
        elif batched is not None and not isinstance(batched, Mapping):
            raise InputError("Seconds of a callable need batch=, the most requests at a time.")

    def _check_gpus(self) -> None:
        told = {"gpus of a replica": self.gpus, "cache_tokens of a replica": self.cache_tokens}
        for what, given in told.items():
            for name, count in given.items() if isinstance(given, Mapping) else ():
                whole(f"{what} on {label('accelerator type', name)}", count, 1)
            if not isinstance(given, Mapping | None):
                whole(what, given, 1)
        if self.cache_tokens is not None and not self.by_tokens:
            raise InputError(
                "cache_tokens is of language models, which have seconds of prefill and decode; "
                "leave it out."
            )

    @classmethod
    def from_table(
        cls,
        table: pd.DataFrame | str | Path,
        *,
        gpus: int | Mapping[str, int] = 1,
        batch: int | None = None,
        cache_tokens: int | Mapping[str, int] | None = None,
    ) -> ServedModel:
        """Make a model of a table or csv.

        Parameters
        ----------
        table
            Columns phase (request, prefill or decode), size, and one of seconds for each type:
            the header is ``phase,size,a100,h100``. An empty cell: not measured.
        gpus, batch, cache_tokens
            As in `ServedModel`.

        Raises
        ------
        InputError
            For missing columns, and cells that are no numbers; it names column and line.
        """
        found = seconds_of_table(table, PHASES)
        seconds = {phase: found.get(phase) for phase in PHASES}
        return cls(gpus, **seconds, batch=batch, cache_tokens=cache_tokens)

    @property
    def by_tokens(self) -> bool:
        """Whether requests need tokens."""
        return self.prefill is not None

    def of_replica(self, accelerator: str) -> int:
        """Return the GPUs of a replica on a type.

        Raises
        ------
        InputError
            For a type that the model does not know.
        """
        table = self.request if self.request is not None else self.decode
        if isinstance(table, Mapping) and accelerator not in table:
            raise unknown_name("accelerator of the served model", accelerator, table)
        if not isinstance(self.gpus, Mapping):
            return int(self.gpus)
        if accelerator not in self.gpus:
            raise unknown_name("accelerator in gpus of a replica", accelerator, self.gpus)
        return int(self.gpus[accelerator])

    def cache_of(self, accelerator: str) -> float:
        """Return the most tokens of a replica on a type, infinite if memory is no limit.

        Raises
        ------
        InputError
            For a type that it is not told of.
        """
        if not isinstance(self.cache_tokens, Mapping):
            return math.inf if self.cache_tokens is None else float(self.cache_tokens)
        if accelerator not in self.cache_tokens:
            raise unknown_name("accelerator in cache_tokens", accelerator, self.cache_tokens)
        return float(self.cache_tokens[accelerator])

    def replicas(self, cluster: Cluster, accelerator: str) -> int:
        """Return how many replicas fit the machines of a type.

        Raises
        ------
        InputError
            If machines are smaller than a replica.
        """
        each, size = self.of_replica(accelerator), cluster.machine_size(accelerator)
        if each > size:
            raise InputError(
                f"A replica needs {each} GPUs of {accelerator} on one machine, and machines have "
                f"{size}; give larger machines (gpus_per_machine, --gpus-per-machine)."
            )
        full, rest = divmod(cluster.gpus[accelerator], size)
        return full * (size // each) + rest // each

    def batch_seconds(self, accelerator: str) -> list[float]:
        """Return seconds by size of the batch, from 1 on, of a request or a step."""
        told = self.request if self.request is not None else self.decode
        if told is None:
            return []
        if not isinstance(told, Mapping):
            sizes = np.arange(1, int(self.batch or 1) + 1)
            return [self._asked(told, f"{size} on", accelerator, int(size)) for size in sizes]
        table = told[accelerator]
        most = max(table) if self.batch is None else min(max(table), int(self.batch))
        known = sorted(table)
        seconds = np.interp(np.arange(1, most + 1), known, [table[size] for size in known])
        return [float(each) for each in seconds]

    def prefill_seconds(self, accelerator: str) -> Callable[[float], float]:
        """Return what tells the seconds of so many tokens of prompts."""
        told = self.prefill
        if told is None:
            raise InputError("Only language models have seconds of prefill.")
        if not isinstance(told, Mapping):
            return lambda tokens: self._asked(
                told, f"prefill of {tokens:g} tokens on", accelerator, int(tokens)
            )
        sizes = sorted(told[accelerator])
        seconds = [told[accelerator][size] for size in sizes]
        if len(sizes) == 1:
            return lambda tokens: max(tokens, 1.0) * seconds[0] / sizes[0]
        slope = (seconds[-1] - seconds[-2]) / (sizes[-1] - sizes[-2])
        last, most = seconds[-1], sizes[-1]

        def of(tokens: float) -> float:
            if tokens > most:
                return float(last + (tokens - most) * slope)
            return float(np.interp(tokens, sizes, seconds))

        return of

    @staticmethod
    def _asked(told: Callable[[str, int], float], what: str, accelerator: str, size: int) -> float:
        words = f"The seconds of {what} {accelerator}"
        return number(words, asked(words, told, accelerator, size), strict=True)


def _checked(phase: str, told: Mapping[Any, Any]) -> dict[str, dict[int, float]]:
    """Return seconds by type and size, checked."""
    found: dict[str, dict[int, float]] = {}
    for name, sizes in told.items():
        kind = label("accelerator type", name)
        if not isinstance(sizes, Mapping) or not sizes:
            raise InputError(
                f"The seconds of {phase} on {kind} are {written(sizes)}; they must be by size, "
                f"e.g. {{1: 0.02, 8: 0.05}}."
            )
        most = _MOST_BATCH if phase != "prefill" else 10**9
        found[kind] = {
            whole(f"A size of {phase} on {kind}", size, 1, most): number(
                f"The seconds of {phase} of size {written(size)} on {kind}", value, strict=True
            )
            for size, value in sizes.items()
        }
        for small, large in pairwise(sorted(found[kind])):
            if found[kind][large] < found[kind][small]:
                raise InputError(
                    f"{phase} of size {large} on {kind} takes {found[kind][large]:g} s, less than "
                    f"the {found[kind][small]:g} s of size {small}; more cannot take less."
                )
    if not found:
        raise InputError(f"The seconds of {phase} name no type, e.g. {{'a100': {{1: 0.02}}}}.")
    return found
