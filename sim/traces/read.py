"""One call for every trace: find the format, read the file, make a workload of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from apportion.annotations import checked
from apportion.checks import choice, whole
from apportion.checks import seed as check_seed
from apportion.errors import InputError, written
from apportion.own_code import answered_by
from apportion.registry import Registry
from apportion.sim.traces import gavel, jobs_csv, kueue, philly, published, sacct, swf
from apportion.sim.traces.assemble import ReadOptions
from apportion.sim.traces.named_columns import likely_columns, read_named_columns
from apportion.sim.traces.oracle import (
    is_oracle,
    read_pair_oracle,
    read_split_oracle,
    read_throughputs,
)
from apportion.sim.traces.table import missing_column, separator_of
from apportion.text_files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile

# Share of the columns of a format from which on a file is taken to be meant as one.
_LIKENESS = 0.5

Missing = Literal["error", "drop"]


@dataclass(frozen=True)
class TraceFormat:
    """A trace format.

    Attributes
    ----------
    meaning
        What it is.
    columns
        By which a file with column names is known.
    read
        Its reader.
    separator
        Between the column names.
    states
        How jobs may have ended, where ``states=`` can choose among them.
    knows
        Tells a file that has no column names.
    """

    meaning: str
    columns: tuple[str, ...]
    read: Callable[[TextFile, ReadOptions], Workload]
    separator: str = ","
    states: tuple[str, ...] = ()
    knows: Callable[[TextFile], bool] | None = None


TRACE_FORMATS: Registry[TraceFormat] = Registry(
    "trace format",
    "apportion.trace_formats",
    {
        "jobs": TraceFormat("csv of your own jobs", jobs_csv.COLUMNS, jobs_csv.read_jobs_csv),
        "gavel": TraceFormat(
            "Gavel or Shockwave, tab separated", (), gavel.read_gavel, knows=gavel.is_gavel
        ),
        "elasticflow": TraceFormat(
            "ElasticFlow",
            (*published.PUBLISHED["elasticflow"], "model_name", "batch_size"),
            published.read_elasticflow,
        ),
        "microsoft_itp": TraceFormat(
            "Microsoft ITP",
            (*published.PUBLISHED["microsoft_itp"],),
            published.read_microsoft_itp,
        ),
        "philly": TraceFormat(
            "Microsoft Philly", (*published.PUBLISHED["philly"],), published.read_philly
        ),
        "helios": TraceFormat(
            "SenseTime Helios",
            (*published.PUBLISHED["helios"],),
            published.read_helios,
            states=published.HELIOS_STATES,
        ),
        "openb": TraceFormat(
            "Alibaba openb, 2023",
            (*published.PUBLISHED["openb"], "gpu_milli"),
            published.read_openb,
        ),
        "philly_log": TraceFormat(
            "Microsoft Philly, cluster_job_log (JSON)",
            (),
            philly.read_philly_log,
            states=philly.STATES,
            knows=philly.is_philly_log,
        ),
        "kueue": TraceFormat(
            "Kueue, kubectl get workloads -o json", (), kueue.read_kueue, knows=kueue.is_kueue
        ),
        "swf": TraceFormat("Standard Workload Format 2.2", (), swf.read_swf, knows=swf.is_swf),
        "sacct": TraceFormat(
            "Slurm's sacct --parsable2",
            sacct.COLUMNS,
            sacct.read_sacct,
            separator=sacct.SEPARATOR,
            states=sacct.STATES,
        ),
    },
    lambda value: isinstance(value, TraceFormat),
)
"""Every format that `read_workload` knows, by name; another is added by assigning it."""


@checked
def read_workload(
    path: str | Path,
    *,
    throughputs: pd.DataFrame | str | Path | None = None,
    format: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    reference: str | None = None,
    missing: Missing = "error",
    states: Sequence[str] | None = None,
    columns: Mapping[str, str] | str | None = None,
) -> Workload:
    """Read a trace, or a csv of your own jobs.

    Parameters
    ----------
    path
        The file, plain or gzipped.
    throughputs
        Steps/s: a DataFrame with rows (job_type, scale_factor), a csv with those two columns and
        one per accelerator, or a Gavel oracle (json). By default the table of 26 job types that
        comes with apportion, or the file that `Workload.save` wrote next to `path`. An oracle also
        gives the workload its throughputs of pairs and of gangs that are split over machines.
    format
        One of `TRACE_FORMATS`; found from the first line by default.
    seed
        Of the job types, where a trace does not tell them.
    limit
        Keep only so many jobs, the first to arrive.
    reference
        Accelerator type on which the durations of a trace were measured where it does not tell: one
        of the throughputs, or of `apportion.accelerators`, on which speeds are modelled. By default
        the only type of the cluster on which the jobs run, or v100 where it has several.
    missing
        What to do with jobs without throughputs: ``error``, or ``drop`` them and leave a note.
    states
        Helios, Philly's JSON and Slurm only: keep the jobs that ended so, e.g. ``["COMPLETED"]``;
        all by default.
    columns
        What the columns of any other csv mean: ``{"submit": "arrival_s", "runtime_min":
        "duration_s", "n_gpus": "scale_factor"}``, or the same as text,
        ``"submit=arrival_s,runtime_min=duration_s"``; see
        `apportion.sim.traces.named_columns.read_named_columns`.

    Raises
    ------
    InputError
        If a file cannot be read or its format not be told, and for the first malformed line.
    """
    if format is not None:
        choice("trace format", format, TRACE_FORMATS)
    choice("value of missing", missing, get_args(Missing))
    seed = check_seed(seed)
    limit = None if limit is None else whole("limit", limit, 1)
    file = read_text(path)
    speeds = None if throughputs is None else read_throughputs(throughputs)
    options = ReadOptions(speeds, seed, limit, reference, missing, states)
    if columns is None:
        chosen = format or _format_of(file)
        _check_states(states, path, chosen)
        workload = _read(chosen, file, options)
    else:
        if format is not None or states is not None:
            raise InputError(
                "columns says what a csv of no known format means; leave out format and states."
            )
        workload = read_named_columns(file, options, columns)
    if isinstance(throughputs, (str, Path)) and is_oracle(throughputs):
        split = read_split_oracle(throughputs)
        return replace(
            workload,
            pairs=read_pair_oracle(throughputs),
            unconsolidated=None if split.columns.empty else split,
        )
    return workload


def _read(chosen: str, file: TextFile, options: ReadOptions) -> Workload:
    """Read a file by a format, which may be one's own."""
    reader = TRACE_FORMATS[chosen].read
    workload: Any = reader(file, options)
    if not hasattr(workload, "throughput_of"):
        raise InputError(
            f"The reader of the trace format {chosen!r} returns {written(workload)}; it must "
            f"return a Workload.{answered_by(reader)}"
        )
    returned: Workload = workload
    return returned


