"""Several policies on one workload: run them, keep what is finished, put them side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.experiments.comparisons.comparison import Comparison as Comparison
    from apportion.experiments.comparisons.run import compare as compare


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
