"""Several policies on one workload: run them, keep what is finished, put them side by side."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.experiments.comparisons.comparison import Comparison
from apportion.experiments.comparisons.run import compare

__all__ = ["Comparison", "compare"]

open_doors(globals())
