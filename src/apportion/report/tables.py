"""The summary in human units: hours, percent, dollars; aligned text for terminals and pipes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from apportion.mechanisms.start_costs import MEASURED, RESTART_S, measured_start_s
from apportion.statistics.tables import marks_of
from apportion.statistics.typeset import HumanTable
from apportion.table_checks import check_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

_SHORT_S = 3600.0
"""Times of which none is longer are shown in seconds."""


RoomFor = Literal["racks", "requests", "mechanisms"]


@dataclass(frozen=True)
class Measure:
    """One column of the summary as people read it: value / `scale`, in `unit`.

    Columns that are not `brief` are for the report, which has the room. On the terminal some make
    `room_for` what only runs on racks have, or runs that serve requests, or by several mechanisms.
    """

    column: str
    label: str
    unit: str
    scale: float
    better: Literal["low", "high", ""] = "low"
    decimals: int = 2
    brief: bool = True
    room_for: tuple[RoomFor, ...] = ()


_BOTH: tuple[RoomFor, ...] = ("racks", "requests")

MEASURES: tuple[Measure, ...] = (
    Measure("mean_jct_s", "mean JCT", "h", 3600.0),
    Measure("median_jct_s", "median JCT", "h", 3600.0, brief=False),
    Measure("p95_jct_s", "p95 JCT", "h", 3600.0),
    Measure("makespan_s", "makespan", "h", 3600.0),
    Measure("p95_queueing_s", "p95 wait", "h", 3600.0),
    Measure("p99_queueing_s", "p99 wait", "h", 3600.0, brief=False),
    Measure("communication_s", "comm.", "h", 3600.0),
    Measure("iteration_slowdown", "iteration", "alone", 1.0, decimals=3),
    Measure("looped_candidates", "loops", "%", 0.01, "", 1, brief=False),
    Measure("utilization", "busy", "%", 0.01, "high", 1),
    Measure("deadlines_met", "in time", "%", 0.01, "high", 1),
    Measure("ftf_max", "max FTF", "", 1.0, room_for=_BOTH),
    Measure("cost", "cost", "$", 1.0, room_for=("requests", "mechanisms")),
    Measure("preemptions", "preempted", "times", 1.0, "low", 0, room_for=("requests",)),
    Measure("restarts", "restarts", "a job", 1.0, "low", 1),
    Measure("paused_s", "paused", "s a job", 1.0, "low", 0),
    Measure("slo_attainment", "in SLO", "%", 0.01, "high", 2),
    Measure("p50_delay_s", "p50 delay", "s", 1.0, brief=False),
    Measure("p95_delay_s", "p95 delay", "s", 1.0, brief=False),
    Measure("p99_delay_s", "p99 delay", "s", 1.0),
    Measure("nominal_use", "given away", "%", 0.01, "high", 1, brief=False),
    Measure("real_use", "in use", "%", 0.01, "high", 1, brief=False),
    Measure("computing", "computing", "%", 0.01, "high", 1, brief=False),
    Measure("loaned_gpu_hours", "loaned", "GPU h", 1.0, "", 1, brief=False),
    Measure("reclaims", "reclaims", "times", 1.0, "low", 0),
    Measure("lost_gpu_seconds", "lost", "GPU h", 3600.0, "low", 2, brief=False),
    Measure("policy_seconds", "solving", "s", 1.0, "", 1, room_for=_BOTH),
)
"""The columns that the terminal and the report show, out of those of ``summary()``."""


def time_unit(longest_s: float) -> tuple[str, float]:
    """Return the unit, and its seconds, for times of which `longest_s` is the longest.

    Nobody reads a few seconds in hours.
    """
    return ("s", 1.0) if longest_s < _SHORT_S else ("h", 3600.0)


def human_table(
    summary: pd.DataFrame,
    *,
    brief: bool = False,
    longest_s: float | None = None,
    keys: Sequence[str] = (),
    measures: Sequence[Measure] = MEASURES,
    replicates: Mapping[str, np.ndarray] | None = None,
    marked: Sequence[str] | None = None,
) -> HumanTable:
    """Put the summary of a comparison into human units, without what no run knows.

    Parameters
    ----------
    summary
        One row per policy, columns as in ``Comparison.summary()``.
    brief
        Only what fits a terminal of 100 columns.
    longest_s
        The longest time, which decides the unit of all of them; by default that of the summary.
    keys
        Columns that say what a row is about; by default the policy, and its mechanism where that
        stands in the summary.
    measures
        Columns of figures, as far as they are there.
    replicates
        Of figures by their names, shape (policies that did not fail, replicates), by which the best
        are marked as `apportion.statistics.marks_of` says. Other columns have no marks: nobody
        knows whether the best one is best by more than noise.
    marked
        Policies among which the best are marked; by default all.
    """
    keys = list(keys) or ["policy", *["mechanism"] * ("mechanism" in summary)]
    check_columns("The summary", summary, keys)
    shown = [measure for measure in measures if _is_shown(measure, summary, brief=brief)]
    if longest_s is None:
        longest_s = longest_time_s(summary)
    shown = [_in_unit(measure, *time_unit(longest_s)) for measure in shown]
    figures = [_column(summary[measure.column].to_numpy(float), measure) for measure in shown]
    texts = [*(list(map(str, summary[key])) for key in keys), *figures]
    marks = [*([""] * len(summary) for _ in keys)]
    among = np.array([marked is None or each in marked for each in summary[keys[0]]], dtype=bool)
    marks += [_marks(measure, among, replicates or {}) for measure in shown]
    return HumanTable(
        header=(*keys, *(measure.label for measure in shown)),
        units=(*("" for _ in keys), *(measure.unit for measure in shown)),
        cells=tuple(zip(*texts, strict=True)),
        marks=tuple(zip(*marks, strict=True)),
        keys=len(keys),
        doubt=_doubt(summary),
    )


def _doubt(summary: pd.DataFrame) -> str:
    """Say which policies had solves not certified, or constraints that single rounds may exceed."""
    said = []
    if "uncertified_solves" in summary:
        doubtful = summary[summary["uncertified_solves"] > 0]
        counts = zip(doubtful["policy"], doubtful["uncertified_solves"], strict=True)
        named = ", ".join(f"{policy} {count:.0f}" for policy, count in counts)
        said += [f"Not certified as optimal, solves: {named}."] if named else []
    if "kept_on_average" in summary:
        some = summary[summary["kept_on_average"].fillna("") != ""]
        each = zip(some["policy"], some["kept_on_average"], strict=True)
        named = "; ".join(dict.fromkeys(f"{policy}: {labels}" for policy, labels in each))
        said += [f"Kept on average, not in each round: {named}."] if named else []
    return " ".join(said)


def longest_time_s(summary: pd.DataFrame) -> float:
    """Return the longest of the times of a summary, seconds; infinite without one."""
    names = [each.column for each in MEASURES if each.unit == "h" and each.column in summary]
    times_s = summary[names].to_numpy(float)
    return float(np.max(times_s, where=np.isfinite(times_s), initial=-np.inf)) if names else np.inf


def _in_unit(measure: Measure, unit: str, scale: float) -> Measure:
    """Return the measure in another unit of time, if it is one."""
    return replace(measure, unit=unit, scale=scale) if measure.unit == "h" else measure


def _is_shown(measure: Measure, summary: pd.DataFrame, *, brief: bool) -> bool:
    """Whether a column is wanted, and there is something in it."""
    needed = {"racks": "communication_s", "requests": "slo_attainment", "mechanisms": "mechanism"}
    makes_room = any(needed[each] in summary.columns for each in measure.room_for)
    wanted = not brief or (measure.brief and not makes_room)
    return wanted and measure.column in summary and bool(summary[measure.column].notna().any())


def human_measures(description: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Put measures (``Workload.describe()``) into rows of name, readable value and unit."""
    units = {"s": (1 / 3600, "h", 2), "share": (100.0, "%", 1)}
    rows = []
    for measure, value, unit in zip(
        description.index, description["value"], description["unit"], strict=True
    ):
        factor, shown, decimals = units.get(str(unit), (1.0, str(unit), 0 if value % 1 == 0 else 2))
        number = float(value) * factor
        known = np.isfinite(number)  # as a rate is not, where all jobs arrive at once
        told = (f"{number:,.{decimals}f}", shown) if known else ("-", "")
        rows.append((str(measure), *told))
    return rows


