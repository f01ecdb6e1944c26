"""Objectives that say all of a problem at any counts need no program; others are not taken so."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.policies import Policy, Problem


class _PerClass(Policy):
    """The classes count, not their jobs."""

    name = "per_class"

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(cp.sum(p.throughput / p.fastest_throughput))


class _PerCount(Policy):
    """Levels that hang on the counts."""

    name = "per_count"

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(cp.min(cp.multiply(1 / (p.count * p.fastest_throughput), p.throughput)))


class _Floors(Policy):
    """Levels beside constraints."""

    name = "floors"

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(cp.min(p.throughput / p.fastest_throughput))

    def constraints(self, p: Problem) -> list[cp.Constraint]:
        return [p.throughput <= 0.3 * p.fastest_throughput]


class _ByShareOfJobs(_PerClass):
    """Reads the counts in a way that is no affine function of them."""

    name = "by_share_of_jobs"

    def constraints(self, p: Problem) -> list[cp.Constraint]:
        return [2 / p.instance.count.sum() >= p.X]


class _OwnSlowest(Policy):
    """Levels of one's own, as max-min fairness has them."""

    name = "slowest"

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(cp.min(p.throughput / p.fastest_throughput))


@pytest.mark.parametrize(
    "policy",
    ["max_min_fairness", _OwnSlowest(), _PerClass(), _PerCount(), _Floors(), _ByShareOfJobs()],
    ids=str,
)
def test_sessions_of_alike_jobs_find_what_solves_find(policy: str | Policy) -> None:
    rng, gpus = np.random.default_rng(3), {"fast": 3, "slow": 4}
    kinds = pd.DataFrame(rng.uniform(1, 5, (4, 2)), columns=list(gpus))
    session = ap.session(policy, gpus)
    there: dict[str, int] = {}
    for event in range(25):
        if event % 3 == 2:
            session.remove([gone := next(iter(there))])
            del there[gone]
        else:
            job, kind = f"job-{event}", int(rng.integers(4))
            session.add(kinds.loc[[kind]].set_axis([job]))
            there[job] = kind
        found = session.solve()
        cold = ap.solve(policy, kinds.loc[list(there.values())].set_axis(list(there)), workers=gpus)
        np.testing.assert_allclose(found.X.loc[cold.X.index], cold.X, rtol=0, atol=1e-9)
