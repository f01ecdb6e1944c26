"""Goals on a single decision: cold solves of one policy on one problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.policies import get_policy, solve_instance
from benchmarks.speed.baselines import best_plain, installed, plain, pop, scipy_max_min
from benchmarks.speed.harness import Row, cpu_seconds
from benchmarks.speed.problems import Case, draw

if TYPE_CHECKING:
    from apportion.policies.driver import Solution

__all__ = ["GAVEL_S", "decisions"]

# CPU seconds of Gavel's own code (cvxpy with ECOS, its own table of throughputs), on another
# machine; * by linear extrapolation from smaller sizes.
GAVEL_S = {
    ("max_min_fairness", 16384): 0.995,
    ("makespan", 16384): 1.8,  # *
    ("finish_time_fairness", 1024): 2.95,
    ("finish_time_fairness", 4096): 12.0,  # *
}
LIMIT_S = 60.0


def decisions(quick: bool) -> list[Row]:
    """Rows of the goals P1, P3 to P7, P10 and P11."""
    size = 256 if quick else 16384
    rows = [*_repeating(quick), *_pop(quick), _makespan(size)]
    rows += [_finish_time_fairness(jobs) for jobs in ((128,) if quick else (1024, 4096))]
    return [*rows, *_unique(quick), _million(4096 if quick else 2**20), *_every_solver(quick)]


def ours(policy: str, case: Case, repeats: int = 5, **options: Any) -> tuple[float, Solution]:
    """CPU seconds of one solve from arrays to arrays, by default without the second stage.

    The prices of the others do not contain a choice among equal optima either.
    """
    chosen, instance = get_policy(policy), case.instance
    options = {"second_stage": False} | options
    return cpu_seconds(lambda: solve_instance(chosen, instance, **options), repeats)


def _row(goal: str, what: str, target: str, solved: tuple[float, Solution], **more: Any) -> Row:
    seconds, solution = solved
    return Row(
        goal,
        what,
        target,
        ours_s=seconds,
        classes=solution.stats["classes"],
        gap=solution.gap,
        **more,
    )


def _repeating(quick: bool) -> list[Row]:
    """P1, P3, P4: max-min fairness over jobs of few types."""
    policy, size, middle = "max_min_fairness", *((256, 256) if quick else (16384, 4096))
    large, wide, medium = draw(size, 3), draw(size, 8), draw(middle, 8)
    first = _row(
        *("P1", f"max-min, {size} x 3, cold", ">= 80 x Gavel's code, <= 12 ms"),
        ours(policy, large),
        theirs="Gavel's code (cited)",
        theirs_s=GAVEL_S.get((policy, size), np.nan),
    )
    first.met = first.ratio >= 80 and first.ours_s <= 0.012
    whole = _row(
        *("P1", "the same with the second stage", "-"), ours(policy, large, second_stage=True)
    )
    seconds, _ = plain(policy, medium, "HIGHS", LIMIT_S)
    defaults = _row(
        *("P3", f"max-min, {middle} x 8, cold", ">= 400 x plain cvxpy + HiGHS"),
        ours(policy, medium),
        theirs="cvxpy + HIGHS",
        theirs_s=seconds,
    )
    defaults.met = defaults.ratio >= 400
    name, seconds, value = best_plain(policy, wide, installed("ECOS", "CLARABEL"), LIMIT_S)
    solved = ours(policy, wide)
    best = _row(
        *("P4", f"max-min, {size} x 8, cold", ">= 100 x the best plain solver"),
        solved,
        theirs=f"cvxpy + {name}",
        theirs_s=seconds,
        note=_agreement(value, solved[1]),
    )
    best.met = best.ratio >= 100
    return [first, whole, defaults, best]


def _agreement(value: float | None, solution: Solution) -> str:
    """Say how far the other objective is from ours."""
    if value is None:
        return "the other found none"
    return f"objectives differ by {abs(value / solution.objective - 1):.0e}"


def _pop(quick: bool) -> list[Row]:
    """P5: partitions of POP, every one of them solved by the fastest plain solver."""
    policy, jobs = "max_min_fairness", 256 if quick else 16384
    case, solver = draw(jobs, 3), installed("ECOS", "CLARABEL")[-1]
    solved = ours(policy, case)
    rows = []
    for parts in (4,) if quick else (4, 16, 64):
        total_s, slowest_s, value = pop(policy, case, parts, solver)
        loss = 1 - value / solved[1].objective
        row = _row(
            *("P5", f"max-min, {jobs} x 3", "total CPU >= 30 x, never slower than a part"),
            solved,
            theirs=f"POP, {parts} parts ({solver})",
            theirs_s=total_s,
            note=f"slowest part {slowest_s:.3f} s; POP loses {loss:.2%}",
        )
        row.met = row.ratio >= 30 and row.ours_s <= slowest_s
        rows.append(row)
    return rows


def _makespan(jobs: int) -> Row:
    row = _row(
        *("P6", f"makespan, {jobs} x 3, cold", ">= 50 x Gavel's code, <= 25 ms, exact"),
        ours("makespan", draw(jobs, 3)),
        theirs="Gavel's code (cited, extrapolated)",
        theirs_s=GAVEL_S.get(("makespan", jobs), np.nan),
    )
    row.met = row.ratio >= 50 and row.ours_s <= 0.025 and row.gap <= 1e-8
    return row


def _finish_time_fairness(jobs: int) -> Row:
    policy, goal = "finish_time_fairness", 100 if jobs <= 1024 else 300
    row = _row(
        *("P7", f"finish-time fairness, {jobs} x 3, cold", f">= {goal} x Gavel's code, gap 1e-8"),
        ours(policy, draw(jobs, 3)),
        theirs=f"Gavel's code (cited{', extrapolated' if jobs > 1024 else ''})",
        theirs_s=GAVEL_S.get((policy, jobs), np.nan),
    )
    row.met = row.ratio >= goal and row.gap <= 1e-8
    return row


def _unique(quick: bool) -> list[Row]:
    """P10: nothing repeats."""
    policy, rows = "max_min_fairness", []
    for jobs, types in ((256, 8),) if quick else ((4096, 8), (16384, 8)):
        case = draw(jobs, types, unique=True)
        name, seconds, value = best_plain(policy, case, installed("ECOS", "CLARABEL"), LIMIT_S)
        solved = ours(policy, case, repeats=3)
        row = _row(
            *("P10", f"max-min, {jobs} x {types}, all different", ">= 5 x the best plain solver"),
            solved,
            theirs=f"cvxpy + {name}",
            theirs_s=seconds,
            note=_agreement(value, solved[1]),
        )
        row.met = row.ratio >= 5 and row.gap <= 1e-8
        whole = _row(
            *("P10", "the same with the second stage", "-"),
            ours(policy, case, repeats=1, second_stage=True),
        )
        rows += [row, whole]
    return rows


def _million(jobs: int) -> Row:
    row = _row(
        *("P11", f"max-min, {jobs} x 8", "<= 100 ms"),
        ours("max_min_fairness", draw(jobs, 8), repeats=3),
    )
    row.met = row.ours_s <= 0.1
    return row


def _every_solver(quick: bool) -> list[Row]:
    """One problem by every solver that is installed, and a small one, with little to gain."""
    policy, rows = "max_min_fairness", []
    for jobs in (64,) if quick else (64, 256, 1024):
        case = draw(jobs, 3)
        solved = ours(policy, case)
        timed = {
            f"cvxpy + {solver}": plain(policy, case, solver, LIMIT_S)
            for solver in installed("HIGHS", "CLARABEL", "ECOS", "SCS")
        }
        timed["scipy linprog"] = scipy_max_min(case)
        rows += [
            _row(
                *("-", f"max-min, {jobs} x 3, cold", "no goal"),
                solved,
                theirs=name,
                theirs_s=seconds,
                note=_agreement(value, solved[1]),
            )
            for name, (seconds, value) in timed.items()
        ]
    return rows
