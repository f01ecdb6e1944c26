"""Objectives that nobody thought of: what plain cvxpy makes of them, `solve` does as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from cvxpy.error import SolverError
from tests.policies.own.linear import GOALS, Goal
from tests.policies.own.linear import best_of_plain as best_linear
from tests.policies.own.objectives import CURVED, STRAIGHT, Own, Plain, Recipe, Scene
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.errors import SolveError
from apportion.policies import Instance, Policy, Solution, solve_instance
from apportion.testing import check_policy

if TYPE_CHECKING:
    from collections.abc import Callable

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


@pytest.mark.parametrize("seeds", ranges_of_seeds(6, 400, 100))
@pytest.mark.filterwarnings("ignore::UserWarning")  # cvxpy tells how it takes powers
def test_drawn_objectives_are_as_good_as_in_plain_cvxpy(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        scene = Scene.draw(rng)
        check(Recipe.draw(rng, ATOMS), scene)


@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 30, 9))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_atom_by_itself(seeds: range) -> None:
    for seed in seeds:
        scene = Scene.draw(np.random.default_rng([seed, 1]))
        for atom in sorted(CURVED)[seed % 3 :: 3]:
            check(Recipe(((1.0, atom, "speed"),), "same", "", bool(seed % 2), 1.0), scene)


@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 400, 100))
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


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 105, 15))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_drawn_objectives_keep_the_contract_of_policies(seeds: range) -> None:
    for seed in seeds:
        recipe = Recipe.draw(np.random.default_rng([seed, 3]), ATOMS)
        check_policy(Own(recipe=recipe), seed=seed)


@pytest.mark.parametrize("seeds", ranges_of_seeds(3, 60, 20))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_identical_jobs_get_the_same_under_drawn_curved_objectives(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng([seed, 13])
        scene, recipe = Scene.draw(rng), Recipe.draw(rng, sorted(CURVED))
        copies = np.tile(np.arange(scene.weight.size), 2)
        twice = scene.of(copies)
        shuffled = rng.permutation(copies.size)
        found = ap.solve(Own(recipe=recipe), twice.speed, group=False, **twice.facts())
        shares = found.X.to_numpy().reshape(2, -1)
        np.testing.assert_allclose(shares[0], shares[1], atol=1e-9, err_msg=f"{seed} {recipe}")
        moved = twice.of(shuffled)
        other = ap.solve(Own(recipe=recipe), moved.speed, group=False, **moved.facts())
        np.testing.assert_allclose(
            other.X, found.X.to_numpy()[shuffled], atol=1e-6, err_msg=f"{seed} {recipe}"
        )


@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 100, 20))
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


@dataclass(frozen=True)
class OfRows(Policy):
    """An atom over the rows of a problem, whatever number of jobs they stand for."""

    name = "of_rows"
    source = "drawn"
    traits = frozenset()

    atom: str = ""

    def objective(self, p: Any) -> cp.Maximize:
        """State it."""
        speed = cp.multiply(1 / p.fastest_throughput, p.throughput)
        return cp.Maximize((STRAIGHT | CURVED)[self.atom](speed, p.weight))


def grow_and_shrink(atom: str, most: int, seed: int) -> None:
    """Compare a session with a cold solve after each of `most` arrivals, and of as many leaves."""
    rng = np.random.default_rng([seed, 17])
    while (scene := Scene.draw(rng)).weight.size < 5:
        pass
    policy = OfRows(atom=atom)
    types = {f"t{place}": int(gpus) for place, gpus in enumerate(scene.capacity)}
    with ap.session(policy, types) as session:
        for step in range(2 * most - 1):
            if step < most:
                job = step % scene.weight.size
                facts = {name: one[job] for name, one in scene.facts()["jobs"].items()}
                speeds = dict(zip(types, scene.speed[job].tolist(), strict=True))
                session.add({str(step): speeds}, {str(step): facts})
            else:
                session.remove([session.jobs[-(step % 2)]])
            now = scene.of(np.array([int(str(name)) for name in session.jobs]) % scene.weight.size)
            found, cold = session.solve(), ap.solve(policy, now.speed, **now.facts())
            assert found.objective == pytest.approx(cold.objective, rel=1e-6, abs=1e-9), step
            np.testing.assert_allclose(found.X, cold.X, atol=1e-4, err_msg=f"{atom} {step}")


def test_a_geometric_mean_of_one_job_is_linear_and_of_three_is_not() -> None:
    grow_and_shrink("geo_mean", 3, 0)


@pytest.mark.parametrize(
    "atom",
    [
        pytest.param(atom, marks=pytest.mark.slow if place % 6 else pytest.mark.thorough)
        for place, atom in enumerate(ATOMS)
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sessions_that_grow_and_shrink_have_what_cold_solves_have(atom: str) -> None:
    grow_and_shrink(atom, 9, 0)


def drawn_run(seed: int) -> tuple[Own, ap.Workload, ap.Cluster]:
    """Draw an objective, some short jobs whose speeds are those of a scene, and their GPUs."""
    rng = np.random.default_rng([seed, 9])
    recipe, scene = Recipe.draw(rng, sorted(STRAIGHT) if seed % 3 else ATOMS), Scene.draw(rng)
    types = [f"t{place}" for place in range(scene.capacity.size)]
    seconds = 10.0 ** rng.uniform(2, 4, scene.weight.size)
    fastest = np.where(scene.capacity > 0, scene.speed, 0.0).max(axis=1)
    table = {
        "arrival_s": np.sort(rng.choice([0.0, 100.0, 3000.0], scene.weight.size)),
        "job_type": [f"m{job}" for job in range(scene.weight.size)],
        "scale_factor": scene.scale_factor.astype(int),
        "total_steps": fastest * seconds,
        "weight": scene.weight,
    }
    jobs = pd.DataFrame(table)
    speeds = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]])
    cluster = ap.Cluster(dict(zip(types, scene.capacity.astype(int).tolist(), strict=True)))
    return (
        Own(recipe=recipe),
        ap.Workload(f"drawn {seed}", jobs, pd.DataFrame(scene.speed, speeds, types)),
        cluster,
    )


@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 200, 30))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_runs_under_drawn_objectives_end_and_every_solve_is_as_good(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every mechanism that shares out time; what each solve sees, plain cvxpy sees as well."""
    solved: list[tuple[Instance, Solution]] = []

    def noted(policy: Any, instance: Instance, **options: Any) -> Solution:
        solved.append((instance, solve_instance(policy, instance, **options)))
        return solved[-1][1]

    monkeypatch.setattr("apportion.sim.resolve.solve_instance", noted)
    for seed in seeds:
        policy, workload, cluster = drawn_run(seed)
        solved.clear()
        mechanism: Any = ["rounds", "exact"][seed % 2]
        try:
            run = ap.simulate(policy, workload, cluster, mechanism=mechanism)
        except SolveError as error:
            if "gives none of the" in str(error):  # the objective has nothing for who is left
                continue
            raise
        assert np.isfinite(run.jobs["completion_s"]).all(), (seed, policy)
        assert run.uncertified == sum(found.status != "optimal" for _, found in solved)
        for instance, found in solved:
            gpus, weight = (instance.columns[name] for name in ("scale_factor", "weight"))
            now = Scene(instance.throughput, gpus, weight, instance.capacity, np.ones(gpus.size))
            compare(policy.recipe, now, found, best_of_plain(policy.recipe, now))


