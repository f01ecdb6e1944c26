"""Goals on a single decision: cold solves of one policy on one problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.speed.peers import best_plain, gavel_value, installed, plain, pop, scipy_max_min
from benchmarks.speed.problems import draw
from benchmarks.speed.timing import agreement, ours

if TYPE_CHECKING:
    from benchmarks.speed.gavel import Gavel
    from benchmarks.speed.harness import Row
    from benchmarks.speed.settings import Settings

__all__ = ["decisions", "million"]

LIMIT_S = 60.0
MAX_MIN = "max_min_fairness"


def decisions(settings: Settings) -> list[Row]:
    """Rows of the goals P1, P3 to P7 and P10, S2 and S7."""
    rows = [*_against_gavel(settings), *_against_cvxpy(settings), *_pop(settings)]
    return [*rows, *_unique(settings), *_every_solver(settings)]


def _against_gavel(settings: Settings) -> list[Row]:
    """P1, P6, P7: beside Gavel's own code, three types."""
    size = 256 if settings.quick else 16384
    goals: list[tuple[str, str, int, float, float | None]] = [
        ("P1", MAX_MIN, size, 80, 0.012),
        ("S2", MAX_MIN, size, 60, None),
        ("P6", "makespan", size, 50, 0.025),
        ("P7", "finish_time_fairness", 1024, 100, None),
    ]
    if not settings.quick:
        goals += [("P7", "finish_time_fairness", 4096, 300, None)]
    rows = []
    for goal, policy, jobs, ratio, limit_s in goals:
        case = draw(jobs, 3, settings.data)
        timed = ours(policy, case)
        least = "" if limit_s is None else f", <= {1000 * limit_s:g} ms"
        row = timed.row(
            goal,
            f"{policy}, {jobs} x 3",
            f">= {ratio:g} x Gavel{least}",
            ratio_goal=ratio,
            seconds_goal=limit_s,
            **_gavel(settings.gavel, policy, case, timed),
        )
        rows.append(row)
    return rows


def _gavel(gavel: Gavel, policy: str, case: Any, timed: Any) -> dict[str, Any]:
    """Gavel's columns of a row."""
    found = gavel.solve(policy, case, repeats=3 if case.scale.size <= 1024 else 1)
    if not found:
        return {"peer": "Gavel", "note": "not measured: --gavel DIR"}
    value = gavel_value(policy, case, found["X"])
    said = "" if found["optimal"] else ", says not optimal"
    return {
        "peer": f"Gavel ({found['solver']})",
        "peer_s": found["seconds"],
        "note": agreement(value, timed.solution) + said,
    }


def _against_cvxpy(settings: Settings) -> list[Row]:
    """P3, P4: beside the textbook's problem in cvxpy, eight types."""
    size, middle = (256, 256) if settings.quick else (16384, 4096)
    medium, wide = draw(middle, 8, settings.data), draw(size, 8, settings.data)
    seconds, value = plain(MAX_MIN, medium, "HIGHS", LIMIT_S)
    timed = ours(MAX_MIN, medium)
    defaults = timed.row(
        *("P3", f"{MAX_MIN}, {middle} x 8", ">= 400 x plain cvxpy + HiGHS"),
        peer="cvxpy + HIGHS",
        peer_s=seconds,
        ratio_goal=400,
        note=agreement(value, timed.solution),
    )
    name, seconds, value = best_plain(MAX_MIN, wide, installed("ECOS", "CLARABEL"), LIMIT_S)
    timed = ours(MAX_MIN, wide)
    best = timed.row(
        *("P4", f"{MAX_MIN}, {size} x 8", ">= 100 x the best plain solver"),
        peer=f"cvxpy + {name}",
        peer_s=seconds,
        ratio_goal=100,
        note=agreement(value, timed.solution),
    )
    return [defaults, best]


