"""The state of a cluster as Slurm's ``squeue --json`` tells it: who runs, and who waits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.checks import as_float
from apportion.errors import InputError, written
from apportion.sim.traces.slurm_arrays import array_tasks
from apportion.text_files import read_text

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.cluster import Cluster

_GPUS = re.compile(r"gres/gpu(?::([^=,]+))?[=:](\d+)")
_TIMES = ("submit_time", "start_time")
_READ = ("job_id", "job_state", *_TIMES, "time_limit", "tres_alloc_str", "tres_req_str")
_MOST_TASKS = 100_000


@dataclass(frozen=True, eq=False)
class ClusterState:
    """Jobs that run or wait, and the time.

    Attributes
    ----------
    now_s
        Seconds, of the same clock as those of the jobs.
    jobs
        Indexed by job, each pending task of an array being one: ``state`` (``running`` or
        ``waiting``), ``gpus``, ``accelerator`` (empty for any), ``submit_s``, ``start_s`` (NaN for
        who waits), ``time_limit_s`` (NaN for none), ``entry`` (its name in the queue,
        ``2_[1-40%8]`` for pending tasks), ``array`` (empty for none) and ``at_once`` (how many of
        its array run at once, NaN for any number). Then further keys of the entries that hold
        numbers or texts, NaN for who has none.
    left_out
        How many entries hold or ask for no GPUs, or have another state.
    """

    now_s: float
    jobs: pd.DataFrame
    left_out: int = 0


def read_state(state: str | Path | Mapping[str, Any], now_s: float | None = None) -> ClusterState:
    """Read what ``squeue --json`` prints, or a file of one's own with these keys.

    ::

        {"now": 1700003600,
         "jobs": [{"job_id": 7, "job_state": "RUNNING", "submit_time": 1700000000,
                   "start_time": 1700000100, "tres_alloc_str": "gres/gpu:a100=4",
                   "time_limit": 600},
                  {"job_id": 8, "job_state": "PENDING", "submit_time": 1700000200, "gpus": 2}]}

    Numbers may stand as Slurm has them, ``{"set": true, "infinite": false, "number": 5}``; times
    are seconds, ``time_limit`` minutes. GPUs are read from ``tres_alloc_str`` or ``tres_req_str``,
    or from ``gpus`` and ``accelerator``. The time is ``now``, else ``last_update``. A pending
    array, ``"array_task_string": "1-40%8"``, is its tasks, of which so many run at once. Further
    keys are columns of the jobs, for policies that need them.

    Parameters
    ----------
    state
        The path of a file, or what stands in it.
    now_s
        The time, in place of that of the file.

    Raises
    ------
    InputError
        For a file that cannot be read, and naming a job, for what it lacks.
    """
    content = _content(state)
    jobs = content.get("jobs")
    if not isinstance(jobs, list):
        raise InputError("The state has no list 'jobs'; give what `squeue --json` prints.")
    told = now_s if now_s is not None else content.get("now", content.get("last_update"))
    now = _number(told)
    if now is None:
        raise InputError("The state tells no time: it has no 'now' or 'last_update'.")
    rows = [_job(each, now) for each in jobs]
    found = [task for row in rows if row is not None for task in _tasks(row)]
    if not found:
        raise InputError("Nobody in the state runs or waits with GPUs.")
    names = [row["job"] for row in found]
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(f"The state has job {name!r} twice.")
    return ClusterState(now, pd.DataFrame(found).set_index("job"), rows.count(None))


def _content(state: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what stands in a file, or what is given."""
    if isinstance(state, Mapping):
        return state
    content = read_text(state).json()
    if not isinstance(content, dict):
        raise InputError(f"{str(state)!r} is no state: give what `squeue --json` prints.")
    return content


def _number(value: Any) -> float | None:
    """Read a number as Slurm writes it; None where it is not set, or without end."""
    if isinstance(value, Mapping):
        if not value.get("set", True) or value.get("infinite", False):
            return None
        value = value.get("number")
    if value is None or isinstance(value, bool):
        return None
    found = as_float(value)
    return None if found != found or abs(found) == float("inf") else found


