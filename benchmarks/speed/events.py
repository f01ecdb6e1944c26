"""Goal D3: one event of `ap.session` as called, beside a cold `ap.solve` of the same jobs.

An event removes a job, adds another one, solves and reads the shares, throughputs and prices.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

import numpy as np

import apportion as ap
from apportion.policies import MaxMinFairness
from benchmarks.reporting import progress
from benchmarks.speed.measure import Pair, Row, cpu_seconds
from benchmarks.speed.problems import TYPES, binds, draw

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from apportion.policies import Session
    from benchmarks.speed.measure import Settings
    from benchmarks.speed.problems import Case

__all__ = ["POLICIES", "events"]

POLICIES = (
    *("max_min_fairness", "max_min_fairness_lexicographic", "makespan", "finish_time_fairness"),
    *("hierarchical_fairness", "fair_over_time", "cohort", "power_capped", "fifo"),
    *("shortest_job_first", "least_mean_completion", "max_total_throughput", "min_cost"),
    *("min_cost_slos", "isolated", "proportional", "nash_welfare", "strategy_proof"),
    "network_sensitive",
)
"""Every policy of a session about jobs on types; lexicographic is an option of the first."""

_GOALS: dict[int, tuple[float | None, float]] = {64: (4.0, 0.0015), 1000: (None, 0.020)}
"""By jobs, how many times as fast as a cold solve, and the most seconds of an event."""
_BINDING = 0.8


def events(settings: Settings) -> Iterator[Row]:
    """Time events of every policy among 64 and 1,000 jobs."""
    sizes, count = ((16,), 3) if settings.quick else ((64, 1000), 10)
    for jobs in sizes:
        times, most_s = _GOALS.get(jobs, (None, None))
        for policy in settings.of(POLICIES):
            progress(f"d3: {policy}, {jobs} jobs")
            pairs = tuple(
                _events(policy, jobs, count, _drawn(jobs, count, settings, seed), seed)
                for seed in range(settings.seeds)
            )
            what = f"{policy}, {jobs} jobs, an event"
            yield Row("D3", what, pairs, times_goal=times, seconds_goal=most_s)


def _drawn(jobs: int, count: int, settings: Settings, seed: int) -> Case:
    """Draw the jobs at the beginning, and behind them those that come later."""
    return draw(jobs, len(TYPES), settings.data, seed=seed, spare=count)


def _labelled(case: Case, seed: int) -> tuple[pd.DataFrame, ap.Cluster, pd.DataFrame]:
    """Label a case; the jobs of four entities have deadlines and have lost time to the network.

    A deadline asks for three tenths of the equal share.
    """
    speed, cluster, table = case.labelled
    table["entity"] = [f"entity-{place % 4}" for place in range(len(table))]
    table["network_priority"] = np.random.default_rng(seed).uniform(0.1, 1.0, len(table))
    table["deadline_s"] = case.facts.steps / (0.3 * case.facts.equal_share / case.scale)
    return speed, cluster, table


def _events(policy: str, jobs: int, count: int, case: Case, seed: int) -> Pair:
    """Return the median of events and of cold solves, in turn.

    Raises
    ------
    RuntimeError
        If a cold solve has another objective, or capacities bind in fewer than 80 % of the events.
    """
    rng = np.random.default_rng(seed)
    lexicographic = policy == "max_min_fairness_lexicographic"
    chosen = MaxMinFairness(lexicographic=True) if lexicographic else ap.get_policy(policy)
    speed, cluster, table = _labelled(case, seed)
    present = list(speed.index[:jobs])
    warm, cold, differ, binding = [], [], [0.0], 0
    with ap.session(chosen, cluster) as session:
        session.add(speed.loc[present], table.loc[present])
        session.solve()
        for name in speed.index[jobs:]:
            leaves = present.pop(int(rng.integers(jobs)))
            present.append(name)
            comes, known = speed.loc[[name]], table.loc[[name]]
            seconds, allocation = cpu_seconds(lambda: _event(session, leaves, comes, known))  # noqa: B023
            warm.append(seconds)
            now, told = speed.loc[present], table.loc[present]
            seconds, anew = cpu_seconds(lambda: ap.solve(chosen, now, workers=cluster, jobs=told))  # noqa: B023
            cold.append(seconds)
            differ.append(_apart(allocation.objective, anew.objective))
            binding += binds(policy, allocation, told.loc[allocation.X.index], cluster)
    if binding < _BINDING * count:
        raise RuntimeError(f"{policy}, {jobs} jobs: GPUs are full in {binding} of {count} events.")
    if max(differ) > 1e-6:
        raise RuntimeError(f"{policy}, {jobs} jobs: objectives differ by {max(differ):.0e}.")
    return Pair(statistics.median(warm), statistics.median(cold), "cold ap.solve", max(differ))


def _event(
    session: Session, leaves: str, comes: pd.DataFrame, known: pd.DataFrame
) -> ap.Allocation:
    session.remove([leaves])
    session.add(comes, known)
    allocation = session.solve()
    for table in (allocation.X, allocation.throughput, allocation.prices):
        table.to_numpy()
    return allocation


def _apart(one: float, other: float) -> float:
    return 0.0 if one == other else abs(one / other - 1)