def _pop(settings: Settings) -> list[Row]:
    """P5: partitions of POP, every one of them solved by the fastest plain solver."""
    jobs, parts = (256, (4,)) if settings.quick else (16384, (4, 16, 64))
    case = draw(jobs, 3, settings.data)
    solver = installed("ECOS", "CLARABEL")[0]
    timed = ours(MAX_MIN, case)
    rows = []
    for count in parts:
        total_s, slowest_s, value = pop(MAX_MIN, case, count, solver)
        loss = 1 - value / timed.solution.objective
        row = timed.row(
            *("P5", f"{MAX_MIN}, {jobs} x 3", ">= 30 x POP in all, never slower than a part"),
            peer=f"POP-{count}, {solver}",
            peer_s=total_s,
            ratio_goal=30,
            seconds_goal=slowest_s,
            note=f"POP loses {loss:.2%}; slowest part {slowest_s:.2g} s",
        )
        rows.append(row)
    return rows


def _unique(settings: Settings) -> list[Row]:
    """P10: nothing repeats."""
    rows = []
    for jobs in (256,) if settings.quick else (4096, 16384):
        case = draw(jobs, 8, settings.data, unique=True)
        name, seconds, value = best_plain(MAX_MIN, case, installed("ECOS", "CLARABEL"), LIMIT_S)
        timed = ours(MAX_MIN, case, repeats=2)
        goal, ratio = ("P10", 5) if jobs < 16384 else ("S7", 8)
        row = timed.row(
            *(goal, f"{MAX_MIN}, {jobs} x 8, all different", f">= {ratio} x the best plain solver"),
            peer=f"cvxpy + {name}",
            peer_s=seconds,
            ratio_goal=ratio,
            note=agreement(value, timed.solution),
        )
        rows.append(row)
    return rows


def million(settings: Settings) -> list[Row]:
    """P11 and S8: a million jobs, and how seconds grow from a tenth of them."""
    jobs = 4096 if settings.quick else 2**20
    case, fewer = (draw(each, 8, settings.data) for each in (jobs, jobs // 10))
    rows = []
    for policy, limit_s in ((MAX_MIN, 0.15), ("makespan", 1.0), ("finish_time_fairness", 1.0)):
        timed, tenth = (ours(policy, each, repeats=3, called=False) for each in (case, fewer))
        exponent = np.log10(timed.both_s / tenth.both_s)
        row = timed.row(
            *("S8", f"{policy}, {jobs} x 8", f"both <= {limit_s:g} s, exponent <= 1.05"),
            seconds_goal=limit_s,
            exponent=float(exponent),
            exponent_goal=1.05,
            note=f"exponent of the last decade {exponent:.2f}",
        )
        rows.append(row)
        if policy == MAX_MIN:
            rows.append(timed.row("P11", f"{MAX_MIN}, {jobs} x 8", "<= 100 ms", seconds_goal=0.1))
    return rows


def _every_solver(settings: Settings) -> list[Row]:
    """Small and middling problems, with little to gain, by every solver that is installed."""
    rows = []
    for jobs in (64,) if settings.quick else (64, 256, 1024):
        case = draw(jobs, 3, settings.data)
        timed = ours(MAX_MIN, case)
        peers = {
            f"cvxpy + {solver}": plain(MAX_MIN, case, solver, LIMIT_S)
            for solver in installed("HIGHS", "CLARABEL", "ECOS")
        }
        peers["scipy linprog"] = scipy_max_min(case)
        found = _gavel(settings.gavel, MAX_MIN, case, timed)
        if not np.isnan(found.get("peer_s", np.nan)):
            rows.append(timed.row("-", f"{MAX_MIN}, {jobs} x 3", **found))
        rows += [
            timed.row(
                *("-", f"{MAX_MIN}, {jobs} x 3"),
                peer=name,
                peer_s=seconds,
                note=agreement(value, timed.solution),
            )
            for name, (seconds, value) in peers.items()
        ]
    return rows
