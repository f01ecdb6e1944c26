"""The short way to a cone program gives what all reductions of cvxpy give, number by number."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from cvxpy.error import DCPError
from scipy import sparse
from tests.policies.own.linear import GOALS
from tests.policies.own.objectives import STRAIGHT, Plain, Recipe, Scene
from tests.seeds import ranges_of_seeds

from apportion import Resource, ThroughputTensor
from apportion.policies import get_policy
from apportion.policies.labelled import read
from apportion.policies.problem import Problem
from apportion.policies.solving import canonical
from apportion.policies.solving.canonical import canonicalise, canonicalise_by_reductions, straight
from apportion.policies.solving.cone import program_of_throughputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.policies import Instance
    from apportion.policies.solving.cone import ConeProgram


def check(problem: cp.Problem) -> None:
    """Compare the programs; variables and constraints of the problem have the same places."""
    same(canonicalise(problem), problem)


def same(found: ConeProgram, problem: cp.Problem) -> None:
    """Compare a program of a problem with that of all reductions."""
    expected = canonicalise_by_reductions(problem)
    for program in (found, expected):
        program.A.eliminate_zeros()
        program.A.sort_indices()
    for name in ("b", "c", "offset", "equality", "cost_scale"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
    assert found.A.shape == expected.A.shape
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found.A, name), getattr(expected.A, name), name)
    assert found.cones == expected.cones
    assert found.kinds == expected.kinds
    for variable in problem.variables():
        assert found.columns.get(variable.id) == expected.columns.get(variable.id)
    for constraint in problem.constraints:
        assert found.rows.get(constraint.id) == expected.rows.get(constraint.id)


AFFINE: dict[str, Callable[[Any, np.random.Generator], Any]] = {
    "as it is": lambda u, rng: u,
    "turned": lambda u, rng: -u,
    "weighed": lambda u, rng: cp.multiply(rng.normal(size=u.shape), u),
    "divided": lambda u, rng: u / rng.uniform(0.5, 2.0, u.shape),
    "moved": lambda u, rng: 3 - u + rng.normal(),
    "none of it": lambda u, rng: cp.multiply(np.zeros(u.shape), u),
    "mixed": lambda u, rng: rng.normal(size=(3, u.shape[0])) @ u,
    "reversed": lambda u, rng: u[::-1],
    "some": lambda u, rng: u[rng.random(u.shape[0]) < 0.5] if u.shape[0] > 1 else u,
    "sum": lambda u, rng: cp.reshape(cp.sum(u), (1,), order="F") + np.zeros(2),
    "stacked": lambda u, rng: cp.hstack([u, 2 * u]),
    "twice": lambda u, rng: u + cp.multiply(rng.uniform(size=u.shape), u),
    "running": lambda u, rng: cp.cumsum(u),
    "differences": lambda u, rng: cp.diff(u) if u.shape[0] > 1 else u,
    "transposed": lambda u, rng: cp.vec(cp.outer(np.ones(2), u).T, order="C"),
}
"""Affine in a vector u, and vectors again."""


def affine(vector: Any, rng: np.random.Generator) -> Any:
    """Draw an affine vector of a vector."""
    for name in rng.choice(sorted(AFFINE), int(rng.integers(0, 4))):
        found = AFFINE[name](vector, rng)
        vector = found if found.size else vector
    return vector


@pytest.mark.parametrize("seeds", ranges_of_seeds(40, 4000))
def test_drawn_affine_problems(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X, y = cp.Variable((int(rng.integers(1, 4)), 2)), cp.Variable(int(rng.integers(1, 4)))
        vectors = [cp.vec(X, order="C"), cp.sum(X, axis=1), y, cp.hstack([y, X[0]])]
        drawn = [affine(vectors[rng.integers(4)], rng) for _ in range(int(rng.integers(2, 6)))]
        minimise = bool(rng.random() < 0.5)
        worst = (cp.max if minimise else cp.min)(drawn[0])
        goal = worst if rng.random() < 0.5 else cp.sum(drawn[0])
        limits: list[cp.Constraint] = [
            each == 1 if rng.random() < 0.3 else each <= rng.normal(size=each.shape)
            for each in drawn[1:]
        ]
        limits += [X >= 0, y[0] >= X]
        rng.shuffle(limits)
        check(cp.Problem((cp.Minimize if minimise else cp.Maximize)(goal), limits))


@pytest.mark.parametrize("seeds", ranges_of_seeds(6, 600))
def test_drawn_objectives_of_policies(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng([seed, 1])
        recipe, scene = Recipe.draw(rng, sorted(STRAIGHT)), Scene.draw(rng)
        p = Plain(scene)
        check(cp.Problem(recipe.objective(p), [*p.limits, *recipe.constraints(p)]))
        p = Plain(scene)
        goal, limits = GOALS[sorted(GOALS)[seed % len(GOALS)]](p)
        check(cp.Problem(goal, [*p.limits, *limits]))


@pytest.mark.parametrize("seeds", ranges_of_seeds(6, 600))
def test_limits_in_arrays_are_those_of_the_text(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng([seed, 2])
        p = Problem(drawn_instance(rng), fractional=bool(seed % 2))
        own = p.variable("own", 2, nonneg=True)
        limits = [p.throughput[:1] == own[0], own[1] <= p.time[-1]][: rng.integers(0, 3)]
        worst = cp.Maximize(cp.min(p.throughput))
        goals = [worst, cp.Minimize(cp.sum(p.held)), cp.Maximize(own[1] + p.X[0, 0])]
        goal = goals[seed % 3]
        found = straight(goal, [*p.own_limits, *limits], p)
        assert found is not None
        labels = {each.label: each.id for each in p.constraints}
        named = {labels.get(str(name), name): place for name, place in found.rows.items()}
        same(replace(found, rows=named), cp.Problem(goal, [*p.constraints, *limits]))


ROWS: dict[str, Callable[[Any, np.random.Generator], Any]] = {
    name: AFFINE[name] for name in ("as it is", "turned", "weighed", "divided", "moved")
} | {
    "added": lambda u, rng: rng.normal(size=u.shape) + u + rng.normal(size=u.shape),
    "scaled": lambda u, rng: u * float(rng.normal()),
    "unknown": lambda u, rng: u[::-1] if rng.random() < 0.2 else u,
}
NUMBERS: dict[str, Callable[[Any, Problem], Any]] = {
    "total": lambda u, p: p.total(u),
    "sum": lambda u, p: cp.sum(u),
    "scaled": lambda u, p: 3 - 2 * p.total(u) / 7,
    "product": lambda u, p: u @ p.count,
    "sparse": lambda u, p: cp.sum(sparse.csr_array(np.diag(p.count)) @ u),
    "worst": lambda u, p: None,
}


@pytest.mark.parametrize("seeds", ranges_of_seeds(40, 4000))
def test_rows_of_throughputs_are_those_of_the_core(seeds: range) -> None:
    """Number by number; what is of another kind is left to the core."""
    known = 0
    for seed in seeds:
        rng = np.random.default_rng([seed, 3])
        p = Problem(drawn_instance(rng))
        vector: Any = p.throughput
        for name in rng.choice(sorted(ROWS), int(rng.integers(0, 4))):
            vector = ROWS[name](vector, rng)
        number = NUMBERS[rng.choice(sorted(NUMBERS))](vector, p)
        minimise = bool(rng.random() < 0.5)
        if number is None:
            number = (cp.max if minimise else cp.min)(vector)
        goal = (cp.Minimize if minimise else cp.Maximize)(number)
        found, expected = program_of_throughputs(goal, p), straight(goal, [], p)
        assert expected is not None
        if found is None:
            continue
        known += 1
        assert (found.rows, found.columns) == (expected.rows, expected.columns)
        for program in (found, expected):
            program.A.eliminate_zeros()
            program.A.sort_indices()
        for name in ("b", "c", "offset", "equality", "cost_scale"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
        for name in ("indptr", "indices", "data"):
            mine, theirs = getattr(found.A, name), getattr(expected.A, name)
            np.testing.assert_array_equal(mine, theirs, name)
    assert known > len(seeds) / 8


def drawn_instance(rng: np.random.Generator) -> Instance:
    """Draw jobs, some alike, or combinations of them, that cannot run everywhere."""
    jobs, types = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    names: list[tuple[str, ...]] = [(f"j{place}",) for place in range(jobs)]
    if jobs > 1 and rng.random() < 0.5:
        names += [("j0", "j1"), tuple(f"j{place}" for place in range(jobs))][: rng.integers(1, 3)]
        names = list(dict.fromkeys(names))
    speeds = {}
    for members in names:
        speed = rng.uniform(1, 9, (len(members), types)) * (rng.random(types) < 0.7)
        speed[:, rng.integers(types)] += 1.0
        speeds[members] = speed.tolist()
    workers = {f"t{place}": int(rng.integers(2, 6)) for place in range(types)}
    facts = {"count": rng.integers(1, 4, jobs).tolist()} if rng.random() < 0.5 else {}
    tensor = ThroughputTensor.of_combinations(speeds, list(workers), workers=workers, jobs=facts)
    used = pd.DataFrame(rng.integers(0, 3, (len(names), types)), tensor.rows, tensor.options)
    resources = [Resource("hard", 7.0, used), Resource("soft", None, used)][: rng.integers(0, 3)]
    return read(get_policy("max_min_fairness"), tensor, resources).instance


@pytest.mark.filterwarnings("ignore:The problem has an expression with dimension")
def test_what_is_not_plain_goes_all_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    x, n = cp.Variable(2), cp.Parameter(value=2.0)
    cube = cp.Variable((2, 2, 2))
    limits: list[cp.Constraint] = [x <= 1, x >= 0]
    problems = [
        cp.Problem(cp.Maximize(cp.sum(cp.sqrt(x))), limits),
        cp.Problem(cp.Maximize(cp.min(x) + x[0]), limits),
        cp.Problem(cp.Maximize(cp.sum(n * x)), limits),
        cp.Problem(cp.Maximize(cp.sum(x)), [*limits, cp.max(x) <= 0.5]),
        cp.Problem(cp.Maximize(cp.sum(x)), [*limits, cp.norm(x) <= 0.5]),
        cp.Problem(cp.Maximize(cp.sum(x)), [*limits, x[:0] <= 1]),
        cp.Problem(cp.Minimize(cp.sum(cp.Variable(2, nonneg=True)))),
        cp.Problem(cp.Minimize(cp.sum(cube)), [cube >= 1]),
        cp.Problem(cp.Maximize(cp.sum(cp.min(cp.reshape(x, (1, 2), order="F"), axis=0))), limits),
    ]
    asked: list[cp.Problem] = []

    def all_the_way(problem: cp.Problem) -> Any:
        asked.append(problem)
        return canonicalise_by_reductions(problem)

    monkeypatch.setattr(canonical, "canonicalise_by_reductions", all_the_way)
    for problem in problems:
        check(problem)
    assert asked == problems
    with pytest.raises(DCPError):
        canonicalise(cp.Problem(cp.Maximize(cp.max(x)), limits))
    check(cp.Problem(cp.Maximize(cp.min(x)), limits))
    assert len(asked) == len(problems) + 1
