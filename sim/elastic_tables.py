"""Elastic jobs of what users have: a table of speeds by number of GPUs and type, and of jobs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import number, whole
from apportion.errors import InputError, unknown_name, written
from apportion.estimators.goodput import (
    BatchLimits,
    GpuSpeeds,
    MeasuredApplication,
    MeasuredTraining,
)
from apportion.sim.elastic_workload import ElasticWorkload
from apportion.sim.traces.jobs_csv import jobs_column
from apportion.sim.traces.table import TraceTable, missing_column, users_table
from apportion.table_checks import as_floats, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SpeedsByGpus = pd.DataFrame | str | Path
"""A table or csv with columns application, gpus and one for each accelerator type."""

SPEEDS_HEADER = "application,gpus,a100,t4"
"""How the header of a csv of speeds may look."""

KEYS = ("application", "gpus")
"""Columns of a table of speeds beside the types."""

JOBS_OF_TABLE = ("arrival_s", "application", "total_steps")
"""Columns that jobs of a table must have."""

_WITH_UNIT = re.compile(
    r"(?P<kind>.+?)[\s_]*[\s_(\[](?P<unit>steps|samples|images|sequences|tokens|iterations|it)"
    r"(?:[\s_]*/[\s_]*|[\s_]+per[\s_]+)s(?:ec|econd)?[)\]]?",
    re.IGNORECASE,
)
"""A type with the unit of its speeds: ``t4 samples/s``, ``a100 (steps/sec)``."""

_MOST_SAMPLES = 1_000_000_000


def elastic_from_table(
    jobs: pd.DataFrame | str | Path,
    speeds: SpeedsByGpus,
    name: str | None = None,
) -> ElasticWorkload:
    """Make elastic jobs of tables; see `ElasticWorkload.from_table`."""
    rows = _jobs(jobs)
    wanted = rows["application"].drop_duplicates().tolist()
    known = _told(speeds)
    for job, application in rows["application"].items():
        if application not in known:
            raise unknown_name(f"application of job {written(job)}", application, known)
    applications = {each: told_application(each, known[each]) for each in wanted}
    if "gpus" not in rows:
        fewest = {each: _fewest(known[each]) for each in wanted}
        rows["gpus"] = rows["application"].map(fewest)
    given = Path(jobs).stem if isinstance(jobs, (str, Path)) else "own"
    note = "speeds are as told by number of GPUs; batches and machines do not count"
    made = rows.assign(batch=1)
    return ElasticWorkload(name or given, made, applications, notes=(note,))


def told_application(name: str, by_type: Mapping[str, Mapping[int, float]]) -> MeasuredApplication:
    """Return an application of which speeds are told by accelerator type and number of GPUs.

    It is trained with one batch, so that a step is worth the same with any number of GPUs. On
    types that are not told it cannot be asked for: its own profile is that of the first one.
    """
    epoch = pd.DataFrame({"progress": [1.0], "grad_sqr": [1.0], "grad_var": [0.0]})
    training = MeasuredTraining(name, {1: epoch, _MOST_SAMPLES: epoch})
    limits = BatchLimits(1, _MOST_SAMPLES)
    on_types = {
        kind: MeasuredApplication(name, GpuSpeeds(name, told), training, limits)
        for kind, told in by_type.items()
        if any(told.values())
    }
    if not on_types:
        raise InputError(f"The application {name!r} has no speed above 0 on any accelerator type.")
    nowhere = GpuSpeeds(name, {_MOST_SAMPLES: 1.0})
    return MeasuredApplication(name, nowhere, training, limits, on_types)


def _fewest(by_type: Mapping[str, Mapping[int, float]]) -> int:
    """Return the fewest GPUs with which an application runs on any type."""
    return min(int(n) for speeds in by_type.values() for n, speed in speeds.items() if speed)


def _jobs(jobs: pd.DataFrame | str | Path) -> pd.DataFrame:
    """Return the jobs of a table or file."""
    if isinstance(jobs, (str, Path)):
        lines = users_table(jobs)
        for name in JOBS_OF_TABLE:
            if name not in lines.rows:
                raise missing_column(lines.file, name, lines.rows.columns)
        columns = {name: _cells(lines, name) for name in lines.rows.columns if name != "job"}
        ids = lines.ids("job") if "job" in lines.rows else pd.RangeIndex(len(lines.rows))
        return pd.DataFrame(columns).set_axis(ids, axis=0)
    rows = table("The jobs", jobs)
    for name in JOBS_OF_TABLE:
        if name not in rows:
            has = ", ".join(map(str, rows.columns))
            raise InputError(f"The elastic jobs have no column {name!r}. They have: {has}.")
    return rows.set_index("job") if "job" in rows else rows.copy()


def _cells(lines: TraceTable, name: str) -> pd.Series:
    if name == "application":
        return lines.texts(name)
    if name == "gpus":
        return lines.numbers(name, "a whole number >= 1", least=1, whole=True)
    if name == "rigid":
        words = lines.texts(name).str.lower()
        lines.refuse(words, ~words.isin(["true", "false", "yes", "no"]), "True or False")
        return words.isin(["true", "yes"])
    return jobs_column(lines, name)


def _told(speeds: Any) -> dict[str, dict[str, dict[int, float]]]:
    """Return steps/s by application, accelerator type and number of GPUs, of a table or file."""
    if isinstance(speeds, (str, Path)):
        lines = users_table(speeds)
        who, given = str(lines.file.path), _columns(lines)
        rows = [f"{who}, line {line}" for line in given.index]
    else:
        who, given = (
            "table of speeds",
            table("The speeds", speeds, "numbers of GPUs of each application"),
        )
        given = given if "application" in given else given.reset_index()
        rows = [f"row {place} of the speeds" for place in range(len(given))]
    where = f"the header is {SPEEDS_HEADER}, with a column of steps/s for each accelerator type"
    for name in KEYS:
        if name not in given:
            raise InputError(f"The {who} has no column {name!r}; {where}.")
    kinds = _kinds(name for name in given.columns if name not in (*KEYS, "index"))
    if not kinds:
        raise InputError(f"The {who} has no column of an accelerator type; {where}.")
    values = {kind: as_floats(given[name]).tolist() for kind, name in kinds.items()}
    return _nested(given["application"].map(str).tolist(), given["gpus"].tolist(), values, rows)


def _columns(lines: TraceTable) -> pd.DataFrame:
    """Return the columns of a file of speeds by line, each checked."""
    columns = {}
    for name in lines.rows.columns:
        if name == "application":
            columns[name] = lines.texts(name)
        elif name == "gpus":
            columns[name] = lines.numbers(name, "a whole number >= 1", least=1, whole=True)
        else:
            columns[name] = lines.numbers(name, "steps/s, a number >= 0", optional=True)
    return pd.DataFrame(columns, index=lines.rows.index)


def _kinds(columns: Iterable[Any]) -> dict[str, Any]:
    """Return the column of each accelerator type; a unit of speeds behind its name is none of it.

    Raises
    ------
    InputError
        For columns of one type, and speeds in several units or in one that is none.
    """
    found: dict[str, Any] = {}
    units: dict[str, str] = {}
    for column in columns:
        with_unit = _WITH_UNIT.fullmatch(str(column).strip())
        kind = with_unit["kind"] if with_unit else str(column)
        if with_unit:
            units.setdefault(with_unit["unit"].lower(), str(column))
        if "/" in kind or kind in found:
            raise InputError(
                f"The column {written(str(column))} of the speeds is no accelerator type of its "
                f"own; a type is followed by nothing, or by its unit: t4, 't4 steps/s' or "
                f"'t4 samples/s'."
            )
        found[kind] = column
    if len(units) > 1:
        names = " and ".join(map(written, units.values()))
        raise InputError(f"The columns {names} of the speeds have several units; give one.")
    return found


def _nested(
    applications: list[str], counts: list[Any], values: dict[str, list[float]], rows: list[str]
) -> dict[str, dict[str, dict[int, float]]]:
    found: dict[str, dict[str, dict[int, float]]] = {}
    for place, (application, gpus, row) in enumerate(zip(applications, counts, rows, strict=True)):
        count = whole(f"gpus in {row}", gpus, 1, integral=True)
        for kind, column in values.items():
            told = found.setdefault(application, {}).setdefault(kind, {})
            if count in told:
                raise InputError(f"{row}: {application!r} with {count} GPUs stands there twice.")
            speed = 0.0 if np.isnan(column[place]) else column[place]
            told[count] = number(f"The steps/s on {kind!r} in {row}", speed)
    return found