def _check_states(states: Sequence[str] | None, path: str | Path, chosen: str) -> None:
    """Refuse states that a format does not have."""
    if states is None:
        return
    known = TRACE_FORMATS[chosen].states
    if not known:
        homes = " or ".join(repr(name) for name, each in TRACE_FORMATS.items() if each.states)
        raise InputError(f"states is given, but {path} is of format {chosen!r}, not {homes}.")
    for name in states:
        choice("state in the option states", name, known)


def _format_of(file: TextFile) -> str:
    """Tell the format from the first line: what stands there, or the names of columns."""
    TRACE_FORMATS.load()
    for name, trace in TRACE_FORMATS.items():
        if trace.knows is not None and trace.knows(file):
            return name
    found = {}
    for name, trace in TRACE_FORMATS.items():
        present = _names(file, trace.separator)
        if trace.columns:
            there = sum(column in present for column in trace.columns)
            found[name] = there / len(trace.columns)
    whole = [name for name, share in found.items() if share == 1]
    if whole:  # the columns of one format may be some of another's
        return max(whole, key=lambda name: len(TRACE_FORMATS[name].columns))
    best = max(found, key=lambda name: found[name])
    if found[best] >= _LIKENESS:
        present = _names(file, TRACE_FORMATS[best].separator)
        absent = next(name for name in TRACE_FORMATS[best].columns if name not in present)
        raise InputError(
            f"{missing_column(file, absent, present)} It looks most like format {best!r}, which "
            f"needs that column."
        )
    file.text(lossy=True)  # refuses what is no text
    likely = likely_columns(_names(file, separator_of(file)))
    raise InputError(
        f"Cannot tell the format of {file.path} from its first line {file.head[:80]!r}. A table of "
        f"jobs of your own has at least the columns {' and '.join(jobs_csv.COLUMNS)}. If it is a "
        f"log of a known format, give format=, one of {', '.join(TRACE_FORMATS)}. Of any other csv "
        f"say what its columns mean: columns='{likely}'."
    )


def _names(file: TextFile, separator: str) -> list[str]:
    """Return the cells of the first line."""
    return [name.strip().strip('"') for name in file.head.split(separator)]
