"""Goals D1 and D2: `ap.solve`, as users call it, beside the same text in plain cvxpy.

The peer has its numbers at hand as arrays and its best solver; ours has labelled tables, chooses
among optima and proves.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from benchmarks.reporting import progress
from benchmarks.speed.measure import Pair, Row, in_turn
from benchmarks.speed.peers import installed, plain, plain_solvers
from benchmarks.speed.problems import TYPES, binding_cases, draw
from benchmarks.textbook import OBJECTIVES, solve_sia

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.speed.measure import Settings
    from benchmarks.speed.problems import Case

__all__ = ["large", "small"]

_SIZES = (5, 12, 60, 256)
_MOST_S = {256: 0.008}
_JOBS_OF_GPUS = np.array([1, 2, 4, 8, 16])


def small(settings: Settings) -> Iterator[Row]:
    """D1: a few jobs, every policy that has a text in cvxpy."""
    sizes, repeats = ((12,), 1) if settings.quick else (_SIZES, 5)
    for policy in settings.of([*OBJECTIVES, "sia"]):
        for jobs in sizes:
            progress(f"d1: {policy}, {jobs} jobs")
            pairs = _whole if policy == "sia" else _shares
            goals: dict[str, Any] = {"times_goal": 1.0, "seconds_goal": _MOST_S.get(jobs)}
            found = tuple(pairs(policy, jobs, settings, repeats))
            yield Row("D1", f"{policy}, {jobs} x 3", found, **goals)


def _shares(policy: str, jobs: int, settings: Settings, repeats: int) -> list[Pair]:
    cases = binding_cases(
        policy, settings.seeds, lambda seed: draw(jobs, len(TYPES), settings.data, seed=seed)
    )
    return [_beside(_ours(policy, case), plain_solvers(policy, case), repeats) for case in cases]


def _ours(policy: str, case: Case) -> Callable[[], ap.Allocation]:
    speed, cluster, table = case.labelled
    return partial(ap.solve, policy, speed, workers=cluster, jobs=table)


def _beside(
    ours: Callable[[], ap.Allocation],
    peers: Mapping[str, Callable[[], float | None]],
    repeats: int,
    *,
    warm: bool = True,
) -> Pair:
    """Time ours and the peers in turn, and compare with the fastest of them."""
    seconds = in_turn({"": ours, **peers}, repeats, warm=warm)
    best = min(peers, key=seconds.__getitem__)
    value = peers[best]() if warm else None
    differ = np.nan if value is None else abs(value / ours().objective - 1)
    return Pair(seconds[""], seconds[best], best, differ)


def _whole(policy: str, jobs: int, settings: Settings, repeats: int) -> list[Pair]:
    """Sia's round: 1 to 16 GPUs of three types, of which there is half a GPU for each job."""
    found = []
    for seed in range(settings.seeds):
        table, gpus = _goodputs(jobs, seed)
        ours = partial(ap.solve, policy, table, workers=dict.fromkeys(TYPES, gpus))
        solvers = installed("GLPK_MI", "HIGHS", "SCIPY")
        room = np.full(len(TYPES), float(gpus))
        peers = {f"cvxpy + {each}": partial(solve_sia, table, room, each, 20.0) for each in solvers}
        pair = _beside(ours, peers, repeats)
        held = ours().X.to_numpy().sum(axis=0) @ np.kron(np.eye(len(TYPES)), _JOBS_OF_GPUS).T
        if (held < gpus).any():
            raise RuntimeError(f"{policy} on {jobs} jobs, seed {seed}: GPUs are left, {held}.")
        found.append(pair)
    return found


def _goodputs(jobs: int, seed: int) -> tuple[pd.DataFrame, int]:
    """Draw steps/s by job and (type, GPUs), and the GPUs of each type."""
    rng = np.random.default_rng(seed)
    speed = rng.lognormal(0.0, 0.5, (jobs, 1)) * np.array([1.0, 0.6, 0.35])
    speed = speed * rng.lognormal(0.0, 0.15, speed.shape)
    less = 1 + rng.uniform(0.005, 0.2, (jobs, 1)) * (_JOBS_OF_GPUS - 1)
    goodput = speed[:, :, None] * (_JOBS_OF_GPUS / less)[:, None]
    options = pd.MultiIndex.from_product(
        [TYPES, _JOBS_OF_GPUS.tolist()], names=["accelerator", "gpus"]
    )
    names = [f"job-{place}" for place in range(jobs)]
    return pd.DataFrame(goodput.reshape(jobs, -1), index=names, columns=options), max(jobs // 2, 1)


def large(settings: Settings) -> Iterator[Row]:
    """D2: jobs that are all different, on three and eight types."""
    jobs = 256 if settings.quick else 16384
    for types, goal in ((3, 3.5), (8, 3.0)):
        for policy in settings.of(list(OBJECTIVES)):
            progress(f"d2: {policy}, {jobs} x {types}")
            pairs = tuple(_all_different(policy, jobs, types, settings))
            what = f"{policy}, {jobs} x {types}, all different"
            yield Row("D2", what, pairs, times_goal=goal)


def _all_different(policy: str, jobs: int, types: int, settings: Settings) -> list[Pair]:
    """Time each case once; the peer's solver is the one that is fastest on the first."""
    cases = binding_cases(
        policy,
        settings.seeds,
        lambda seed: draw(jobs, types, settings.data, seed=seed, unique=True),
    )
    tiny = cases[0].part(np.arange(64))
    names = [name.split(" + ")[1] for name in plain_solvers(policy, tiny)]
    found: list[Pair] = []
    for case in cases:
        peers = {f"cvxpy + {name}": partial(plain, policy, case, name) for name in names}
        values: dict[str, float | None] = {}
        calls = {name: partial(_kept, values, name, call) for name, call in peers.items()}
        seconds = in_turn({"": _ours(policy, case), **calls}, 1, warm=False)
        solved = [name for name in peers if values[name] is not None]
        if not solved:
            found.append(Pair(seconds[""]))
            continue
        best = min(solved, key=seconds.__getitem__)
        names = [best.split(" + ")[1]]
        value = values[best] or np.nan
        differ = abs(value / _ours(policy, case)().objective - 1)
        found.append(Pair(seconds[""], seconds[best], best, differ))
    return found


def _kept(values: dict[str, float | None], name: str, call: Callable[[], float | None]) -> None:
    values[name] = call()
