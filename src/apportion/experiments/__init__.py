"""Many simulations: several policies on one workload, or at several loads with several seeds."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.experiments.comparisons import Comparison, compare
from apportion.experiments.plan import Plan
from apportion.experiments.sweeps import Sweep, plan_sweep, sweep

__all__ = ["Comparison", "Plan", "Sweep", "compare", "plan_sweep", "sweep"]

open_doors(globals())
