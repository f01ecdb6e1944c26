"""Policies x workloads x loads x seeds: many simulations, kept as they finish, in one table."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.experiments.sweeps.plan import plan_sweep
from apportion.experiments.sweeps.result import Sweep
from apportion.experiments.sweeps.run import sweep

__all__ = ["Sweep", "plan_sweep", "sweep"]

open_doors(globals())
