"""Links on which jobs go through the phases of their communication profiles."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.sim.network.fair_shares import max_min_rates
from apportion.sim.phases.engine import PhaseRun, run_phases
from apportion.sim.phases.priorities import crux_priorities, gpu_intensity
from apportion.sim.phases.segments import PhaseJob
from apportion.sim.phases.steady import PacedShifts, pace_and_shift
from apportion.sim.shifts.joint import JointShifts, joint_shifts, mean_score

__all__ = [
    "JointShifts",
    "PacedShifts",
    "PhaseJob",
    "PhaseRun",
    "crux_priorities",
    "gpu_intensity",
    "joint_shifts",
    "max_min_rates",
    "mean_score",
    "pace_and_shift",
    "run_phases",
]

open_doors(globals())
