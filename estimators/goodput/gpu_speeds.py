"""Speeds of an application by number of GPUs, as users have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.annotations import explained
from apportion.checks import mapping, number, whole
from apportion.errors import InputError
from apportion.estimators.goodput.measured_steps import StepSeconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.types import Floats, Int64s


class GpuSpeeds:
    """Steps/s of one application on one accelerator type, by number of GPUs.

    These are told, so that they are both what is true and what a job believes. Whoever has samples
    per second counts samples as steps. Between the numbers of GPUs that are told speeds are
    interpolated linearly; with fewer or more a job cannot run.

    Parameters
    ----------
    name
        Of the application, for errors.
    speeds
        Steps/s by number of GPUs; 0 where it cannot run with that number.

    Raises
    ------
    InputError
        For a number of GPUs that is not whole and above 0, a speed below 0, or no speed above 0.
    """

    @explained
    def __init__(self, name: str, speeds: Mapping[int, float]) -> None:
        self.name = name
        told = mapping(f"The speeds of {name!r}", speeds, "such as {1: 120.0, 2: 230.0}")
        whose = f"of {name!r}"
        known = {
            whole(f"The number of GPUs {whose}", gpus, 1, integral=True): number(
                f"The steps/s {whose} with {gpus} GPUs", speed
            )
            for gpus, speed in told.items()
        }
        if not any(known.values()):
            raise InputError(f"The application {name!r} has no speed above 0 with any GPUs.")
        self._gpus = np.array(sorted(known), dtype=np.int64)
        self._speeds: Floats = np.array([known[gpus] for gpus in sorted(known)], dtype=float)

    def plain(self) -> dict[str, Any]:
        """Return the steps/s by number of GPUs as they were told, as JSON has them."""
        told = zip(self._gpus.tolist(), self._speeds.tolist(), strict=True)
        return {"speeds": {str(gpus): speed for gpus, speed in told}}

    def by_gpus(self, gpus: Int64s) -> Floats:
        """Return the steps/s with numbers of GPUs; 0 = cannot run."""
        found = np.interp(gpus, self._gpus, self._speeds, left=0.0, right=0.0)
        # Between a number with which it runs and one with which it does not nothing is known.
        above = np.searchsorted(self._gpus, gpus).clip(max=self._gpus.size - 1)
        below = np.searchsorted(self._gpus, gpus, side="right").clip(min=1) - 1
        runs = (self._speeds[above] > 0) & (self._speeds[below] > 0)
        return np.where(runs, found, 0.0)

    def at(self, placement: Sequence[int], local_batch: float) -> StepSeconds:
        """Return the seconds of a step; how GPUs lie in machines and the batch do not count.

        Raises
        ------
        InputError
            For a number of GPUs with which the application cannot run.
        """
        gpus = sum(placement)
        speed = float(self.by_gpus(np.array([gpus]))[0])
        if not speed:
            raise InputError(
                f"{self.name!r} has no speed with {gpus} GPUs; known: "
                f"{', '.join(map(str, self._gpus[self._speeds > 0]))}."
            )
        return StepSeconds(1.0 / speed, 0.0, measured=gpus in self._gpus)
