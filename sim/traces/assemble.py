"""From what a trace holds to a workload: job types, names of GPUs, steps, throughputs, notes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from apportion.cluster import ACCELERATORS
from apportion.errors import InputError, unknown_name
from apportion.jobs import RECORDED_TIMES
from apportion.sim.job_types import draw_job_types, job_type_throughputs
from apportion.sim.modelled_speeds import with_modelled_speeds
from apportion.sim.recorded_types import REFERENCE, duration_steps
from apportion.sim.traces.recorded_times import most_at_once
from apportion.sim.workload import Workload
from apportion.sim.workload_tables import find_rows, throughput_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from apportion.text_files import TextFile


@dataclass(frozen=True)
class ReadOptions:
    """What the user of `read_workload` chose; see there."""

    throughputs: pd.DataFrame | None = None
    seed: int = 0
    limit: int | None = None
    reference: str | None = None
    missing: Literal["error", "drop"] = "error"
    states: Sequence[str] | None = None

    @property
    def measured_on(self) -> str:
        """The type on which durations were measured where neither log nor user tells one."""
        return self.reference or REFERENCE


def from_durations(
    file: TextFile, jobs: pd.DataFrame, options: ReadOptions, notes: Sequence[str] = ()
) -> Workload:
    """Make a workload of jobs of which arrival, duration and GPU count are known.

    Job types are drawn unless there is a column of them.

    Parameters
    ----------
    file
        The trace, for names.
    jobs
        Columns arrival_s, duration_s, scale_factor, and perhaps recorded_start_s, recorded_end_s
        (all times from one origin), recorded_on (the type of GPU as the log calls it, empty where
        it does not), entity and columns of one's own. Jobs of duration 0 are left out.
    options
        Seed of the job types, their throughputs, and the accelerator of the durations where
        recorded_on does not tell it. Speeds on the types that it names are modelled where the
        throughputs do not know them. Types of which no speed is known stay without: whoever
        compares them with others is refused (`apportion.sim.recorded_types.on_types`).
    notes
        Put before those of this function.
    """
    notes = list(notes)
    ran = jobs["duration_s"] > 0
    if not ran.all():
        notes.append(f"jobs left out because they never ran (duration 0): {int((~ran).sum())}")
    jobs = _from_first_arrival(file, jobs[ran])
    throughputs = throughputs_for(jobs, options)
    measured = options.measured_on
    if options.throughputs is None and measured not in throughputs and measured in ACCELERATORS:
        measured = REFERENCE  # by which types are drawn; speeds on others are modelled
    speeds = reference_speeds(throughputs, measured)
    drawn = "job_type" not in jobs
    known = jobs["scale_factor"].isin(speeds.index[speeds > 0].get_level_values(1))
    if not drawn:
        known = pd.Series(find_rows(jobs, throughputs) >= 0, index=jobs.index)
    jobs, dropped = _without_missing(file, jobs, known, options)
    if not drawn:
        _check_job_types(str(file.path), jobs, throughputs)
    jobs = jobs if options.limit is None else jobs.head(options.limit)
    if drawn:
        rng = np.random.default_rng(options.seed)
        job_types = draw_job_types(jobs["scale_factor"], throughputs, measured, rng)
        jobs = jobs.assign(job_type=job_types)
    on = _recorded_on(jobs, throughputs, options)
    named, none = list(dict.fromkeys(on[on != ""])), int((on == "").sum())
    how = [f"job types drawn at random, seed {options.seed}"] if drawn else []
    how += [f"durations taken as measured on {', '.join(named)}"] if named else []
    how += [_without_type(none, len(jobs), options)] if none else []
    notes += [*dropped, "; ".join(how)]
    if named:
        jobs = jobs.assign(recorded_on=on)
    else:
        jobs = jobs.drop(columns="recorded_on", errors="ignore")
    jobs.insert(1, "total_steps", jobs["duration_s"])  # seconds, until speeds are known
    jobs["start_included"] = True
    notes += _most_at_once(jobs, on)
    timed = Workload(file.name, jobs, throughputs, tuple(notes), job_types_drawn=drawn)
    made = with_modelled_speeds(timed, named)
    table, jobs, on = made.throughputs, made.jobs, on.loc[made.jobs.index]
    notes = [*made.notes]
    if unknown := [name for name in named if name not in table]:
        notes.append(f"no speed is known of {', '.join(unknown)}: --speed tells it, times a v100")
    steps = duration_steps(jobs, table, on.where(on.isin(table.columns), measured))
    return replace(made, jobs=jobs.assign(total_steps=steps), notes=tuple(notes))


def _recorded_on(jobs: pd.DataFrame, throughputs: pd.DataFrame, options: ReadOptions) -> pd.Series:
    """Return on what type each job ran by the names that are used here, empty where nobody says."""
    on = jobs.get("recorded_on", pd.Series("", index=jobs.index))
    names = {each: accelerator_of(each, throughputs.columns) for each in on.unique()}
    on = on.map(names).astype(str)
    return on.where(on != "", options.reference or "")


def _without_type(none: int, jobs: int, options: ReadOptions) -> str:
    """Say how many jobs name no type, and what follows."""
    return (
        f"{none:,} of {jobs:,} jobs name no type of GPU: taken to have run on that of a cluster of "
        f"one type, else on {options.measured_on} (reference= tells the type)"
    )


def _most_at_once(jobs: pd.DataFrame, recorded_on: pd.Series) -> list[str]:
    """Say how many GPUs of each type the log has in use at most."""
    if not all(name in jobs for name in RECORDED_TIMES):
        return []
    kinds = recorded_on.where(recorded_on != "", "without type")
    most = [f"{kind} {most_at_once(rows)}" for kind, rows in jobs.groupby(kinds)]
    return [f"most GPUs in use at once by the log: {', '.join(most)}"]


def from_steps(
    file: TextFile,
    jobs: pd.DataFrame,
    lines: pd.Index,
    options: ReadOptions,
    notes: Sequence[str] = (),
) -> Workload:
    """Make a workload of jobs whose job types and steps are known.

    Parameters
    ----------
    file, jobs, lines
        The trace, its jobs table, and the line of the file that each job stands in.
    options
        Throughputs (the table of job types by default), and what to do with jobs without.
    notes
        Put before those of this function.

    Raises
    ------
    InputError
        If a job has no throughputs, naming its line, unless such jobs are to be dropped.
    """
    throughputs = throughputs_for(jobs, options)
    notes = list(notes)
    if options.throughputs is None:
        notes.append("throughputs from the table of job types that comes with apportion")
    known = pd.Series(find_rows(jobs, throughputs) >= 0, index=jobs.index)
    jobs_with, dropped = _without_missing(file, jobs, known, options)
    where = f"{file.path}, line {lines[int(np.argmin(known.to_numpy()))]}"
    _check_job_types(where, jobs_with, throughputs)
    workload = Workload(file.name, jobs_with, throughputs, (*notes, *dropped))
    return workload if options.limit is None else workload.head(options.limit)


def _check_job_types(where: str, jobs: pd.DataFrame, throughputs: pd.DataFrame) -> None:
    """Refuse a job without throughputs, and say what can be done about it."""
    try:
        throughput_rows(jobs, throughputs)
    except InputError as error:
        raise InputError(
            f"{where}: {error} With missing='drop' such jobs are left out; steps/s of other types "
            f"come with throughputs=; a log of durations whose columns= leave out job_type has "
            f"types drawn for it."
        ) from error


def throughputs_for(jobs: pd.DataFrame, options: ReadOptions) -> pd.DataFrame:
    """Throughputs that the user gave, else those of the job types that come with apportion."""
    if options.throughputs is not None:
        return options.throughputs
    return job_type_throughputs(jobs["scale_factor"].unique())


def reference_speeds(throughputs: pd.DataFrame, reference: str) -> pd.Series:
    """Steps/s on the reference accelerator.

    Raises
    ------
    InputError
        If the throughputs do not know it.
    """
    if reference not in throughputs.columns:
        error = unknown_name("reference accelerator", reference, throughputs.columns)
        hint = "Durations were measured on it; reference= names another."
        raise InputError(f"{error} {hint}")
    return throughputs[reference]


def _from_first_arrival(file: TextFile, jobs: pd.DataFrame) -> pd.DataFrame:
    """Sort by arrival and count the seconds from the first one."""
    if jobs.empty:
        raise InputError(f"{file.path} holds no job that ran on a GPU.")
    jobs = jobs.sort_values("arrival_s", kind="stable")
    first_s = jobs["arrival_s"].iloc[0]
    times = [name for name in ("arrival_s", *RECORDED_TIMES) if name in jobs]
    return jobs.assign(**{name: jobs[name] - first_s for name in times})


def _without_missing(
    file: TextFile, jobs: pd.DataFrame, known: pd.Series, options: ReadOptions
) -> tuple[pd.DataFrame, list[str]]:
    """Drop the jobs without throughputs if the user wants so, and say how many."""
    if options.missing == "error" or known.all():
        return jobs, []
    if not known.any():
        raise InputError(f"{file.path}: none of the {len(jobs)} jobs has throughputs.")
    count = int((~known).sum())
    return jobs[known], [f"jobs left out because no throughputs are known: {count} of {len(jobs)}"]


_GPU = re.compile(r"gres/gpu(?::([^=]+))?=(.*)")
_SLICE = re.compile(r"(?<![a-z0-9])\d+g\.\d+gb")
"""A part of a GPU, as NVIDIA's MIG calls it: ``1g.5gb``."""
_GLUED = re.compile(r"(?<=rtx|gtx)(?=[a-z0-9])|(?<=titan)(?=[a-z])|(?<=\d{4})(?=ti\b|super\b)")
_FORM = re.compile(r"([kv]\d+)[mc]\d*")
"""A card for servers or for work stations, or its memory: ``k40m``, ``v100m32``."""
_VARIANTS = {"ti", "super", "ada", "pro", "max", "laptop", "highgpu", "megagpu", "ultragpu"}
"""Words that make another GPU of one, or a machine of a cloud, unless its name has them."""
_WORDS = {name: {*re.sub(r"^[rg]tx_", "", name).split("_")} for name in ACCELERATORS}


