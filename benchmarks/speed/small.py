"""Goal S1: small problems, as a user calls them, beside plain cvxpy with its best solver."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd

import apportion as ap
from apportion.policies import get_policy
from apportion.policies.problem import Problem
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.demands import Posed, levels_of, pose
from apportion.policies.solving.highs import PRIMAL, LoadedHighs
from benchmarks.speed.harness import Row, calls_of, cpu_seconds, side_by_side, two_digits
from benchmarks.speed.peers import installed, plain
from benchmarks.speed.problems import TYPES, draw
from benchmarks.textbook import OBJECTIVES, prices, solve_sia

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apportion.policies import Instance
    from apportion.policies.solving.worst_off.declared_levels import Levels
    from benchmarks.speed.problems import Case
    from benchmarks.speed.settings import Settings

__all__ = ["small"]

_LIMIT_S = 20.0


def small(settings: Settings) -> list[Row]:
    """Time `ap.solve` and every plain solver in turn, warm medians for all, and count calls."""
    sizes, repeats = ((12,), 3) if settings.quick else ((5, 12, 60, 256), 9)
    rows = [_row(policy, jobs, settings, repeats) for policy in OBJECTIVES for jobs in sizes]
    return rows + [_whole(jobs, repeats) for jobs in sizes]


def _row(policy: str, jobs: int, settings: Settings, repeats: int) -> Row:
    case = draw(jobs, 3, settings.data)
    speed, gpus, table = case.labelled
    usd = dict(zip(gpus, prices(len(gpus)).tolist(), strict=True))
    workers = ap.Cluster(gpus, prices_per_gpu_hour=usd)
    ours = partial(ap.solve, policy, speed, workers=workers, jobs=table)
    solvers = installed("ECOS", "CLARABEL", "HIGHS")
    peers = {each: partial(plain, policy, case, each, _LIMIT_S) for each in solvers}
    peers = {name: call for name, call in peers.items() if _solves(call)}
    floor = f"HiGHS alone {two_digits(1000 * _solver_alone(policy, case))} ms"
    return _beside(f"{policy}, {jobs} x 3", ours, peers, repeats, floor)


def _whole(jobs: int, repeats: int) -> Row:
    """Sia's round: sizes of 1 to 16 GPUs on three types, on which there is a GPU for each job."""
    rng, sizes = np.random.default_rng(jobs), np.array([1, 2, 4, 8, 16])
    speed = rng.lognormal(0.0, 0.5, (jobs, 1)) * np.array([1.0, 0.6, 0.35])
    speed = speed * rng.lognormal(0.0, 0.15, speed.shape)
    less = 1 + rng.uniform(0.005, 0.2, (jobs, 1)) * (sizes - 1)
    goodput = (speed[:, :, None] * (sizes / less)[:, None]).reshape(jobs, -1)
    options = pd.MultiIndex.from_product([TYPES, sizes.tolist()], names=["accelerator", "gpus"])
    table = pd.DataFrame(goodput, columns=options, index=[f"job-{place}" for place in range(jobs)])
    gpus = max(jobs, 8)
    ours = partial(ap.solve, "sia", table, workers=dict.fromkeys(TYPES, gpus))
    solvers = installed("GLPK_MI", "HIGHS", "SCIPY")
    room = np.full(len(TYPES), float(gpus))
    peers = {each: partial(solve_sia, table, room, each, _LIMIT_S) for each in solvers}
    return _beside(f"sia, {jobs} jobs, 15 options", ours, peers, repeats)


def _beside(
    what: str,
    ours: Callable[[], Any],
    peers: Mapping[str, Callable[[], Any]],
    repeats: int,
    floor: str = "",
) -> Row:
    """Time ours and the peers in turn, and compare with the best of them."""
    seconds = side_by_side({"": ours, **peers}, repeats)
    best = min(peers, key=seconds.__getitem__)
    return Row(
        *("S1", what, "no slower than plain cvxpy"),
        peer=f"cvxpy + {best}",
        peer_s=seconds[best],
        called_s=seconds[""],
        floor=floor,
        calls=calls_of(ours),
        peer_calls=calls_of(peers[best]),
        ratio_goal=1,
    )


def _solver_alone(policy: str, case: Case) -> float:
    """CPU seconds of HiGHS for the first stage, or its first level, on what is compiled."""
    asked, instance = get_policy(policy), case.instance
    levels = levels_of(asked, instance)
    if levels is not None and not levels.proportional:
        program = Compiled.of(*_first_level(levels, instance)).program
    else:
        program = Compiled.of(*pose(asked, instance)).program
    return cpu_seconds(lambda: LoadedHighs(program, options=PRIMAL).solve(), 5)[0]


def _first_level(levels: Levels, instance: Instance) -> Posed:
    """State the largest share of the demands of a level that is met by far."""
    p = Problem(instance)
    demand = levels.demand(2 * float(levels.offset.max()) + 1.0)
    least = cp.Maximize(cp.min(cp.multiply(1 / demand, p.throughput)))
    return Posed(p, least, ())


def _solves(call: partial[tuple[float, float | None]]) -> bool:
    """Whether a plain solver finds an optimum; HiGHS has no curved objectives."""
    try:
        return call()[1] is not None
    except Exception:  # what a solver that cannot says of it differs
        return False
