"""Policies that maximise a weighted sum of throughputs: what a step/s of each job is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts

TOTALS = {
    "max_total_throughput",
    "fifo",
    "shortest_job_first",
    "network_sensitive",
    "least_mean_completion",
}


def total_value(facts: Facts) -> Floats:
    """Coefficient of every entry in the objective."""
    case = facts.case
    if case.policy == "max_total_throughput":
        each = np.ones(case.jobs)
    elif case.policy == "network_sensitive":
        each = 1 / facts.fast / np.maximum(case.columns["network_priority"], 0.001)
    elif case.policy == "least_mean_completion":
        alone_s = np.maximum(case.columns["steps_remaining"] / facts.fast, 3600.0)
        each = np.sqrt(case.columns["weight"] / alone_s) / facts.fast
    else:
        each = facts.scale * (case.jobs + 1 - _places(facts)) / facts.fast
    return np.asarray(facts.thr.T @ (each * facts.count))


def _places(facts: Facts) -> Floats:
    """Place of each job in its queue; those that are equal share the last of their places."""
    case = facts.case
    if case.policy == "fifo":
        key = case.columns["arrival_s"]
    else:
        key = case.columns["steps_remaining"] / facts.fast
    ordered = np.sort(key)
    return np.searchsorted(ordered, key * (1 + 1e-12), side="right").astype(float)
