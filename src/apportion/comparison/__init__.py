"""Several policies on one workload: run them, keep what is finished, put them side by side."""

from __future__ import annotations

from apportion.comparison.comparison import Comparison
from apportion.comparison.run_all import compare

__all__ = ["Comparison", "compare"]
