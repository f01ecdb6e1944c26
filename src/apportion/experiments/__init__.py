"""Many simulations: several policies on one workload, or at several loads with several seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.experiments.comparisons import Comparison as Comparison
    from apportion.experiments.comparisons import compare as compare
    from apportion.experiments.plan import Plan as Plan
    from apportion.experiments.sweeps import Sweep as Sweep
    from apportion.experiments.sweeps import plan_sweep as plan_sweep
    from apportion.experiments.sweeps import sweep as sweep


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
