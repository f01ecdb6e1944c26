"""Communication profiles from counters: the period and the phases of jobs, with their doubt."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.sim.network.samples.profiles import (
    ProfileDoubt,
    SampledTraffic,
    profiles_from_samples,
)

__all__ = ["ProfileDoubt", "SampledTraffic", "profiles_from_samples"]

open_doors(globals())