def accelerator_of(name: str, known: Collection[str] = ()) -> str:
    """Return the name in `apportion.accelerators` of what a log calls a type of GPU.

    That all of whose words are in it, if several the one of most words. Names in `known`, those of
    parts of GPUs (``a100_1g.5gb``) and those that nobody knows stay as they are.

    Examples
    --------
    >>> accelerator_of("nvidia_a100_80gb_pcie"), accelerator_of("Tesla_V100"), accelerator_of("gh1")
    ('a100_80gb', 'v100', 'gh1')
    >>> accelerator_of("NVIDIA-GeForce-RTX-2080-Ti"), accelerator_of("rtx_a6000")
    ('rtx_2080_ti', 'a6000')
    """
    lower = name.lower()
    if name in known or _SLICE.search(lower):
        return name
    if lower in known or lower in ACCELERATORS:
        return lower
    apart = re.split(r"[^a-z0-9]+", _GLUED.sub(" ", re.sub(r"(?<=\d\d)g\b", "gb", lower)))
    words = {_FORM.sub(r"\1", word) if _FORM.fullmatch(word) else word for word in apart}
    found = [
        each
        for each, needed in _WORDS.items()
        if needed <= words and needed & _VARIANTS == words & _VARIANTS
    ]
    return max(found, key=lambda each: len(_WORDS[each]), default=name)


def tres_gpus(text: str) -> dict[str, int] | None:
    """Return how many GPUs of each type a text of Slurm's TRES counts.

    Returns
    -------
    dict
        By type, which is empty for those of which it is not said.
    None
        Where what stands for GPUs is no number.

    Examples
    --------
    >>> tres_gpus("billing=8,cpu=8,gres/gpu:a100=6,gres/gpu:h100=2,gres/gpu=8,mem=64G")
    {'a100': 6, 'h100': 2}
    """
    by_type: dict[str, int] = {}
    for item in text.split(","):
        found = _GPU.fullmatch(item.strip())
        if found is None:
            continue
        if not re.fullmatch(r"\d{1,9}", found[2]):
            return None
        kind = found[1] or ""
        by_type[kind] = by_type.get(kind, 0) + int(found[2])
    # Slurm counts GPUs with a type a second time without.
    by_type[""] = by_type.get("", 0) - sum(gpus for kind, gpus in by_type.items() if kind)
    return {kind: gpus for kind, gpus in by_type.items() if gpus > 0}
