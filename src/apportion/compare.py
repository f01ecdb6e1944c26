"""Comparing policies; the code lies in `apportion.comparison`."""

from __future__ import annotations

from apportion.comparison import Comparison, compare

__all__ = ["Comparison", "compare"]
