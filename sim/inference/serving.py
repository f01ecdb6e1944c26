"""Requests beside training, as one value: what is asked, on which GPUs, and who gives way."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from apportion.checks import choice, number, seconds, whole, yes_no
from apportion.errors import InputError
from apportion.mechanism.configurations.reclaims import RECLAIMS
from apportion.mechanism.inference.settings import ProtectTimes, cold_starts
from apportion.mechanisms.setting_names import value_in_brackets
from apportion.sim.inference.read import requests_given

if TYPE_CHECKING:
    from collections.abc import Mapping

POOLED = "pooled"
"""All GPUs serve requests and train."""


@dataclass(frozen=True, eq=False, repr=False)
class Serving:
    """Requests that are served beside elastic training; goes into `apportion.Configurations`.

    Parameters
    ----------
    requests
        Columns ``arrival_s``, ``service``, ``duration_s`` and perhaps ``slo_s``, as
        `apportion.sim.inference.generate_requests` makes them, or a csv file with them.
    gpus
        ``"pooled"``: all GPUs serve and train (DeepBoot). A number: so many GPUs, the last ones of
        the cluster, serve requests, and training may have those of them that are idle; the others
        train only (Lyra).
    cold_start_s
        Seconds until a service is loaded on a GPU: one number for all, or by service or model, such
        as `apportion.mechanism.inference.DEEPBOOT_COLD_STARTS`.
    protect
        How long a GPU is kept for the service that it has just run, or how many times as long as
        DeepBoot keeps it.
    reclaim
        Which GPU training gives back: ``"least_loss"``, the one whose loss changes the sum of
        speed-ups for the best (DeepBoot); ``"random"``; ``"whole_server"``, all of the machine
        that has the fewest GPUs in training (Lyra).
    lending
        Whether training may have idle GPUs that serve requests; without, the clusters are separate.
    yield_seconds
        How long training takes to leave a GPU that is called back; by default as long as the job
        pauses for it.

    Raises
    ------
    InputError
        For a table that `apportion.sim.inference.checked_requests` refuses, or that has no
        durations, a service whose cold start is not known, and settings out of range.
    """

    requests: Any
    gpus: int | str = POOLED
    cold_start_s: float | Mapping[str, float] = 6.0
    protect: ProtectTimes | float = field(default_factory=ProtectTimes)
    reclaim: str = "least_loss"
    lending: bool = True
    yield_seconds: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "requests", _read(self.requests))
        yes_no("lending", self.lending)
        if self.gpus != POOLED:
            if isinstance(self.gpus, str):
                choice("gpus", self.gpus, (POOLED,))
            whole("gpus that serve requests", self.gpus, 1)
        elif not self.lending:
            raise InputError(
                "lending=False keeps apart GPUs that serve from those that train; say how many "
                "serve: gpus=8."
            )
        if not isinstance(self.protect, ProtectTimes):
            number("protect", self.protect)
        object.__setattr__(self, "cold_start_s", self.cold_starts)
        choice("reclaim", self.reclaim, RECLAIMS)
        if self.yield_seconds is not None:
            seconds("yield_seconds", self.yield_seconds)

    @property
    def cold_starts(self) -> dict[str, float]:
        """Seconds of the cold start of each service, in the order of their names."""
        return cold_starts(sorted(self.requests["service"].unique()), self.cold_start_s)

    @property
    def protect_times(self) -> ProtectTimes:
        """How long a GPU is kept."""
        if isinstance(self.protect, ProtectTimes):
            return self.protect
        return ProtectTimes().times(self.protect)

    @classmethod
    def of(cls, value: Any) -> Serving:
        """Return a value for one, or for a table of requests or its file alone.

        A file may have settings in brackets: ``"requests.csv(gpus=8)"``.
        """
        if isinstance(value, str):
            return cast("Serving", value_in_brackets(cls, "serving", value))
        return value if isinstance(value, Serving) else cls(value)

    def __repr__(self) -> str:
        digest = hashlib.sha256(
            pd.util.hash_pandas_object(self.requests, index=True).to_numpy().tobytes()
        )
        own = [f"{len(self.requests)} requests {digest.hexdigest()[:12]}"]
        own += [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self)[1:]]
        return f"Serving({', '.join(own)})"


def _read(given: Any) -> pd.DataFrame:
    requests = requests_given(given)
    if "duration_s" not in requests:
        raise InputError(
            "The requests have no column 'duration_s'; turn their tokens into seconds first."
        )
    if not len(requests):
        raise InputError("There are no requests; leave the setting out.")
    return requests
