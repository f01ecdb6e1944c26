"""Seconds that one solve of a policy takes, against the number of jobs.

``python -m benchmarks.policy_runtime`` times the first stage, both stages and the labelled
`apportion.solve`; beside them the same problem written straight in cvxpy and solved by HiGHS,
Clarabel and, where it is installed, ECOS with their defaults; and with ``--gavel DIR`` Gavel's own
code. All of it is CPU time of one thread in the same run, on jobs of Gavel's mix that want twice
the GPUs there are, so that capacities bind.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.policies import get_policy, solve_instance
from benchmarks.experiment import DATA, data_of
from benchmarks.readme import PAGES, with_block
from benchmarks.reporting import machine, progress, show, write_csv
from benchmarks.speed.gavel import Gavel
from benchmarks.speed.measure import Settings, cpu_seconds, in_turn, two_digits
from benchmarks.speed.peers import gavel_value, installed, plain
from benchmarks.speed.problems import binding_cases, draw

if TYPE_CHECKING:
    from benchmarks.speed.problems import Case

POLICIES = ("max_min_fairness", "makespan", "finish_time_fairness", "fifo")
SIZES = (32, 128, 512, 1024, 4096, 16384)
QUICK_SIZES = (32, 128)
PLAIN = {"HIGHS": "HiGHS", "CLARABEL": "Clarabel", "ECOS": "ECOS"}
OURS = ("first stage", "both stages", "ap.solve")
SMALL_GAIN = 2.0
GAVEL_UP_TO = {"finish_time_fairness": 4096}
"""Jobs above which Gavel's code, with a scalar expression for each, takes minutes."""


def main() -> None:
    """Time every policy at every size, print the table, write it and a plot."""
    options = _options()
    settings = Settings(options.quick, data_of(options), Gavel(options.gavel))
    sizes = QUICK_SIZES if options.quick else options.sizes
    print(f"Policy runtime on {machine()}")
    rows = []
    for policy in POLICIES:
        for jobs in sizes:
            progress(f"{policy}, {jobs} jobs")
            rows.append(_row(policy, jobs, settings, options.limit_seconds))
    progress("")
    table = pd.DataFrame(rows)
    show(table)
    _say_what_it_shows(table, options.limit_seconds)
    write_csv(table, options.out, "policy_runtime")
    if options.out is not None:
        _plot(table, options.out)
    if options.write:
        _write(table)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.policy_runtime")
    parser.add_argument("--quick", action="store_true", help="two small sizes")
    parser.add_argument("--data", type=Path, default=DATA, metavar="PATH", help="Gavel's data")
    parser.add_argument("--gavel", type=Path, metavar="DIR", help="a checkout of Gavel's code")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write a csv and a plot")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of jobs")
    parser.add_argument(
        "--write", action="store_true", help="write the table into docs/reference/policies.md"
    )
    parser.add_argument(
        "--limit-seconds", type=float, default=20.0, metavar="S", help="for a plain solve"
    )
    return parser.parse_args()


def _row(policy: str, jobs: int, settings: Settings, limit_s: float) -> dict[str, Any]:
    """Time one policy at one size."""
    case = binding_cases(policy, 1, lambda seed: draw(jobs, 3, settings.data, seed=seed))[0]
    speed, cluster, table = case.labelled
    chosen, instance = get_policy(policy), case.instance
    solution = solve_instance(chosen, instance)
    calls = {
        "first stage": partial(solve_instance, chosen, instance, second_stage=False),
        "both stages": partial(solve_instance, chosen, instance),
        "ap.solve": partial(ap.solve, chosen, speed, workers=cluster, jobs=table),
    }
    row: dict[str, Any] = {
        "policy": policy,
        "jobs": jobs,
        "classes": solution.stats["classes"],
        "gap": solution.gap,
    }
    row |= in_turn(calls, 2 if settings.quick else 5 if jobs <= 1024 else 3)
    differ = [0.0]
    for solver, name in PLAIN.items():
        seconds, value = _plain(policy, case, solver, limit_s)
        row[name] = seconds
        if value is not None:
            differ.append(abs(value / solution.objective - 1))
    row["differ"] = max(differ)
    row |= _gavel(policy, case, settings.gavel, solution.objective)
    plain_s = np.nanmin([*(row[name] for name in PLAIN.values()), np.inf])
    row["x plain"], row["x Gavel"] = plain_s / row["ap.solve"], row["Gavel"] / row["ap.solve"]
    return row


