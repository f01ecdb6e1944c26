"""Links on which jobs go through the phases of their communication profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.network.link_sharing import max_min_rates as max_min_rates
    from apportion.sim.phases.engine import PhaseRun as PhaseRun
    from apportion.sim.phases.engine import run_phases as run_phases
    from apportion.sim.phases.job import PhaseJob as PhaseJob
    from apportion.sim.phases.priorities import crux_priorities as crux_priorities
    from apportion.sim.phases.priorities import gpu_intensity as gpu_intensity


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
