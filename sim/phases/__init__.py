"""Links on which jobs go through the phases of their communication profiles."""

from __future__ import annotations

from apportion.sim.phases.engine import run_phases
from apportion.sim.phases.record import PhaseRun
from apportion.sim.phases.segments import PhaseJob
from apportion.sim.phases.sharing import max_min_rates

__all__ = ["PhaseJob", "PhaseRun", "max_min_rates", "run_phases"]
