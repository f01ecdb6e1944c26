"""Objectives that nobody thought of: what plain cvxpy makes of them, `solve` does as well."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.error import SolverError
from tests.policies.own.linear import GOALS, Goal
from tests.policies.own.linear import best_of_plain as best_linear
from tests.policies.own.objectives import CURVED, STRAIGHT, Own, Plain, Recipe, Scene
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.testing import check_policy

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
        except BaseException as error:
            if isinstance(error, SolverError) or "Panic" in type(error).__name__:
                continue  # of the compiled code of Clarabel, which has no other name
            raise
        if problem.status not in {cp.OPTIMAL, cp.OPTIMAL_INACCURATE}:
            continue
        if max(np.max(limit.violation()) for limit in problem.constraints if limit.size) <= 1e-7:
            value: Any = problem.value
            best = min(best, sign * float(value))
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
    compare(recipe, scene, found, best)


def compare(recipe: Recipe, scene: Scene, found: Any, best: float | None) -> None:
    """Compare the value with the best of plain cvxpy, where that has any."""
    if best is not None:
        lost = (found.objective - best) if recipe.minimises else (best - found.objective)
        size = recipe.size * min(factor for factor, _, _ in recipe.terms)
        size *= 10 * max(1.0, float(scene.weight.max()))  # of what is left where the best is zero
        assert lost <= 1e-6 * max(abs(best), size), (recipe, found.objective, best)
        # Some values that are right an interior point proves to fewer digits, which is then said.
        assert found.status == ("optimal" if found.gap <= 1e-6 else "optimal_inaccurate")
        assert found.gap <= 1e-3, (recipe, found.gap)


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
@pytest.mark.filterwarnings("ignore::UserWarning")  # cvxpy doubts its own solution
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


@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 35))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_drawn_objectives_keep_the_contract_of_policies(seeds: range) -> None:
    for seed in seeds:
        recipe = Recipe.draw(np.random.default_rng([seed, 3]), ATOMS)
        check_policy(Own(recipe=recipe), seed=seed)


@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 100))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sessions_with_changes_are_as_good_as_plain_cvxpy(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng([seed, 5])
        recipe = Recipe.draw(rng, sorted(STRAIGHT) if seed % 2 else ATOMS)
        scene = Scene.draw(rng)
        types = {f"t{place}": int(gpus) for place, gpus in enumerate(scene.capacity)}
        with ap.session(Own(recipe=recipe), types) as session:
            for event in range(4):
                job = int(rng.integers(scene.weight.size))
                if len(session) < 2 or rng.random() < 0.7:
                    facts = {name: one[job] for name, one in scene.facts()["jobs"].items()}
                    speeds = dict(zip(types, scene.speed[job].tolist(), strict=True))
                    session.add({f"{job} {event}": speeds}, {f"{job} {event}": facts})
                else:
                    session.remove([session.jobs[0]])
                now = scene.of(np.array([int(str(name).split()[0]) for name in session.jobs]))
                compare(recipe, now, session.solve(), best_of_plain(recipe, now))
