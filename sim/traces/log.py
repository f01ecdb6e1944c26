"""Logs as they are: lines that cannot be used are left out, counted, and told by their numbers.

Of a log in JSON, a list of items, each item is told by its number.
"""

from __future__ import annotations

import csv
import json
import math
import re
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.cluster import is_slice
from apportion.errors import InputError, written
from apportion.sim.traces.assemble import accelerator_of, from_durations, from_steps
from apportion.sim.traces.table import TraceTable, check_head, counted, head_of, lines_told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile


_PODS = re.compile(r"(num|n)?_?(inst(ance)?|worker|pod|replica)s?(_?(num|count))?", re.IGNORECASE)
_SAME_S = 1.0
"""By so much lengths of time may differ that are counted in whole seconds."""
_REASONS_SHOWN = 20
"""Reasons for which lines are left out that have a note of their own."""
_DETAIL = re.compile(r"(?<= is ).*(?=; it must be )|\d+ fields?", re.DOTALL)
"""What differs between lines that are left out for one reason: what stands there."""


class Log:
    """The lines of a log that are left, and what became of the others.

    Parameters
    ----------
    table
        All lines; takes down what is wrong with them.
    unit
        What the numbers of the rows count, "line" or "item".
    """

    def __init__(self, table: TraceTable, unit: str = "line") -> None:
        self._unit = unit
        self._refused: dict[int, str] = {} if table.refused is None else table.refused
        self.table = replace(table, refused=self._refused)
        self._lines = len(table.rows) + len(self._refused)
        self._notes: list[str] = []

    def leave_out(self, out: pd.Series, why: str) -> None:
        """Leave out lines; `why` is said of each of them, "they are steps of jobs"."""
        here = self.table.rows.index
        out = out.reindex(here, fill_value=False) & ~here.isin(list(self._refused))
        self.say(out, f"left out because {why}")
        self.table = self.table.where(~out)

    def leave_out_gangs_on_slices(self, gpus: pd.Series, on: pd.Series) -> None:
        """Leave out jobs with several parts of GPUs: nothing is known of their speed."""
        gangs = (gpus > 1) & on.map(is_slice)
        self.leave_out(gangs, "they had several parts of GPUs, on which gangs do not run")

    def ids(self, column: str) -> pd.Series:
        """Return a column of texts, and refuse the lines whose text stands before."""
        cells = self.table.texts(column)
        self.table.refuse(cells, cells.duplicated(), "an id of its own")
        return cells

    def refuse_before(
        self, earlier: str, earlier_s: pd.Series, later: str, later_s: pd.Series
    ) -> None:
        """Refuse the lines of which one time lies before another, by the names of their columns."""
        here = self.table.rows.index
        wrong = (later_s < earlier_s).reindex(here, fill_value=False)
        self.table.refuse(self.table.rows[later], wrong, f"{earlier} or later")

    def runs(self, columns: Sequence[str], times_s: Sequence[pd.Series]) -> pd.DataFrame:
        """Return arrival, start, end and length of jobs; leave out those of no length.

        Parameters
        ----------
        columns
            Of arrival, start and end, for messages.
        times_s
            What stands there.
        """
        for (earlier, before_s), (later, after_s) in pairwise(zip(columns, times_s, strict=True)):
            self.refuse_before(earlier, before_s, later, after_s)
        arrival_s, start_s, end_s = times_s
        self.leave_out(start_s == end_s, "they never ran")
        jobs = {"arrival_s": arrival_s, "duration_s": end_s - start_s}
        jobs |= {"recorded_start_s": start_s, "recorded_end_s": end_s}
        return pd.DataFrame(jobs).loc[self.table.rows.index]

    def keep_states(self, column: str, known: Sequence[str], wanted: Sequence[str] | None) -> None:
        """Refuse unknown states, and leave out the jobs in others than those wanted."""
        state = self.table.texts(column)
        self.table.refuse(state, ~state.isin(known), f"one of {', '.join(known)}")
        if wanted is not None:
            self.leave_out(~state.isin([*wanted]), "they are in another state")

    def say(self, which: pd.Series, what: str) -> None:
        """Tell of some lines what is assumed of them, if there are any."""
        if which.any():
            self._notes.append(f"{what}: {self._lines_of(which.index[which])}")

    def readable(self, jobs: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of lines that are still there and have nothing wrong with them."""
        left = jobs[jobs.index.isin(self.table.rows.index)]
        return left[~left.index.isin(list(self._refused))]

    def notes(self, jobs: int) -> list[str]:
        """Return what was read, left out and assumed, when so many jobs are left."""
        first = f"{counted(self._lines, self._unit)} read, {counted(jobs, 'job')}"
        alike: dict[str, list[int]] = {}
        for line, why in sorted(self._refused.items()):
            alike.setdefault(_DETAIL.sub("", why), []).append(line)
        groups = list(alike.values())
        shown = [self._left_out(lines) for lines in groups[:_REASONS_SHOWN]]
        more = sorted(line for lines in groups[_REASONS_SHOWN:] for line in lines)
        rest = [f"left out because they are malformed, too: {self._lines_of(more)}"] if more else []
        return [first, *self._notes, *shown, *rest]

    def _left_out(self, lines: list[int]) -> str:
        """Say that lines are left out for one reason, which the first of them shows."""
        where, why = f"{self._unit} {lines[0]}", self._refused[lines[0]]
        if len(lines) == 1:
            return f"{where} left out: {why}"
        return f"left out because, as in {where}, {why.rstrip('.')}: {self._lines_of(lines)}"

    def nothing_left(self) -> InputError:
        """Build the error for a log without a job that can be used."""
        told = "; ".join(note.rstrip(".") for note in self.notes(0)[:4])
        return InputError(f"{self.table.file.path} holds no job that ran on a GPU: {told}.")

    def _lines_of(self, lines: Iterable[int]) -> str:
        return lines_told(lines, self._unit)

    def say_types(self, jobs: pd.DataFrame, by_type: pd.Series) -> None:
        """Tell which jobs had GPUs of other types than the one that they are read with."""
        others: dict[tuple[str, str], int] = {}
        hours = 0.0
        several = by_type.loc[jobs.index].map(len) > 1
        for line in several.index[several]:
            most = jobs["recorded_on"][line]
            kinds = {kind: accelerator_of(kind) != accelerator_of(most) for kind in by_type[line]}
            several[line] = any(kinds.values())
            for kind in [name for name, another in kinds.items() if another]:
                others[kind, most] = others.get((kind, most), 0) + by_type[line][kind]
                hours += by_type[line][kind] * jobs["duration_s"][line] / 3600
        told = ", ".join(
            f"{counted(gpus, 'GPU')} of {kind or 'no type'} as {most}"
            for (kind, most), gpus in others.items()
        )
        self.say(
            several,
            f"jobs on GPUs of several types, counted wholly as the type of most of them "
            f"({told}: {hours:,.1f} GPU-hours)",
        )


def from_log(
    log: Log, jobs: pd.DataFrame, options: ReadOptions, notes: Sequence[str] = ()
) -> Workload:
    """Make a workload of the jobs of a log that can be used, with its notes, then those given.

    Parameters
    ----------
    log, options
        The log, and what the user chose.
    jobs
        By line: ``job``, the ids, if there are any, and columns as in
        `apportion.sim.traces.assemble.from_durations`; or also job_type and total_steps.
    notes
        What else is to be said.

    Raises
    ------
    InputError
        If no job is left, and as the functions that make the workload.
    """
    jobs = log.readable(jobs)
    if jobs.empty:
        raise log.nothing_left()
    file, lines, notes = log.table.file, jobs.index, [*log.notes(len(jobs)), *notes]
    jobs = jobs.set_index("job") if "job" in jobs else jobs.reset_index(drop=True)
    if "total_steps" not in jobs:
        return from_durations(file, jobs, options, notes)
    jobs["arrival_s"] -= jobs["arrival_s"].min()
    return from_steps(file, jobs, lines, options, notes)


def pods_column(names: Iterable[str]) -> str | None:
    """Return the column that tells of how many pods, of so many GPUs each, a job consists."""
    return next((name for name in names if _PODS.fullmatch(name)), None)


def pods_notes(rows: pd.DataFrame) -> list[str]:
    """Say that a column seems to tell of pods, and does not count, if there is one."""
    name = pods_column(rows.columns)
    several = None if name is None else pd.to_numeric(rows[name], errors="coerce") > 1
    if several is None or not several.any():
        return []
    what = f"{name} does not count; if GPUs are those of each, columns= takes"
    return [f"{what} {name}=workers: {lines_told(several.index[several])}"]


def of_one_type(by_type: pd.Series) -> pd.DataFrame:
    """Count the GPUs of each line, and name the type of most of them.

    Parameters
    ----------
    by_type
        How many of each type, as a mapping; of those with an empty name it is not said.
    """
    rows = [
        (sum(gpus.values()), max(gpus, key=lambda kind: (kind != "", gpus[kind]), default=""))
        for gpus in by_type
    ]
    return pd.DataFrame(rows, by_type.index, ["scale_factor", "recorded_on"])


def other_lengths(jobs: pd.DataFrame) -> tuple[pd.Series, str]:
    """Return whose duration is not from start to end, and by how many GPU-hours in all."""
    took_s = jobs["recorded_end_s"] - jobs["recorded_start_s"]
    differs = (jobs["duration_s"] - took_s).abs() > _SAME_S
    more = (jobs["scale_factor"] * (jobs["duration_s"] - took_s))[differs].sum() / 3600
    return differs, f"{abs(more):,.1f} GPU-hours {'more' if more > 0 else 'less'}"


def read_log(
    file: TextFile,
    separator: str | None,
    names: Sequence[str] | None = None,
    *,
    comment: str | None = None,
) -> Log:
    """Split a file into lines and cells; lines with too few or too many cells are left out.

    Parameters
    ----------
    file
        The log.
    separator
        Between cells; cells may be quoted if it is a comma. ``None`` for blanks.
    names
        Of the columns, of which there may be fewer than given; by default the first line has them,
        and lines that repeat it are left out.
    comment
        Begins lines that are none of the log.

    Raises
    ------
    InputError
        For a file that is no text, a column name that stands twice, and a file without rows.
    """
    check_head(file)
    lines = _numbered(file, comment)
    if names is None:
        names = head_of(file, next(_cells(iter([(file.first_line, file.head)]), separator))[1])
        lines = ((line, text) for line, text in lines if line != file.first_line)
    ends = names[-1] == ""  # as sacct -p ends its lines
    columns = list(names[:-1] if ends else names)
    kept, rows, refused = [], [], {}
    for line, cells in _cells(lines, separator):
        if len(cells) == len(names):
            kept.append(line)
            rows.append(cells[: len(columns)])
        else:
            refused[line] = f"it has {counted(len(cells), 'field')}; expected {len(names)}."
    if not kept:
        hint = f" Line {min(refused)}: {refused[min(refused)]}" if refused else ""
        raise InputError(f"{file.path} has no rows below its column names.{hint}")
    table = np.array(rows, dtype=object).reshape(len(kept), len(columns))
    frame = pd.DataFrame(table, index=kept, columns=columns).astype(str)
    log = Log(TraceTable(file, frame.where(frame != ""), refused))
    repeated = (frame == columns).all(axis=1)
    log.leave_out(repeated, "they repeat the column names")
    return log


def _numbered(file: TextFile, comment: str | None) -> Iterator[tuple[int, str]]:
    """Go through the lines that are not blank, with their numbers."""
    for line, each in enumerate(file.text(lossy=True).split("\n"), start=file.first_line):
        if each.strip() and not (comment and each.lstrip().startswith(comment)):
            yield line, each.rstrip("\r")


def _cells(
    lines: Iterator[tuple[int, str]], separator: str | None
) -> Iterator[tuple[int, list[str]]]:
    """Split lines into cells without the blanks around them."""
    for line, text in lines:
        cells = text.split(separator)
        if separator == "," and '"' in text:
            with suppress(csv.Error):  # as it stands it has another number of cells
                cells = next(csv.reader([text], skipinitialspace=True))
        yield line, [each.strip() for each in cells]


def items_of(file: TextFile, key: str | None = None) -> list[Any]:
    """Return the list that a file holds, or that stands under a key of the object that it holds.

    Raises
    ------
    InputError
        For a file that is no JSON, naming the line, and for one without items.
    """
    content = file.json()
    if key is not None:
        content = content.get(key) if isinstance(content, dict) else None
    if not isinstance(content, list) or not content:
        where = "" if key is None else f" under {key!r}"
        raise InputError(f"{file.path} holds no list of items{where}; it must be one of objects.")
    return content


def read_items(
    file: TextFile,
    items: Sequence[Any],
    columns: Sequence[str],
    cells_of: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> Log:
    """Make a log of items, numbered from 1; those that are not what they should be are left out.

    Parameters
    ----------
    file
        Where they come from.
    items
        Values of JSON; each should be an object.
    columns
        Of the table.
    cells_of
        Turns an object into cells by column; what is left out or None is blank. What raises
        `InputError` is left out, and told in its words.
    """
    rows: dict[int, dict[str, Any]] = {}
    refused: dict[int, str] = {}
    for number, item in enumerate(items, start=1):
        try:
            if not isinstance(item, dict):
                raise InputError(f"it is {written(item)}; it must be an object.")
            rows[number] = {name: _cell(each) for name, each in cells_of(item).items()}
        except InputError as error:
            refused[number] = str(error)
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=[*columns], dtype=object)
    return Log(TraceTable(file, frame, refused), "item")


def objects_of(parent: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the objects that are listed under a key of an item; none where there is no such key.

    Raises
    ------
    InputError
        For anything else.
    """
    found = parent.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InputError(f"{key} is {written(found)}; it must be a list of objects.")
    return found


def _cell(value: Any) -> Any:
    """Return a value as cells of other logs have it: a text, or NaN where it is blank."""
    if value is None or value == "":
        return math.nan
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", "replace").decode("utf-8")  # JSON may hold halves of characters
