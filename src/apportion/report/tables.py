"""The summary in human units: hours, percent, dollars; aligned text for terminals and pipes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from apportion.table_checks import check_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import pandas as pd

__all__ = [
    "LEGEND",
    "MEASURES",
    "HumanTable",
    "Measure",
    "aligned_text",
    "human_measures",
    "human_table",
    "longest_time_s",
    "notes_on",
    "time_unit",
]


_SHORT_S = 3600.0
"""Times of which none is longer are shown in seconds."""


RoomFor = Literal["racks", "requests"]


@dataclass(frozen=True)
class Measure:
    """One column of the summary as people read it: value / `scale`, in `unit`.

    Columns that are not `brief` are for the report, which has the room. On the terminal some make
    `room_for` what only runs on racks have, or runs that serve requests.
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
    Measure("cost", "cost", "$", 1.0, room_for=("requests",)),
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

LEGEND: Mapping[str, str] = MappingProxyType(
    {
        "mean JCT": "JCT: completion minus arrival.",
        "max FTF": "FTF: JCT over the time in an isolated 1/n share.",
        "in time": "In time: deadlines that were met.",
        "Jain": "Jain: index of the shares, 1 where all are equal.",
        "weighted": "Weighted: the same of share over weight.",
        "p95 wait": "Wait: time without GPUs.",
        "comm.": "Comm.: mean exposed communication.",
        "p99 delay": "Delay: of a request, until it has a GPU.",
        "given away": "Given away: GPU time with a job, a request or a loaded service.",
        "in use": "In use: without pauses.",
        "computing": "Computing: without what is only kept loaded.",
        "iteration": "Iteration: mean time of one over that of one that has the links for itself.",
        "loops": "Loops: candidate placements that would make a loop of jobs and links.",
    }
)
"""What the abbreviations in a header stand for, by the column that they belong to."""


@dataclass(frozen=True)
class HumanTable:
    """A table of text ready to print: header, units, cells, and which cells are the best.

    The first `keys` columns say what a row is about. `doubt` names the rows whose figures rest on
    solves that were not certified.
    """

    header: tuple[str, ...]
    units: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    best: tuple[tuple[bool, ...], ...]
    keys: int = 1
    doubt: str = ""

    @property
    def legend(self) -> str:
        """What the abbreviations in the header stand for, and what is in doubt."""
        named = [text for name, text in LEGEND.items() if name in self.header]
        return " ".join([*named, *filter(None, [self.doubt])])

    def blocks(self, width: int, gap: int = 2) -> list[HumanTable]:
        """Part the columns into tables no wider than a terminal, each with the columns of keys.

        A block has one column of figures at least, however narrow the terminal is.

        Parameters
        ----------
        width
            Of the terminal, characters.
        gap
            Characters beside each column.
        """
        texts = zip(*(self.header, self.units, *self.cells), strict=True)
        widths = [gap + max(map(len, column)) for column in texts]
        room = width - sum(widths[: self.keys])
        parts: list[list[int]] = [[]]
        for column in range(self.keys, len(widths)):
            if parts[-1] and sum(widths[each] for each in [*parts[-1], column]) > room:
                parts.append([])
            parts[-1].append(column)
        return [self._with([*range(self.keys), *part]) for part in parts]

    def _with(self, columns: Sequence[int]) -> HumanTable:
        """Return the table with some of its columns."""

        def chosen(row: Sequence[Any]) -> tuple[Any, ...]:
            return tuple(row[column] for column in columns)

        return HumanTable(
            header=chosen(self.header),
            units=chosen(self.units),
            cells=tuple(map(chosen, self.cells)),
            best=tuple(map(chosen, self.best)),
            keys=self.keys,
        )

    def __str__(self) -> str:
        """Aligned plain text, a star behind the best value of each column."""
        rows = [
            [name, *(text + ("*" if star else " ") for text, star in zip(row, marks, strict=True))]
            for (name, *row), (_, *marks) in zip(self.cells, self.best, strict=True)
        ]
        header = [[name, *(f"{text} " for text in row)] for name, *row in (self.header, self.units)]
        return aligned_text([*header, *rows], gap=1)


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
    keys: Sequence[str] = ("policy",),
    measures: Sequence[Measure] = MEASURES,
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
        Columns that say what a row is about.
    measures
        Columns of figures, as far as they are there.
    """
    check_columns("The summary", summary, keys)
    shown = [measure for measure in measures if _is_shown(measure, summary, brief=brief)]
    if longest_s is None:
        longest_s = longest_time_s(summary)
    shown = [_in_unit(measure, *time_unit(longest_s)) for measure in shown]
    columns = [_column(summary[measure.column].to_numpy(float), measure) for measure in shown]
    texts = [*(list(map(str, summary[key])) for key in keys), *(text for text, _ in columns)]
    marks = [*([False] * len(summary) for _ in keys), *(mark for _, mark in columns)]
    return HumanTable(
        header=(*keys, *(measure.label for measure in shown)),
        units=(*("" for _ in keys), *(measure.unit for measure in shown)),
        cells=tuple(zip(*texts, strict=True)),
        best=tuple(zip(*marks, strict=True)),
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
    needed = {"racks": "communication_s", "requests": "slo_attainment"}
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
        text = f"{number:,.{decimals}f}" if np.isfinite(number) else "-"
        rows.append((str(measure), text, shown))
    return rows


def _column(values: np.ndarray, measure: Measure) -> tuple[list[str], list[bool]]:
    """Format one column with one number of decimals, and mark its best values."""
    shown = values / measure.scale
    known = shown[np.isfinite(shown)]
    largest = float(np.abs(known).max()) if known.size else 0.0
    # Large values would need wide columns, and their cents or hundredths say nothing.
    decimals = min(measure.decimals, 0 if largest >= 10_000 else 1 if largest >= 1000 else 2)
    texts = [f"{value:,.{decimals}f}" if np.isfinite(value) else "-" for value in shown]
    if not measure.better or len(set(texts)) == 1 or not known.size:
        return texts, [False] * len(texts)
    best = known.min() if measure.better == "low" else known.max()
    return texts, [text == f"{best:,.{decimals}f}" for text in texts]


def notes_on(notes: Iterable[str], settings: Mapping[str, Any]) -> list[str]:
    """Return what a reader of figures must know: notes on the workload, and what is free of charge.

    Parameters
    ----------
    notes
        Those of the workload.
    settings
        Of the simulation, by name, every one that the mechanism has.
    """
    free = settings.get("preemption_overhead_seconds", 0.0) == 0
    shared_out = settings.get("mechanism") in ("rounds", "exact")
    return [*notes, *["starts and preemptions cost no time"] * (free and shared_out)]


def aligned_text(rows: list[list[str]], *, left: Collection[int] = (0,), gap: int = 2) -> str:
    """Join rows of cells into lines; the columns `left` to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append((" " * gap).join(cells).rstrip())
    return "\n".join(lines)
