"""Batch schedulers, as clusters run them: jobs keep their GPUs until they are done."""

from __future__ import annotations

from apportion.mechanism.batch.scheduler import BatchScheduler

__all__ = ["BatchScheduler"]