SYMMETRIC: dict[str, Callable[[Any, Any], cp.Maximize | cp.Minimize]] = {
    "sum": lambda p, u: cp.Maximize(cp.sum(u)),
    "total": lambda p, u: cp.Maximize(p.total(u)),
    "mean": lambda p, u: cp.Maximize(cp.mean(cp.sqrt(u))),
    "logarithms": lambda p, u: cp.Maximize(cp.sum(cp.log(u + 0.1))),
    "norm": lambda p, u: cp.Minimize(cp.norm(u - 1.5, 2)),
    "norm of time": lambda p, u: cp.Minimize(cp.norm(p.time - 0.4, 1) - 0.1 * cp.sum(u)),
    "geometric mean": lambda p, u: cp.Maximize(cp.geo_mean(u)),
    "smallest": lambda p, u: cp.Maximize(cp.sum_smallest(u, 2)),
    "largest": lambda p, u: cp.Minimize(cp.sum_largest(-u, 2)),
    "log of exponentials": lambda p, u: cp.Minimize(cp.log_sum_exp(-u)),
    "entropy": lambda p, u: cp.Maximize(cp.sum(cp.entr(p.time)) + cp.sum(u)),
    "quadratic": lambda p, u: cp.Minimize(cp.sum_squares(u - 1)),
    "max": lambda p, u: cp.Minimize(cp.max(-u) - 0.1 * cp.sum(u)),
    "min": lambda p, u: cp.Maximize(cp.min(u)),
    "least of its own": lambda p, u: cp.Maximize(p.variable("least") + 0.1 * cp.sum(u)),
    "slack": lambda p, u: cp.Minimize(cp.sum(p.variable("slack", u.shape, nonneg=True))),
}
"""Objectives that treat jobs alike; some count a class as its jobs, some do not."""
SYMMETRIC_LIMITS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "none": lambda p, u: [],
    "floor": lambda p, u: [u >= 0.05],
    "sum": lambda p, u: [cp.sum(u) <= 1.5],
    "norm": lambda p, u: [cp.norm(u, 2) <= 1.2],
    "cone": lambda p, u: [cp.SOC(cp.Constant(1.2), u)],
    "first": lambda p, u: [u[0] <= 0.2],
    "equal": lambda p, u: [cp.sum(p.time) == 1.0],
}


