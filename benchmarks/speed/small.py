"""Goal S1: small problems, as a user calls them, beside plain cvxpy with its best solver."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import cvxpy as cp

import apportion as ap
from apportion.policies import get_policy
from apportion.policies.problem import Problem
from apportion.policies.solving.compiled import Compiled
from apportion.policies.solving.demands import Posed, levels_of, pose
from apportion.policies.solving.highs import PRIMAL, LoadedHighs
from benchmarks.speed.harness import Row, calls_of, cpu_seconds, side_by_side, two_digits
from benchmarks.speed.peers import installed, plain
from benchmarks.speed.problems import draw
from benchmarks.textbook import OBJECTIVES

if TYPE_CHECKING:
    from apportion.policies import Instance
    from apportion.policies.solving.worst_off.declared_levels import Levels
    from benchmarks.speed.problems import Case
    from benchmarks.speed.settings import Settings

__all__ = ["small"]

_LIMIT_S = 20.0


def small(settings: Settings) -> list[Row]:
    """Time `ap.solve` and every plain solver in turn, warm medians for all, and count calls."""
    sizes, repeats = ((12,), 3) if settings.quick else ((5, 12, 60, 256), 9)
    return [_row(policy, jobs, settings, repeats) for policy in OBJECTIVES for jobs in sizes]


def _row(policy: str, jobs: int, settings: Settings, repeats: int) -> Row:
    case = draw(jobs, 3, settings.data)
    speed, gpus, table = case.labelled
    ours = partial(ap.solve, policy, speed, workers=gpus, jobs=table)
    solvers = installed("ECOS", "CLARABEL", "HIGHS")
    peers = {each: partial(plain, policy, case, each, _LIMIT_S) for each in solvers}
    peers = {name: call for name, call in peers.items() if _solves(call)}
    seconds = side_by_side({"": ours, **peers}, repeats)
    best = min(peers, key=seconds.__getitem__)
    return Row(
        *("S1", f"{policy}, {jobs} x 3", "no slower than plain cvxpy"),
        peer=f"cvxpy + {best}",
        peer_s=seconds[best],
        called_s=seconds[""],
        floor=f"HiGHS alone {two_digits(1000 * _solver_alone(policy, case))} ms",
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
