"""Goal S1: small problems, as a user calls them, beside plain cvxpy with its best solver."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import apportion as ap
from benchmarks.speed.harness import Row, calls_of, side_by_side
from benchmarks.speed.peers import installed, plain
from benchmarks.speed.problems import draw
from benchmarks.textbook import OBJECTIVES

if TYPE_CHECKING:
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
        calls=calls_of(ours),
        peer_calls=calls_of(peers[best]),
        ratio_goal=1,
    )


def _solves(call: partial[tuple[float, float | None]]) -> bool:
    """Whether a plain solver finds an optimum; HiGHS has no curved objectives."""
    try:
        return call()[1] is not None
    except Exception:  # what a solver that cannot says of it differs
        return False