def _job(entry: Any, now_s: float) -> dict[str, Any] | None:
    """Read one job; None for one that is not about GPUs."""
    if not isinstance(entry, Mapping) or entry.get("job_id") is None:
        raise InputError(f"The state has {written(entry)} among its jobs, which has no job_id.")
    name = str(entry["job_id"])
    states = entry.get("job_state", "")
    known = {str(each).upper() for each in ([states] if isinstance(states, str) else states)}
    running = "RUNNING" in known
    kind, gpus = _gpus(entry, running=running)
    if not (running or "PENDING" in known) or not gpus:
        return None
    submit_s, start_s = (_number(entry.get(each)) for each in _TIMES)
    if submit_s is None or submit_s > now_s:
        raise InputError(
            f"Job {name} of the state has submit_time = {written(submit_s)}; it must be "
            f"a time up to now ({now_s:g})."
        )
    if running and (start_s is None or not submit_s <= start_s <= now_s):
        raise InputError(
            f"Job {name} of the state runs and has start_time = {written(start_s)}; it "
            f"must lie from submit_time ({submit_s:g}) to now ({now_s:g})."
        )
    limit = _number(entry.get("time_limit"))
    own = {
        "job": name,
        "state": "running" if running else "waiting",
        "gpus": gpus,
        "accelerator": kind,
        "submit_s": submit_s,
        "start_s": start_s if running else float("nan"),
        "time_limit_s": float("nan") if limit is None else limit * 60,
        "entry": name,
        "array": f"{array:.0f}" if (array := _number(entry.get("array_job_id"))) else "",
        "at_once": float("nan"),
    }
    further = {str(key): _fact(value) for key, value in entry.items() if key not in _READ}
    told = {key: each for key, each in further.items() if each is not None}
    return {**own, **told, **own}


def _tasks(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a job, or the pending tasks of an array."""
    text = row.get("array_task_string")
    if row["state"] == "running" or not text:
        return [row]
    found = array_tasks(str(text))
    if found is None or len(found[0]) > _MOST_TASKS:
        raise InputError(
            f"Job {row['job']} of the state has array_task_string = {written(text)}; it must name "
            f"up to {_MOST_TASKS:,} tasks, as 1-40%8. Where squeue cuts it off, set "
            f"SLURM_BITSTR_LEN=0."
        )
    array = row["array"] or row["job"]
    told = {"entry": f"{array}_[{text}]", "array": array}
    told["at_once"] = found[1] or row.get("array_max_tasks") or float("nan")
    return [{**row, **told, "job": f"{array}_{task}"} for task in found[0]]


def _fact(value: Any) -> float | str | None:
    """Return a text, or a number; None for what is neither."""
    if isinstance(value, str):
        return value
    return float(value) if isinstance(value, bool) else _number(value)


def _gpus(entry: Mapping[str, Any], *, running: bool) -> tuple[str, int]:
    """Return type, empty for any, and number of GPUs."""
    told = _number(entry.get("gpus"))
    if told is not None:
        if told < 0 or told != int(told):
            raise InputError(
                f"Job {entry['job_id']} of the state has gpus = {told:g}; it must be a "
                f"whole number."
            )
        return str(entry.get("accelerator") or ""), int(told)
    text = str((entry.get("tres_alloc_str") if running else "") or entry.get("tres_req_str") or "")
    found = _GPUS.findall(text)
    typed = [(kind, int(count)) for kind, count in found if kind]
    if typed:
        return typed[0][0], sum(count for _, count in typed)
    return "", sum(int(count) for _, count in found)


def placed(state: ClusterState, cluster: Cluster) -> dict[str, tuple[str, list[int]]]:
    """Put who runs on devices: large gangs first, each into the fullest machine that holds it.

    Slurm's own numbers of devices are not read; where gangs lie only matters to networks.

    Raises
    ------
    InputError
        For a type that the cluster does not have, one that is not told where there are several, and
        more GPUs than there are.
    """
    running = state.jobs[state.jobs["state"] == "running"].sort_values("gpus", ascending=False)
    free = {
        kind: [
            list(range(first, first + int(size)))
            for first, size in zip(
                range(0, cluster.gpus[kind], cluster.machine_size(kind)),
                cluster.machines(kind),
                strict=True,
            )
        ]
        for kind in cluster.gpus
    }
    found: dict[str, tuple[str, list[int]]] = {}
    for job, row in running.iterrows():
        kind = kind_of(str(job), str(row["accelerator"]), cluster)
        machines, gpus = free[kind], int(row["gpus"])
        fits = [each for each in machines if len(each) >= gpus]
        taken: list[int] = []
        for machine in [min(fits, key=len)] if fits else sorted(machines, key=len, reverse=True):
            while machine and len(taken) < gpus:
                taken.append(machine.pop(0))
        if len(taken) < gpus:
            raise InputError(
                f"Job {job} of the state runs on {gpus} {kind}, and with the others that are more "
                f"than the {cluster.gpus[kind]} of the cluster {cluster}."
            )
        found[str(job)] = (kind, taken)
    return found


def kind_of(job: str, told: str, cluster: Cluster) -> str:
    """Return the type on which a job runs."""
    kinds = {name.lower(): name for name in cluster.gpus}
    if not told and len(kinds) == 1:
        return next(iter(kinds.values()))
    if told.lower() not in kinds:
        raise InputError(
            f"Job {job} of the state runs on {written(told)}; the cluster has "
            f"{', '.join(cluster.gpus)}, and tres_alloc_str must name one of them."
        )
    return kinds[told.lower()]