@dataclass(frozen=True)
class Alike(ap.Policy):
    """One of those objectives and limits, of relative throughputs."""

    goal: str = "sum"
    limit: str = "none"

    def objective(self, p: Any) -> Any:
        return SYMMETRIC[self.goal](p, p.throughput / p.fastest_throughput)

    def constraints(self, p: Any) -> list[cp.Constraint]:
        u = p.throughput / p.fastest_throughput
        limits = SYMMETRIC_LIMITS[self.limit](p, u)
        if self.goal == "least of its own":
            limits.append(u >= p.variable("least"))
        if self.goal == "slack":
            limits.append(u + p.variable("slack", u.shape, nonneg=True) >= 0.8)
        return limits


class OverJobs:
    """What those objectives read, stated in plain cvxpy."""

    def __init__(self, speed: Any, gpus: Any) -> None:
        self.X = cp.Variable(speed.shape, nonneg=True)
        self.throughput = cp.sum(cp.multiply(speed, self.X), axis=1)
        self.fastest_throughput = speed.max(axis=1)
        self.time = cp.sum(self.X, axis=1)
        self.own: dict[str, cp.Variable] = {}
        self.limits = [self.time <= 1, cp.sum(self.X, axis=0) <= gpus]

    def variable(self, name: str, shape: Any = (), *, nonneg: bool = False) -> cp.Variable:
        return self.own.setdefault(name, cp.Variable(shape, nonneg=nonneg))

    def total(self, expression: cp.Expression) -> Any:
        return cp.sum(expression)


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 60, 12))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_classes_are_solved_as_their_jobs_however_objectives_are_written(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng([seed, 11])
        kinds = int(rng.integers(1, 4))
        of = np.append(np.arange(kinds), rng.integers(0, kinds, rng.integers(2, 4)))
        speed = rng.integers(1, 9, (kinds, 2)).astype(float)[of]
        table, gpus = pd.DataFrame(speed, columns=["a", "b"]), rng.integers(1, 3, 2)
        limits = sorted(SYMMETRIC_LIMITS)
        for place, goal in enumerate(sorted(SYMMETRIC)):
            policy = Alike(goal=goal, limit=limits[(place + seed) % len(limits)])
            p = OverJobs(speed, gpus)
            plain = cp.Problem(policy.objective(p), [*p.limits, *policy.constraints(p)])
            best: Any = plain.solve(solver=cp.CLARABEL)
            for group in (True, False):
                found = ap.solve(
                    policy, table, workers=dict(zip("ab", gpus, strict=True)), group=group
                )
                assert found.objective == pytest.approx(best, rel=1e-5, abs=1e-5), (seed, policy)


def test_what_counts_each_class_as_its_jobs_is_solved_over_classes() -> None:
    table = pd.DataFrame([[4.0, 1.0]] * 3 + [[1.0, 4.0]], columns=["a", "b"])
    for goal, classes in (("total", 2), ("min", 2), ("sum", 4), ("smallest", 4)):
        found = ap.solve(Alike(goal=goal), table, workers="a=1,b=1")
        assert found.stats["classes"] == classes, goal
        session = ap.session(Alike(goal=goal), "a=1,b=1")
        session.add(table)
        assert session.solve().objective == pytest.approx(
            ap.solve(Alike(goal=goal), table, workers="a=1,b=1", group=False).objective, rel=1e-9
        )


@pytest.mark.parametrize("group", [True, False])
@pytest.mark.parametrize("goal", ["total", "mean", "logarithms", "norm", "smallest", "sum"])
def test_rows_that_stand_for_several_jobs_count_as_them(goal: str, group: bool) -> None:
    table = pd.DataFrame([[4.0, 1.0], [1.0, 4.0], [2.0, 2.0]], columns=["a", "b"])
    rows = np.repeat(np.arange(3), [3, 1, 2])
    counted = ap.solve(
        Alike(goal=goal), table, workers="a=1,b=1", jobs={"count": [3, 1, 2]}, group=group
    )
    single = ap.solve(
        Alike(goal=goal), table.iloc[rows].reset_index(drop=True), workers="a=1,b=1", group=False
    )
    assert counted.objective == pytest.approx(single.objective, rel=1e-9)
    np.testing.assert_allclose(counted.X.to_numpy()[rows], single.X, atol=1e-7)


def test_a_sum_of_more_numbers_than_there_are_is_refused() -> None:
    table = pd.DataFrame([[4.0, 1.0], [1.0, 4.0]], columns=["a", "b"])
    for goal in (
        lambda p: cp.Maximize(cp.sum_smallest(p.throughput, 3)),
        lambda p: cp.Minimize(cp.sum_largest(-p.throughput, 3)),
    ):
        with pytest.raises(ap.InputError, match=r"Stated\(\) sums up the 3 .* of 2 numbers"):
            ap.solve(stating(goal), table, workers="a=1,b=1")


def stating(objective: Any, constraints: Any = (), **more: Any) -> ap.Policy:
    """Make a policy of functions of p."""
    own = {"objective": lambda _, p: objective(p), "name": "stated", **more}
    own["constraints"] = lambda _, p: constraints(p) if callable(constraints) else constraints
    made: ap.Policy = type("Stated", (ap.Policy,), own)()
    return made


TOTAL = staticmethod(lambda p: cp.Maximize(p.total(p.throughput)))


@pytest.mark.parametrize("integral", [False, True])
@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ((lambda p: cp.Maximize(p.total(cp.multiply(p.elapsed_s, p.throughput))),), "elapsed_s"),
        ((lambda p: cp.Maximize(p.total(p.throughput) * np.nan),), "NaN or infinity"),
        ((lambda p: cp.Maximize(p.total(p.throughput) * np.inf),), "NaN or infinity"),
        ((lambda p: cp.Maximize(p.throughput),), "cannot state its problem: .*scalar"),
        ((lambda p: cp.sum(p.throughput),), "must be cp.Maximize"),
        ((lambda _: 3.0,), "is 3.0; it must be cp.Maximize"),
        ((TOTAL, lambda p: [p.throughput >= np.nan]), "NaN or infinity"),
        ((TOTAL, None), "as a list, which may be empty, not None"),
        ((TOTAL, lambda p: p.throughput >= 0), "as a list, which may be empty, not one"),
        ((TOTAL, [np.bool_(False)]), "Constraint 0 of Stated"),
        ((TOTAL, ["x"]), "Constraint 0 of Stated.*is 'x'"),
        ((TOTAL, lambda p: [p.throughput >= cp.Parameter(name="floor")]), "'floor'.*no value"),
    ],
)
def test_what_is_no_problem_is_said_in_words(policy: Any, words: str, integral: bool) -> None:
    table = pd.DataFrame([[4.0, 1.0]] * 3, columns=["a", "b"])
    with pytest.raises(ap.InputError, match=words) as refused:
        ap.solve(stating(*policy, integral=integral), table, workers="a=1,b=1")
    assert "Stated()" in str(refused.value)


