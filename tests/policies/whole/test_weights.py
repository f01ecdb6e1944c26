"""Weights over four decades: no whole decision is worse than the best one by more than was asked.

The best one is found by a table over the GPUs that are left, from what each option adds to the
objective that the policy states, one option at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import ranges_of_seeds

from apportion.errors import InfeasibleError
from apportion.policies import WHOLE, Instance, Policy, Problem, solve_instance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

POLICIES = [policy() for policy in WHOLE["(type, GPUs)"]]


def drawn(seed: int) -> Instance:
    """Up to 15 jobs with options of one to four GPUs on up to three types."""
    rng = np.random.default_rng([14, seed])
    jobs, types = int(rng.integers(3, 16)), int(rng.integers(1, 4))
    capacity = rng.integers(3, 7 if types == 3 else 12, types)
    gpus, on = np.repeat(np.arange(1, 5), types), np.tile(np.arange(types), 4)
    base = rng.uniform(0.5, 5, (jobs, types))
    speed = [base[:, a] * g ** rng.uniform(0.4, 1.0) for g, a in zip(gpus, on, strict=True)]
    columns = {"weight": 10 ** rng.uniform(-1, 3, jobs)}
    columns["steps_remaining"] = 10 ** rng.uniform(1, 3, jobs)
    return Instance.of_options(
        np.stack(speed, axis=1), gpus, capacity, option_accelerator=on, columns=columns
    )


def stated(policy: Policy, instance: Instance) -> tuple[float, Floats]:
    """Cost of no options at all, and what each cell adds to it, of an affine objective."""
    p = Problem(instance)
    objective = policy.objective(p)
    assert objective.args[0].is_affine()
    sign = -1.0 if isinstance(objective, cp.Maximize) else 1.0
    added = np.empty((instance.rows, instance.options))

    def value() -> float:
        return sign * float(np.asarray(objective.args[0].value).item())

    p.X.value = np.zeros(added.shape)
    nothing = value()
    for cell in np.ndindex(*added.shape):
        p.X.value = np.zeros(added.shape)
        p.X.value[cell] = 1.0
        added[cell] = value() - nothing
    return nothing, added


def least(instance: Instance, nothing: float, added: Floats, *, all_served: bool) -> float:
    """Least cost of a whole decision, by a table over the GPUs that are left."""
    gpus = np.rint(instance.gpus[0]).astype(int)
    best = {tuple(instance.capacity.astype(int).tolist()): nothing}
    for row in added:
        after: dict[tuple[int, ...], float] = {} if all_served else dict(best)
        for left, cost in best.items():
            for option, on in enumerate(instance.option_accelerator):
                rest = left[on] - gpus[option]
                if rest >= 0:
                    state = (*left[:on], int(rest), *left[on + 1 :])
                    after[state] = min(after.get(state, np.inf), cost + row[option])
        best = after
    return min(best.values(), default=np.inf)


@pytest.mark.parametrize("seeds", [*ranges_of_seeds(2, 300), range(16, 17)])
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_the_best_decision_is_found_whatever_the_weights(policy: Policy, seeds: range) -> None:
    for seed in seeds:
        instance = drawn(seed)
        p = Problem(instance)
        if not policy.objective(p).args[0].is_affine():
            pytest.skip("decided by enumeration elsewhere")
        served = bool(policy.constraints(p))
        expected = least(instance, *stated(policy, instance), all_served=served)
        if np.isinf(expected):
            with pytest.raises(InfeasibleError):
                solve_instance(policy, instance)
            continue
        solution = solve_instance(policy, instance)
        maximises = isinstance(policy.objective(p), cp.Maximize)
        cost = -solution.objective if maximises else solution.objective
        assert solution.status == "optimal"
        assert cost - expected <= 2e-9 * abs(expected), seed
