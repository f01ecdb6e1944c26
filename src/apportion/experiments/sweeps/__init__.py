"""Policies x workloads x loads x seeds: many simulations, kept as they finish, in one table."""

from __future__ import annotations

from apportion.experiments.sweeps.plan import plan_sweep
from apportion.experiments.sweeps.result import Sweep
from apportion.experiments.sweeps.run import sweep
from apportion.kinds import open_doors

__all__ = ["Sweep", "plan_sweep", "sweep"]

open_doors(globals())