def test_columns_that_are_read_are_listed_and_those_listed_are_read() -> None:
    table = pd.DataFrame([[4.0, 1.0]] * 4, columns=["a", "b"])
    jobs = {"elapsed_s": [1.0, 2.0, 3.0, 4.0]}

    def older_first(p: Any) -> cp.Maximize:
        return cp.Maximize(p.total(cp.multiply(p.elapsed_s, p.throughput)))

    listed = stating(older_first, columns=("elapsed_s",))
    assert ap.solve(listed, table, workers="a=1,b=1", jobs=jobs).objective == pytest.approx(19)
    with pytest.raises(ap.InputError, match=r'columns = \("elapsed_s",\)'):
        ap.solve(stating(older_first), table, workers="a=1,b=1", jobs=jobs)
    with pytest.raises(ap.InputError, match=r'columns = \("weight", "elapsed_s"\)'):
        ap.solve(stating(older_first, columns=("weight",)), table, workers="a=1,b=1", jobs=jobs)
    with pytest.raises(ap.InputError, match=r"is the text 'weight'"):
        stating(older_first, columns="weight")


def test_a_class_in_place_of_a_policy_is_named() -> None:
    table = pd.DataFrame([[4.0, 1.0]], columns=["a", "b"])
    for use in (
        lambda: ap.solve(Alike, table, workers="a=1,b=1"),  # type: ignore[arg-type]
        lambda: ap.session(Alike, "a=1,b=1"),  # type: ignore[arg-type]
        lambda: ap.get_policy(Alike),  # type: ignore[arg-type]
    ):
        with pytest.raises(ap.InputError, match=r"is the class Alike; write Alike\(\)"):
            use()


@dataclass(frozen=True)
class Apart(Alike):
    """The same, of which no simulation takes identical jobs as one."""

    traits = frozenset({"tells_identical_jobs_apart"})


def test_simulations_count_classes_as_their_jobs_too() -> None:
    kinds = np.arange(18) % 3
    jobs = pd.DataFrame(
        {
            "arrival_s": 500.0 * (np.arange(18) // 9),
            "job_type": [f"m{kind}" for kind in kinds],
            "total_steps": 1000.0,
        }
    )
    rows = pd.MultiIndex.from_tuples([(f"m{kind}", 1) for kind in range(3)])
    speeds = pd.DataFrame([[4.0, 1.0], [2.0, 2.0], [1.0, 3.0]], rows, ["a", "b"])
    workload = ap.Workload("alike", jobs, speeds)
    for goal in ("sum", "total"):
        runs = [
            ap.simulate(kind(goal=goal, limit="floor"), workload, "a=3,b=2", mechanism="exact")
            for kind in (Alike, Apart)
        ]
        ends = [run.jobs["completion_s"].to_numpy() for run in runs]
        np.testing.assert_allclose(ends[0], ends[1], rtol=1e-6)
