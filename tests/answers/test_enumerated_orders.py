"""`recommend` about jobs of which all resamples are known: who is best is known by enumeration."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.mechanism.queue import QueueScheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.mechanism.job_table import JobTable

JOBS, BLOCK = 8, 2


@dataclass(frozen=True)
class ByClass(QueueScheduler):
    """Classes of jobs in a fixed order, within a class the first to come."""

    name = "by_class"
    source = "an order among all orders"
    order: tuple[int, ...] = (0, 1, 2)

    def queue(self, jobs: JobTable, now_s: float) -> Iterator[tuple[int, list[int]]]:
        place = np.argsort(self.order)[jobs.facts["kind"][jobs.active].astype(int)]
        for job in jobs.active[np.argsort(place, kind="stable")].tolist():
            yield job, [0]


def named(order: tuple[int, ...]) -> ByClass:
    """Return an order under a name of its own."""
    own = type("Ordered", (ByClass,), {"name": "order_" + "".join(map(str, order))})
    return own(order=order)  # type: ignore[no-any-return]


def drawn(seed: int) -> tuple[list[int], list[float]]:
    """Draw the classes of jobs that come at once, and how long each class takes: often alike."""
    rng = np.random.default_rng([seed, 13])
    kinds = rng.permutation([0, 1, 2, 0, 1, 2, 0, 1]).tolist()
    return kinds, rng.choice([60.0, 60.0, 600.0, 3000.0], 3).tolist()


def log_of(kinds: list[int], lasts_s: list[float]) -> ap.Workload:
    """Return the jobs as a log of one GPU."""
    table = pd.DataFrame(
        {
            "arrival_s": 0.0,
            "job_type": "any",
            "scale_factor": 1,
            "total_steps": [lasts_s[kind] for kind in kinds],
            "kind": kinds,
        },
        index=[f"j{number}" for number in range(JOBS)],
    )
    index = pd.MultiIndex.from_tuples([("any", 1)], names=["job_type", "scale_factor"])
    return ap.Workload("tiny", table, pd.DataFrame({"gpu": 1.0}, index=index))


def mean_s(kinds: tuple[int, ...], lasts_s: list[float], order: tuple[int, ...]) -> float:
    """Return the mean completion time of jobs that come at once, one after another on one GPU."""
    ends_s, now_s = 0.0, 0.0
    for kind in order:
        for _ in range(kinds.count(kind)):
            now_s += lasts_s[kind]
            ends_s += now_s
    return ends_s / len(kinds)


def enumerated(kinds: list[int], lasts_s: list[float]) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Return all orders, and the mean logarithm of the figure of each over all resamples."""
    pairs = [(kinds[first], kinds[(first + 1) % JOBS]) for first in range(JOBS)]
    orders = list(permutations(range(3)))
    logs = np.zeros(len(orders))
    for stretches in product(pairs, repeat=JOBS // BLOCK):
        some = tuple(kind for stretch in stretches for kind in stretch)
        logs += [np.log(mean_s(some, lasts_s, order)) for order in orders]
    return orders, logs / JOBS ** (JOBS // BLOCK)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 20))]
)
@pytest.mark.thorough
def test_among_all_orders_the_best_is_never_left_out(seed: int) -> None:
    """Six orders of three classes, over all 4,096 resamples of eight jobs."""
    kinds, lasts_s = drawn(seed)
    orders, truth = enumerated(kinds, lasts_s)
    log, policies = log_of(kinds, lasts_s), [named(order) for order in orders]
    found = ap.recommend(
        policies, log, "gpu=1", draws=12, n_jobs=1, preemption_overhead_seconds=0.0
    )
    labels = found.policies
    best = [label for label, each in zip(labels, truth, strict=True) if each < truth.min() + 1e-9]
    assert set(best) <= set(found.left)
    if found.best is not None:
        assert best == [found.best]
    if np.ptp(truth) < 1e-9:
        assert "No difference" in found.sentence()
    for seed_, own in found.runs.groupby("seed"):
        some = ap.resample(log, int(str(seed_)), blocks=True).jobs["kind"].tolist()
        expected = [mean_s(tuple(some), lasts_s, order) for order in orders]
        known = own.set_index("policy")["mean_jct_s"]
        assert known[labels].tolist() == pytest.approx(expected)
