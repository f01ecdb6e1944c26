"""Own objectives, drawn: atoms of cvxpy over a problem, which plain cvxpy can solve as well."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import cvxpy as cp
import numpy as np

from apportion.policies import Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Atom = Callable[[Any, Floats], Any]

__all__ = ["CURVED", "STRAIGHT", "Own", "Plain", "Recipe", "Scene"]


STRAIGHT: dict[str, Atom] = {
    "sum": lambda u, w: w @ u,
    "min": lambda u, w: cp.min(u),
    "sum_smallest": lambda u, w: cp.sum_smallest(u, min(2, u.size)),
    "minimum": lambda u, w: w @ cp.minimum(u, 0.6),
    "minus norm1": lambda u, w: -cp.norm1(cp.multiply(w, 1 - u)),
    "minus norm_inf": lambda u, w: -cp.norm_inf(1 - u),
    "minus pos": lambda u, w: -(w @ cp.pos(0.7 - u)),
    "minus abs": lambda u, w: -(w @ cp.abs(u - 0.4)),
    "minus max": lambda u, w: -cp.max(cp.multiply(w, 1 - u)),
    "minus sum_largest": lambda u, w: -cp.sum_largest(1 - u, min(2, u.size)),
    "minus cvar": lambda u, w: -cp.cvar(1 - u, 0.5),
    "minus range": lambda u, w: -(cp.max(u) - cp.min(u)),
    "minus maximum": lambda u, w: -(w @ cp.maximum(1 - u, 2 - 3 * u)),
}
"""Concave in throughputs u with weights w, and linear programs."""

CURVED: dict[str, Atom] = {
    "sqrt": lambda u, w: w @ cp.sqrt(u),
    "power 1/2": lambda u, w: w @ cp.power(u, 0.5),
    "power 1/4": lambda u, w: w @ cp.power(u, 0.25),
    "power 1/2 exactly": lambda u, w: w @ cp.power(u, 0.5, approx=False),
    "geo_mean": lambda u, w: cp.geo_mean(u),
    "geo_mean exactly": lambda u, w: cp.geo_mean(u, approx=False),
    "log": lambda u, w: w @ cp.log(u),
    "log1p": lambda u, w: w @ cp.log1p(u),
    "log of the sum": lambda u, w: cp.log(w @ u),
    "entr": lambda u, w: w @ cp.entr(u),
    "minus inv_pos": lambda u, w: -(w @ cp.inv_pos(u)),
    "minus square": lambda u, w: -(w @ cp.square(1 - u)),
    "minus sum_squares": lambda u, w: -cp.sum_squares(u - 0.5),
    "minus exp": lambda u, w: -(w @ cp.exp(-u)),
    "minus logistic": lambda u, w: -(w @ cp.logistic(-3 * u)),
    "minus huber": lambda u, w: -(w @ cp.huber(1 - u, 0.3)),  # pyright: ignore[reportArgumentType]
    "minus kl_div": lambda u, w: -cp.sum(cp.kl_div(w / w.sum(), u)),
    "minus rel_entr": lambda u, w: -cp.sum(cp.rel_entr(w / w.sum(), u)),
    "minus power -2": lambda u, w: -(w @ cp.power(u + 0.1, -2)),
    "minus power 3": lambda u, w: -(w @ cp.power(cp.pos(1 - u), 3)),
    "minus power 3/2": lambda u, w: -(w @ cp.power(cp.pos(1 - u), 1.5)),
    "minus norm2": lambda u, w: -cp.norm2(cp.multiply(w, 1 - u)),
    "minus norm 3": lambda u, w: -cp.pnorm(1 - u, 3),
    "norm 1/2": lambda u, w: cp.pnorm(u, 0.5),  # pyright: ignore[reportArgumentType]
    "minus quad_over_lin": lambda u, w: -cp.quad_over_lin(1 - u, 1 + cp.sum(u)),
    "minus quad_form": lambda u, w: w @ u - cp.quad_form(u, _definite(w)),
    "minus variance": lambda u, w: w @ u - cp.sum_squares(u - cp.sum(u) / u.size),
    "minus log_sum_exp": lambda u, w: -cp.log_sum_exp(-2 * u),
    "harmonic_mean": lambda u, w: cp.harmonic_mean(u),
    "log of geo_mean": lambda u, w: cp.log(1 + cp.geo_mean(u)),
    "sqrt of the least": lambda u, w: cp.sqrt(cp.min(u)),
    "lambda_min": lambda u, w: cp.lambda_min(cp.diag(u) + 0.1 * _definite(w)),
    "log_det": lambda u, w: cp.log_det(cp.diag(u) + 0.1 * _definite(w)),
    "minus spread of the scaled": lambda u, w: -cp.std(u) if u.size > 1 else cp.sqrt(u[0]),
}
"""The same of those that need curved cones or a quadratic term."""

_ATOMS = STRAIGHT | CURVED


def _definite(weight: Floats) -> Floats:
    """Return a positive definite matrix of jobs, in whatever order."""
    part = weight / weight.sum()
    return np.asarray(np.outer(part, part) + np.diag(0.1 + part), dtype=float)


class Scene(NamedTuple):
    """An instance: steps/s (jobs, types), GPUs, weights, GPUs of each type."""

    speed: Floats
    scale_factor: Floats
    weight: Floats
    capacity: Floats
    steps: Floats

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Scene:
        """Draw one with jobs that cannot run everywhere, some alike, and a type without GPUs."""
        jobs, types = int(rng.integers(1, 8)), int(rng.integers(1, 4))
        speed = rng.uniform(0.5, 20.0, (jobs, types)) * 10.0 ** rng.integers(-2, 3, (jobs, 1))
        speed[rng.random((jobs, types)) < 0.25] = 0.0
        speed[np.arange(jobs), rng.integers(0, types, jobs)] += 1.0
        capacity = rng.integers(1, 9, types).astype(float)
        if types > 1 and rng.random() < 0.2:
            speed[:, 0] += 1.0
            capacity[1] = 0.0
        scale = np.minimum(rng.choice([1.0, 1.0, 2.0, 4.0], jobs), capacity[capacity > 0].min())
        weight = rng.choice([0.1, 1.0, 1.0, 5.0, 100.0], jobs)
        steps = 10.0 ** rng.uniform(-5, 7, jobs)
        scene = cls(speed, scale, weight, capacity, steps)
        if jobs > 2 and rng.random() < 0.3:
            alike = np.append(np.arange(jobs - 1), 0)
            scene = scene.of(alike)
        return scene

    def facts(self) -> dict[str, Any]:
        """Return what `solve` is told beside the speeds."""
        jobs = {
            "weight": self.weight.tolist(),
            "scale_factor": self.scale_factor.astype(int).tolist(),
            "steps_remaining": self.steps.tolist(),
        }
        return {"workers": self.capacity.astype(int).tolist(), "jobs": jobs}

    def of(self, jobs: Any) -> Scene:
        """Return the same with some of its jobs."""
        rows = self.speed[jobs], self.scale_factor[jobs], self.weight[jobs]
        return Scene(*rows, self.capacity, self.steps[jobs])

    def counted(self, speed: float, steps: float, weight: float) -> Scene:
        """Return the same in other units."""
        return self._replace(
            speed=speed * self.speed, steps=steps * self.steps, weight=weight * self.weight
        )


@dataclass(eq=False)
class Plain:
    """What an objective reads of a problem, over plain cvxpy and the numbers of an instance."""

    scene: Scene
    own: dict[str, cp.Variable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        scene = self.scene
        self.X = cp.Variable(scene.speed.shape)
        self.time = cp.sum(self.X, axis=1)
        self.held = scene.scale_factor @ self.X
        self.throughput = cp.sum(cp.multiply(scene.speed, self.X), axis=1)
        self.count, self.weight = np.ones(scene.weight.size), scene.weight
        self.speed, self.scale_factor = scene.speed, scene.scale_factor
        self.steps_remaining = scene.steps
        self.instance = SimpleNamespace(capacity=scene.capacity)
        self.fastest_throughput = np.where(scene.capacity > 0, scene.speed, 0.0).max(axis=1)
        share = scene.capacity / (scene.weight.size * scene.scale_factor[:, None])
        share /= np.maximum(share.sum(axis=1, keepdims=True), 1)
        self.isolated_throughput = (share * scene.speed).sum(axis=1)
        self.limits = [
            self.X >= 0,
            self.time <= 1,
            self.held <= scene.capacity,
            cp.multiply((scene.speed <= 0).astype(float), self.X) == 0,
        ]

    def total(self, each: Any) -> Any:
        """Sum over jobs."""
        return cp.sum(each)

    def variable(self, name: str, shape: Any = (), *, nonneg: bool = False) -> cp.Variable:
        """Return a variable by name."""
        if name not in self.own:
            self.own[name] = cp.Variable(shape, nonneg=nonneg)
        return self.own[name]


class Recipe(NamedTuple):
    """How an objective is composed; all of it can be stated over any problem."""

    terms: tuple[tuple[float, str, str], ...]
    """Factor, atom, and what it is of: "speed", "time" or "own"."""
    own: str
    """What bounds the own variable from above: an atom of each job, or nothing."""
    constraint: str
    minimises: bool
    size: float
    """What all of it is multiplied by."""

    @classmethod
    def draw(cls, rng: np.random.Generator, atoms: list[str]) -> Recipe:
        """Draw one, by way of the given atoms."""
        terms = [
            (
                float(rng.choice([0.1, 1.0, 10.0])),
                str(rng.choice(atoms)),
                str(rng.choice(["speed", "speed", "time", "own"])),
            )
            for _ in range(rng.choice([1, 1, 2, 3]))
        ]
        return cls(
            tuple(terms),
            str(rng.choice(["sqrt", "log1p", "same", "minimum"])),
            str(rng.choice(["", "", "", "floor", "budget", "even", "log", "ball", "mean"])),
            bool(rng.random() < 0.5),
            float(rng.choice([1.0, 1.0, 1.0, 1e-3, 1e3])),
        )

    def each(self, p: Any, expression: cp.Expression) -> cp.Expression:
        """Repeat what is of a class for each of its jobs."""
        return expression[np.repeat(np.arange(p.count.size), p.count.astype(int))]

    def speed(self, p: Any) -> cp.Expression:
        """Return throughput over that on the fastest type."""
        return cp.multiply(1 / p.fastest_throughput, p.throughput)

    def value(self, p: Any) -> Any:
        """Return the concave objective."""
        weight = np.repeat(p.weight, p.count.astype(int))
        of = {"speed": self.speed, "time": lambda p: p.time, "own": self.variable}
        parts = [
            factor * _ATOMS[atom](self.each(p, of[what](p)), weight)
            for factor, atom, what in self.terms
        ]
        return self.size * sum(parts)

    def objective(self, p: Any) -> cp.Maximize | cp.Minimize:
        """State it, as one or the other."""
        return cp.Minimize(-self.value(p)) if self.minimises else cp.Maximize(self.value(p))

    def variable(self, p: Any) -> cp.Variable:
        """Return the own variable, shape (classes,)."""
        return p.variable("level", int(p.count.size), nonneg=True)

    def constraints(self, p: Any) -> list[cp.Constraint]:
        """State the own constraints, all of which isolated shares meet."""
        u = self.each(p, self.speed(p))
        isolated = np.repeat(p.isolated_throughput / p.fastest_throughput, p.count.astype(int))
        on_average = getattr(p, "on_average", lambda constraint: constraint)
        stated: dict[str, Callable[[], Any]] = {
            "floor": lambda: u >= 0.3 * isolated,
            # Of one job alone it is less than it holds, so that it can be meant on average only.
            "budget": lambda: on_average(cp.sum(self.each(p, p.time)) <= 0.7 * u.size),
            "even": lambda: cp.norm2(u - cp.sum(u) / u.size) <= np.sqrt(u.size),
            "log": lambda: cp.sum(cp.log(u)) >= np.log(0.3 * isolated).sum(),
            "ball": lambda: cp.norm2(1 - u) <= np.sqrt(u.size),
            "mean": lambda: p.variable("mean") == cp.sum(u) / u.size,
        }
        found = [stated[self.constraint]().set_label(self.constraint)] if self.constraint else []
        if any(what == "own" for _, _, what in self.terms):
            below = _BELOW[self.own](self.speed(p))
            found.append((self.variable(p) <= below).set_label("own level"))
        return found


_BELOW: dict[str, Callable[[cp.Expression], cp.Expression]] = {
    "sqrt": cp.sqrt,
    "log1p": cp.log1p,
    "same": lambda u: u,
    "minimum": lambda u: cp.minimum(u, 0.5),
}
"""What an own variable may be at most, by the throughput of its job."""


@dataclass(frozen=True)
class Own(Policy):
    """A policy of a recipe."""

    name = "own"
    source = "drawn"
    traits = frozenset()

    recipe: Any = None

    def objective(self, p: Any) -> cp.Maximize | cp.Minimize:
        """State it."""
        return self.recipe.objective(p)

    def constraints(self, p: Any) -> list[cp.Constraint]:
        """State them."""
        return list(self.recipe.constraints(p))
