"""Policies x workloads x loads x seeds: many simulations, kept as they finish, in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.experiments.sweeps.plan import plan_sweep as plan_sweep
    from apportion.experiments.sweeps.result import Sweep as Sweep
    from apportion.experiments.sweeps.run import sweep as sweep


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
