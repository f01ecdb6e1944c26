"""How long services take to load and stay loaded on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from apportion.checks import number, seconds
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

DEEPBOOT_COLD_STARTS: Mapping[str, float] = MappingProxyType(
    {"bert": 8.0, "cifar10": 6.0, "imagenet": 6.0, "yolov3": 6.0, "deepspeech2": 4.0, "ncf": 4.0}
)
"""Seconds until a service is loaded on a GPU, by model, as DeepBoot's simulator has them."""

PIPESWITCH_COLD_START_S = 0.01
"""Seconds until a service runs where contexts are made ahead and weights are sent while layers
compute, as in PipeSwitch (Bai et al., OSDI 2020): milliseconds, here ten."""


@dataclass(frozen=True)
class ProtectTimes:
    r"""How long a GPU is kept for the service that it has just run.

    .. math:: t_p(c) = \min(t_{first} + c \cdot t_{step},\ t_{most})

    after the c-th request in a row that came while it was kept (Chen et al., TPDS 2023). The
    defaults are those of DeepBoot.

    Parameters
    ----------
    first_s, step_s, most_s
        Seconds after the first request, for each further one, and at most.

    Raises
    ------
    InputError
        For what is no number of seconds, or a first time above the most.
    """

    first_s: float = 30.0
    step_s: float = 15.0
    most_s: float = 120.0

    def __post_init__(self) -> None:
        for name in ("first_s", "step_s", "most_s"):
            seconds(f"{name} of the protect times", getattr(self, name))
        if self.first_s > self.most_s:
            raise InputError(
                f"The first protect time, {self.first_s:g} s, is above the most, {self.most_s:g} s."
            )

    def after(self, count: int) -> float:
        """Seconds of protection after so many requests in a row."""
        return min(self.first_s + count * self.step_s, self.most_s)

    def times(self, factor: float) -> ProtectTimes:
        """Protect times that are all so many times as long."""
        number("The factor on protect times", factor)
        return ProtectTimes(self.first_s * factor, self.step_s * factor, self.most_s * factor)


def cold_starts(
    services: Iterable[str], known: Mapping[str, float] | float = DEEPBOOT_COLD_STARTS
) -> dict[str, float]:
    """Return the seconds that each service takes to load.

    Parameters
    ----------
    services
        Names; ``bert-2`` and ``bert`` both are of the model ``bert``.
    known
        Seconds by model, or one number for all, such as `PIPESWITCH_COLD_START_S`.

    Raises
    ------
    InputError
        For a service whose model is not among the known ones.
    """
    if not isinstance(known, Mapping):
        every = seconds("A cold start", known)
        return dict.fromkeys(services, every)
    found = {}
    for name in services:
        model = name if name in known else name.rpartition("-")[0]
        if model not in known:
            raise InputError(
                f"The cold start of service {name!r} is not known; give one for it, or for all. "
                f"Known: {', '.join(known)}."
            )
        found[name] = seconds(f"The cold start of {name!r}", known[model])
    return found
