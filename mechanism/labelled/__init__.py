"""Rounds for users: ask and tell with labels over the arrays of the mechanism."""

from apportion.mechanism.labelled.round_scheduler import RoundScheduler
from apportion.mechanism.labelled.rows import Assignment, RoundPlan

__all__ = ["Assignment", "RoundPlan", "RoundScheduler"]