def _marks(measure: Measure, among: np.ndarray, replicates: Mapping[str, np.ndarray]) -> list[str]:
    """Mark the best of a column, as far as there are replicates; failed policies come last."""
    found = [""] * among.size
    if measure.better and measure.column in replicates:
        values = replicates[measure.column]
        rows = among[: len(values)].nonzero()[0]
        for row, mark in zip(
            rows, marks_of(values[rows], low=measure.better == "low"), strict=True
        ):
            found[row] = mark
    return found


def _column(values: np.ndarray, measure: Measure) -> list[str]:
    """Format one column with one number of decimals."""
    shown = values / measure.scale
    known = shown[np.isfinite(shown)]
    largest = float(np.abs(known).max()) if known.size else 0.0
    # Large values would need wide columns, and their cents or hundredths say nothing.
    decimals = min(measure.decimals, 0 if largest >= 10_000 else 1 if largest >= 1000 else 2)
    return [f"{value:,.{decimals}f}" if np.isfinite(value) else "-" for value in shown]


def notes_on(
    notes: Iterable[str], jobs: pd.DataFrame | None, *settings: Mapping[str, Any]
) -> list[str]:
    """Return what a reader of figures must know: notes on the workload, and what starts cost.

    Parameters
    ----------
    notes
        Those of the workload.
    jobs
        Those of the workload, if there is one; of several nobody knows all types.
    settings
        Of the simulations, by name, every one that the mechanism of each has.
    """
    free = any(
        each.get("preemption_overhead_seconds", 0.0) == 0
        for each in settings
        if each.get("mechanism") in ("rounds", "exact")
    )
    measured = any(each.get("preemption_overhead_seconds") == MEASURED for each in settings)
    said = [*["starts and preemptions cost no time"] * free]
    said += [_measured_starts(jobs)] if measured else []
    return [*notes, *said]


def _measured_starts(jobs: pd.DataFrame | None) -> str:
    """Say what starts cost as they were measured."""
    types = ["others", *RESTART_S] if jobs is None else jobs["job_type"].unique()
    low_s, *_, high_s = sorted(2 * list(map(measured_start_s, types)))
    span = f"{low_s:g} to {high_s:g} s by model" if low_s < high_s else f"{low_s:g} s"
    where = "docs/reference/simulator.md"
    logged = jobs is not None and "start_included" in jobs and bool(jobs["start_included"].all())
    first = "; the first start of a job is in the duration that its log has" * logged
    return f"a start or move costs {span}, as published ({where}){first}"
