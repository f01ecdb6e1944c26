"""Whether what a policy declares of itself, its `traits`, is true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.policies import solve
from apportion.tensor import ThroughputTensor
from apportion.testing.policy_case import SHARE_TOLERANCE
from apportion.testing.run_case import fail

if TYPE_CHECKING:
    from apportion.policies import Policy
    from apportion.testing.policy_case import PolicyCase


def traits_are_true(policy: Policy, cases: list[PolicyCase], rng: np.random.Generator) -> None:
    """Check what is declared: in every case where it is said of all problems, in one of some."""
    always = {
        "has_one_optimum": _has_one_optimum,
        "meets_deadlines": _meets_deadlines,
        "runs_jobs_alone": _runs_jobs_alone,
    }
    at_times = {
        "depends_on_step_size": _depends_on_step_size,
        "leaves_gpus_idle": _leaves_gpus_idle,
        "tells_identical_jobs_apart": _tells_identical_jobs_apart,
    }
    for trait in sorted(policy.traits):
        shown = [(always | at_times)[trait](policy, case, rng) for case in cases]
        if not (all(shown) if trait in always else any(shown)):
            numbers = f"it shows in {sum(shown)} of {len(cases)} problems"
            fail(policy, f"what it declares, {trait!r}", numbers)


def _depends_on_step_size(policy: Policy, case: PolicyCase, rng: np.random.Generator) -> bool:
    there, _ = case.counting_other_steps(rng)
    return _differ(case.solve(policy).X, there.solve(policy).X)


def _has_one_optimum(policy: Policy, case: PolicyCase, rng: np.random.Generator) -> bool:
    """Go to a corner of the optima and to their middle."""
    corner, middle = (case.solve(policy, solver=solver).X for solver in ("highs", "clarabel"))
    return not _differ(corner, middle)


def _meets_deadlines(policy: Policy, case: PolicyCase, rng: np.random.Generator) -> bool:
    """Compare paces, at the speeds that it believes in, with those that meet the deadlines."""
    speed, jobs = case.speed, case.jobs.loc[case.speed.index]
    if not policy.heterogeneity_aware:
        runs, gpus = speed > 0, pd.Series(case.cluster.gpus)
        speed = runs.mul((speed * gpus).sum(axis=1) / (runs * gpus).sum(axis=1), axis=0)
    pace = (case.solve(policy).X * speed).sum(axis=1)
    late_s = jobs["steps_remaining"] / pace - (jobs["deadline_s"] - jobs["elapsed_s"])
    return not (late_s > 1e-6 * jobs["deadline_s"]).any()


def _leaves_gpus_idle(policy: Policy, case: PolicyCase, rng: np.random.Generator) -> bool:
    """Look for idle GPUs on which a job could run more."""
    X = case.solve(policy).X
    idle = pd.Series(case.cluster.gpus) - X.mul(case.jobs["scale_factor"], axis=0).sum()
    waits = X.sum(axis=1) < 1 - SHARE_TOLERANCE
    return bool(((case.speed[waits] > 0).any() & (idle > SHARE_TOLERANCE)).any())


def _runs_jobs_alone(policy: Policy, case: PolicyCase, rng: np.random.Generator) -> bool:
    """Offer a pair that is faster than its jobs are alone."""
    speed = {(job,): [row.tolist()] for job, row in case.speed.iterrows()}
    pair = case.speed.index[:2]
    speed[tuple(pair)] = [[4.0 * case.speed.loc[job].max()] * case.speed.shape[1] for job in pair]
    table = case.jobs.assign(scale_factor=1)
    tensor = ThroughputTensor.of_combinations(speed, list(case.speed.columns))
    X = solve(policy, tensor, workers=case.cluster, jobs=table).X
    return float(X.drop(index=case.speed.index).to_numpy().max()) <= SHARE_TOLERANCE


def _tells_identical_jobs_apart(policy: Policy, case: PolicyCase, rng: np.random.Generator) -> bool:
    copies = case.repeated(3).solve(policy).X.to_numpy().reshape(3, -1)
    return float(np.ptp(copies, axis=0).max()) > SHARE_TOLERANCE


def _differ(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether two solves gave shares that differ by more than rounding."""
    return bool((one - other).abs().to_numpy().max() > SHARE_TOLERANCE)
