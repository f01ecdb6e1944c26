"""Many simulations: several policies on one workload, or at several loads with several seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.experiments.comparisons import Comparison, compare
    from apportion.experiments.plan import Plan
    from apportion.experiments.sweeps import Sweep, plan_sweep, sweep

__all__ = ["Comparison", "Plan", "Sweep", "compare", "plan_sweep", "sweep"]

if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