def _plain(policy: str, case: Case, solver: str, limit_s: float) -> tuple[float, float | None]:
    """Time the textbook form; NaN where the solver cannot, or not within the limit."""
    cannot = solver == "HIGHS" and policy == "finish_time_fairness"  # not a linear program
    if cannot or not installed(solver):
        return np.nan, None
    plain(policy, case.part(np.arange(8)), solver, limit_s)  # imports and first calls
    seconds, value = cpu_seconds(partial(plain, policy, case, solver, limit_s))
    return (np.nan if value is None else seconds), value


def _gavel(policy: str, case: Case, gavel: Gavel, objective: float) -> dict[str, float]:
    """Seconds of Gavel's own code, and how far its objective is from the optimum."""
    asked = policy != "fifo" and case.scale.size <= GAVEL_UP_TO.get(policy, case.scale.size)
    found = gavel.solve(policy, case) if asked else {}
    if not found:
        return {"Gavel": np.nan, "Gavel off": np.nan}
    value = gavel_value(policy, case, found["X"])
    off = np.nan if value is None else abs(value / objective - 1)
    return {"Gavel": found["seconds"], "Gavel off": off}


def _say_what_it_shows(table: pd.DataFrame, limit_s: float) -> None:
    """State the reading of the columns, and where little or nothing is gained."""
    print(
        "\nCPU seconds, ours medians. first stage: from arrays, what plain cvxpy does as well. "
        "differ: largest\nrelative difference of the objectives from plain solves. Gavel off: of "
        "Gavel's objective from the\noptimum (its makespan is by bisection). x plain: the fastest "
        "plain solve over ap.solve.\n-: not a linear program, not installed, not asked for, or not "
        f"done in {limit_s:g} s."
    )
    small = table[table["x plain"] < SMALL_GAIN]
    if not small.empty:
        print(f"Gain below {SMALL_GAIN:g} (below 1 apportion is the slower one):")
        for policy, rows in small.groupby("policy", sort=False):
            found = (
                f"{jobs} jobs {gain:.2g}"
                for jobs, gain in zip(rows["jobs"], rows["x plain"], strict=True)
            )
            print(f"  {policy}: {', '.join(found)}")


def _write(table: pd.DataFrame) -> None:
    """Put the table into its page."""
    page = PAGES["policies"]
    text = page.read_text(encoding="utf-8")
    page.write_text(with_block(text, "policy_runtime", _markdown(table)), "utf-8")


def _markdown(table: pd.DataFrame) -> str:
    """Write the seconds as a table of a page."""
    facts = ["jobs", "classes"]
    columns = [*facts, *OURS, *(f"{name}" for name in PLAIN.values()), "Gavel"]
    titles = [f"cvxpy + {name}" if name in PLAIN.values() else name for name in columns]
    lines = [f"| policy | {' | '.join(titles)} |", "|---" * (len(columns) + 1) + "|"]
    for _, row in table.iterrows():
        cells = [str(row[name]) if name in facts else two_digits(row[name]) for name in columns]
        lines.append(f"| `{row['policy']}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _plot(table: pd.DataFrame, folder: Path) -> None:
    """Draw seconds against jobs, one panel per policy."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("No plot: matplotlib is not installed (pip install apportion[plot]).")
        return
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    panels = figure.subplots(1, len(POLICIES), sharey=True)
    for axes, policy in zip(panels, POLICIES, strict=True):
        rows = table[table["policy"] == policy]
        for column in (*OURS, *PLAIN.values(), "Gavel"):
            axes.loglog(rows["jobs"], rows[column], marker="o", markersize=3, label=column)
        axes.set(title=policy, xlabel="jobs")
    panels[0].set_ylabel("CPU seconds per solve")
    lines, labels = panels[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=len(labels), fontsize="small")
    figure.savefig(folder / "policy_runtime.svg")
    print(f"Written: {folder / 'policy_runtime.svg'}")


if __name__ == "__main__":
    main()
