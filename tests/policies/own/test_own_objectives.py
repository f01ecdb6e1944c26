"""Objectives that nobody thought of: what plain cvxpy makes of them, `solve` does as well."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from tests.policies.own.linear import GOALS, Goal
from tests.policies.own.linear import best_of_plain as best_linear
from tests.policies.own.objectives import CURVED, STRAIGHT, Own, Plain, Recipe, Scene
from tests.seeds import ranges_of_seeds

import apportion as ap

ATOMS = sorted(STRAIGHT | CURVED)


def best_of_plain(recipe: Recipe, scene: Scene) -> float | None:
    """Return the best value that cvxpy's solvers find at a feasible point, if any does."""
    sign, best = (1 if recipe.minimises else -1), np.inf
    for solver, options in (
        (cp.CLARABEL, {"tol_gap_rel": 1e-11, "tol_gap_abs": 1e-13, "tol_feas": 1e-10}),
        (cp.HIGHS, {}),
    ):
        p = Plain(scene)
        problem = cp.Problem(recipe.objective(p), [*p.limits, *recipe.constraints(p)])
        try:
            problem.solve(solver=solver, **options)
        except cp.error.SolverError:
            continue
        if problem.status not in {cp.OPTIMAL, cp.OPTIMAL_INACCURATE}:
            continue
        if max(np.max(limit.violation()) for limit in problem.constraints if limit.size) <= 1e-7:
            best = min(best, sign * problem.value)
    return sign * best if np.isfinite(best) else None


def check(recipe: Recipe, scene: Scene) -> None:
    """Compare value and feasibility."""
    found = ap.solve(Own(recipe=recipe), scene.speed, **scene.facts())
    X, best = found.X.to_numpy(), best_of_plain(recipe, scene)
    p = Plain(scene)
    p.X.value = X
    assert max(np.max(limit.violation()) for limit in p.limits) <= 1e-9, recipe
    for limit in recipe.constraints(p):
        if limit.variables() == [p.X]:
            assert np.max(limit.violation()) <= 1e-6, recipe
    if best is not None:
        lost = (found.objective - best) if recipe.minimises else (best - found.objective)
        least = recipe.size * min(factor for factor, _, _ in recipe.terms)
        assert lost <= 1e-6 * max(abs(best), least), (recipe, found.objective, best)
        assert found.status == "optimal", (recipe, found.gap)


@pytest.mark.parametrize("seeds", ranges_of_seeds(12, 400))
@pytest.mark.filterwarnings("ignore::UserWarning")  # cvxpy tells how it takes powers
def test_drawn_objectives_are_as_good_as_in_plain_cvxpy(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        scene = Scene.draw(rng)
        check(Recipe.draw(rng, ATOMS), scene)


@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 30))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_atom_by_itself(seeds: range) -> None:
    for seed in seeds:
        scene = Scene.draw(np.random.default_rng([seed, 1]))
        for atom in sorted(CURVED)[seed % 3 :: 3]:
            check(Recipe(((1.0, atom, "speed"),), "same", "", bool(seed % 2), 1.0), scene)


@pytest.mark.parametrize("seeds", ranges_of_seeds(5, 400))
def test_linear_programs_are_as_good_in_any_units(seeds: range) -> None:
    """Compare with plain cvxpy in the units of the draw, where all numbers are moderate."""
    for seed in seeds:
        rng = np.random.default_rng([seed, 7])
        scene, kind = Scene.draw(rng), sorted(GOALS)[seed % len(GOALS)]
        speed, steps, weight = 10.0 ** rng.integers(-12, [13, 11, 13])
        in_units = weight * {"mean time": steps / speed, "rate": speed / steps}.get(kind, 1.0)
        in_units *= speed / steps if kind == "latest" else 1.0
        there = scene.counted(speed, steps, weight)
        found = ap.solve(Goal(kind=kind), there.speed, **there.facts())
        best = best_linear(kind, scene) * in_units
        lost = (
            found.objective - best if kind in {"mean time", "shortfall"} else best - found.objective
        )
        assert found.status == "optimal", (seed, kind, found.gap)
        assert np.isnan(best) or lost <= 1e-6 * abs(best), (seed, kind, found.objective, best)
