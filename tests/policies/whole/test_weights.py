"""Weights over four decades: no whole decision is worse than the best one by more than was asked.

The best one is found by a table over the GPUs that are left, from what each option adds to the
objective that the policy states, one option at a time.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import pytest
from tests.seeds import ranges_of_seeds

from apportion.errors import InfeasibleError
from apportion.policies import WHOLE, Instance, Policy, Problem, solve_instance
from apportion.policies.optimus import Optimus

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


def far_apart(seed: int) -> tuple[Instance, Floats]:
    """15 jobs whose weights, speeds and work lie far apart, on two types; seconds by option."""
    gpus, on = np.array([1, 2, 4, 1, 2, 4]), np.repeat([0, 1], 3)
    rng = np.random.default_rng(seed)
    capacity = rng.integers(3, 8, 2)
    speed = 10 ** rng.uniform(-2, 2, (15, 1)) * gpus ** rng.uniform(0.3, 1.05, (15, 1))
    speed *= np.where(on == 1, rng.uniform(1, 6, (15, 1)), 1) * (rng.random((15, 6)) > 0.1)
    left = 10 ** rng.uniform(0, 6, 15)
    columns = {"steps_remaining": left, "weight": 10 ** rng.uniform(-1, 3, 15)}
    exact = [[Fraction(n) / Fraction(s) if s else None for s in row]
             for n, row in zip(left.tolist(), speed.tolist(), strict=True)]  # fmt: skip
    instance = Instance.of_options(speed, gpus, capacity, option_accelerator=on, columns=columns)
    return instance, np.array(exact, dtype=object)


@pytest.mark.parametrize("seeds", [range(25, 33), pytest.param(range(300), marks=pytest.mark.slow)])
def test_remaining_time_is_least_to_a_billionth_where_waiting_dwarfs_it(seeds: range) -> None:
    """By a table over the GPUs that are held, in fractions: a sum of floats hides what is asked."""
    for seed in seeds:
        instance, seconds = far_apart(seed)
        weight = [Fraction(w) for w in instance.columns["weight"].tolist()]
        slowest = [max((s for s in row if s is not None), default=Fraction(0)) for row in seconds]
        waits = 2 * sum(w / min(weight) * s for w, s in zip(weight, slowest, strict=True))
        best = {(0, 0): Fraction(0)}
        for w, row in zip(weight, seconds, strict=True):
            after = {held: cost + w * waits for held, cost in best.items()}
            for held, cost in best.items():
                for option, on in enumerate(instance.option_accelerator.tolist()):
                    more = [*held]
                    more[on] += int(instance.gpus[0, option])
                    if row[option] is not None and more[on] <= instance.capacity[on]:
                        place, now = (more[0], more[1]), cost + w * row[option]
                        after[place] = min(after.get(place, now), now)
            best = after
        least_cost = min(best.values())
        found = solve_instance(Optimus(), instance, gap=1e-9)
        chosen = zip(weight, seconds, np.asarray(found.X), strict=True)
        cost = Fraction(sum(w * (row[x.argmax()] if x.any() else waits) for w, row, x in chosen))
        assert found.status == "optimal", seed
        assert 0 <= (cost - least_cost) / least_cost <= Fraction(1, 10**9), seed
