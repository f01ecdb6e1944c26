"""Rounds for users: ask and tell with labels over the arrays of the mechanism."""

from apportion.mechanism.labelled.plan import Assignment, RoundPlan
from apportion.mechanism.labelled.round_scheduler import RoundScheduler

__all__ = ["Assignment", "RoundPlan", "RoundScheduler"]
