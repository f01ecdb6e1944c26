"""Communication profiles from counters: the period and the phases of jobs, with their doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.network.samples.profiles import ProfileDoubt as ProfileDoubt
    from apportion.sim.network.samples.profiles import SampledTraffic as SampledTraffic
    from apportion.sim.network.samples.profiles import (
        profiles_from_samples as profiles_from_samples,
    )


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
