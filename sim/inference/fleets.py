"""Fleets of replicas: the program that says which to try, and what rules the others out."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.sim.inference.limits import ServingLimits, steps_of
from apportion.sim.inference.served_replicas import fits, replicas_of, speeds_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from apportion.sim.inference.served_model import ServedModel
    from apportion.types import Floats, Ints

_GAP = 1e-9
"""Relative, of the price: answers are told to the cent."""


class FleetTries:
    """Simulates fleets, each once."""

    def __init__(
        self,
        model: ServedModel,
        names: Sequence[str],
        asked: pd.DataFrame,
        slo: Mapping[str, float],
    ) -> None:
        self.model, self.names, self.asked, self.slo = model, names, asked, slo
        self.met: dict[tuple[int, ...], bool] = {}

    def __call__(self, counts: Sequence[int] | Ints) -> bool:
        """Tell whether so many replicas of each type meet the SLO."""
        key = tuple(int(n) for n in counts)
        if key not in self.met:
            limits = ServingLimits(self.slo, self.model, self.asked)
            fleet = dict(zip(self.names, key, strict=True))
            found = None
            present = [name for name, count in fleet.items() if count]
            if fits(self.model, present, self.asked):
                found = replicas_of(self.model, fleet, self.asked, limits).run()
            self.met[key] = found is not None
        return self.met[key]

    def sorted(self) -> list[tuple[Ints, bool]]:
        """Return all that were tried, by their counts."""
        return [(np.array(counts), met) for counts, met in sorted(self.met.items())]


class FleetSearch:
    """Rules fleets out until the cheapest one that is left meets the SLO."""

    def __init__(self, tries: FleetTries, most: Ints, cost: Floats) -> None:
        self._tries, self._most, self._cost = tries, most, cost
        self._missed: list[Ints] = []
        self._work = least_work(tries.model, tries.names, tries.asked, tries.slo)
        self.alone = np.full(most.size, -1)

    def run(self) -> Ints | None:
        """Return the replicas of each type; None if all that are available miss the SLO."""
        for kind in range(self._most.size):
            self.alone[kind] = self._fewest_alone(kind)
        if not self._tries(self._most) and not self._some_types_do():
            return None
        while True:
            counts = cheapest_counts(self._cost, self._most, self._work, self._missed)
            if self._tries(counts):
                return counts
            self._missed.append(self._raised(counts))

    def _some_types_do(self) -> bool:
        """Try all replicas of each choice of types: a slow type may spoil what others reach."""
        kinds = np.flatnonzero(self._most)
        for size in range(2, kinds.size + 1):
            for chosen in combinations(kinds.tolist(), size):
                counts = np.where(np.isin(np.arange(self._most.size), chosen), self._most, 0)
                if not self._tries(counts):
                    self._missed.append(counts)
        return any(self._tries.met.values())

    def _fewest_alone(self, kind: int) -> int:
        """Return how few replicas of one type do; -1 if none of the available numbers does."""
        unit = np.eye(self._most.size, dtype=np.intp)[kind]
        low, high = 0, 1
        while high < self._most[kind] and not self._tries(high * unit):
            low, high = high, 2 * high
        high = min(high, int(self._most[kind]))
        if not high:
            return -1
        if not self._tries(high * unit):
            self._missed.append(high * unit)
            return -1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._tries(middle * unit) else (middle, high)
        if low:
            self._missed.append(low * unit)
        return high

    def _raised(self, counts: Ints) -> Ints:
        """Return a fleet as large as is found, along the same line, that misses the SLO too."""
        best, factor = counts, 1.0
        step = 1.0 / max(int(counts.max()), 1)
        while step > 1e-3 and (best < self._most)[counts > 0].any():
            raised = np.minimum((counts * (factor + step)).astype(np.intp), self._most)
            if self._tries(raised):
                step /= 4
            else:
                best, factor, step = raised, factor + step, 2 * step
        return best


def cheapest_counts(
    cost: Floats, most: Ints, work: list[tuple[Floats, Floats]], missed: Sequence[Ints]
) -> Ints:
    """Return the cheapest counts that are not ruled out.

    Parameters
    ----------
    cost
        Of one of each type.
    most
        Of each type.
    work
        Of `least_work`.
    missed
        Counts that miss the SLO: who serves with the same types needs more of one of them.
    """
    n = cp.Variable(most.size, integer=True)
    used = cp.Variable(most.size, boolean=True)
    constraints: list[cp.Constraint] = [used <= n, n <= cp.multiply(most, used), cp.sum(n) >= 1]
    for seconds, per_replica in work:  # of each kind of work on each type; what a replica has
        share = cp.Variable(seconds.shape, nonneg=True)
        constraints += [
            cp.sum(share, axis=0) == 1,
            cp.sum(cp.multiply(seconds, share), axis=1) <= cp.multiply(per_replica, n),
        ]
    for counts in missed:
        z = cp.Variable(most.size, boolean=True)
        same = counts > 0
        others = cp.sum(used[~same]) + cp.sum(1 - used[same])
        constraints += [n >= cp.multiply(counts + 1, z), cp.sum(z[same]) + others >= 1]
    problem = cp.Problem(cp.Minimize(cost @ n), constraints)
    problem.solve(solver=cp.HIGHS, mip_rel_gap=_GAP)
    if n.value is None:
        raise RuntimeError(f"The program of the cheapest GPUs has status {problem.status}.")
    return np.asarray(np.rint(n.value), dtype=np.intp)


def least_work(
    model: ServedModel, names: Sequence[str], asked: pd.DataFrame, slo: Mapping[str, float]
) -> list[tuple[Floats, Floats]]:
    r"""Return work that any fleet must have time for: a valid inequality, not what it takes.

    A request that meets the SLO is served between its arrival and its deadline, and takes at least
    its share of the best batch: :math:`\min_b s(b) / b` for a request or a token, and the least
    seconds per token of prefill. Of the requests that come within a stretch of time and must end in
    it, all but those that may be missed need that there, on whichever type.

    Returns
    -------
    list of (seconds, length)
        Seconds of prefill (or requests) and of decode on each type, shape (types, kinds), and the
        seconds that one replica of each has. Empty if no limit says when a request must end.
    """
    limits = ServingLimits(slo, model, asked)
    arrival_s = asked["arrival_s"].to_numpy(dtype=np.float64)
    steps = steps_of(model, asked).astype(np.float64)
    by = {figure: bound for _, figure, bound in limits.bounds.values()}
    if "request" in by:
        deadline_s = arrival_s + by["request"]
    elif "ttft" in by and "tpot" in by:
        deadline_s = arrival_s + by["ttft"] + by["tpot"] * steps
    elif "ttft" in by and not model.by_tokens:
        deadline_s = arrival_s + by["ttft"]
    else:
        return []
    missed = sum(limits.may_miss.values())
    each = np.stack(
        [_least_seconds(model, name, asked) for name in names]
    )  # types, kinds, requests
    found = []
    order = np.argsort(arrival_s, kind="stable")
    for length_s in _lengths(arrival_s, deadline_s):
        start_s = _fullest(arrival_s, deadline_s, length_s)
        inside = order[(arrival_s >= start_s) & (deadline_s <= start_s + length_s)]
        if inside.size > missed:
            # The largest of each kind are left out, so that whichever are missed it holds.
            sums = np.sort(each[:, :, inside], axis=2)[:, :, : inside.size - missed].sum(axis=2)
            found.append((sums, np.full(len(names), length_s)))
    return found


def _lengths(arrival_s: Floats, deadline_s: Floats) -> Floats:
    """Return lengths of time to look at, in geometric progression."""
    longest = float(deadline_s.max() - arrival_s.min())
    shortest = float((deadline_s - arrival_s).min())
    return np.geomspace(2 * shortest, longest, 6) if longest > 2 * shortest else np.array([longest])


def _fullest(arrival_s: Floats, deadline_s: Floats, length_s: float) -> float:
    """Return where a stretch begins in which most requests come and end, of some starts."""
    starts = arrival_s[:: max(1, arrival_s.size // 500)]
    counts = [((arrival_s >= s) & (deadline_s <= s + length_s)).sum() for s in starts]
    return float(starts[int(np.argmax(counts))])


def _least_seconds(model: ServedModel, name: str, asked: pd.DataFrame) -> Floats:
    """Return the least seconds of a replica that each request takes, shape (kinds, requests)."""
    speed = speeds_of(model, name, asked)
    batch = np.array(model.batch_seconds(name))
    if model.by_tokens:
        tokens = asked["context_tokens"].to_numpy(dtype=np.float64)
        prefill = model.prefill_seconds(name)
        sizes = np.unique(np.geomspace(1, 1e7, 400).astype(np.intp))
        per_token = min(prefill(float(size)) / float(size) for size in sizes) * (1 - 1e-6)
        per_step = float((batch / np.arange(1, batch.size + 1)).min())
        return np.stack([tokens * per_token, steps_of(model, asked) * per_step])
    if model.request is not None:
        least = float((batch / np.arange(1, batch.size + 1)).min())
        return np.full((1, len(asked)), least)
    seconds = [speed.first_s([place]) for place in range(len(asked))]
    return np.array(seconds)[None, :] / speed.most
