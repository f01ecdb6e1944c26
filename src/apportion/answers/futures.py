"""`forecast`: when the jobs that run and wait now will start and end."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.answers.durations import Durations
from apportion.answers.evidence import one_source
from apportion.answers.state import placed, read_state
from apportion.checks import seed as check_seed
from apportion.checks import whole
from apportion.cluster import Cluster
from apportion.errors import ApportionError, InputError
from apportion.sim import Workload
from apportion.sim.carried_on import carried_on

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from pathlib import Path

    from apportion.answers.state import ClusterState
    from apportion.mechanism.own import Decides
    from apportion.mechanisms.setting_names import SimulationSettings
    from apportion.sim.deciders import AnyDecider

QUANTILES = (0.05, 0.5, 0.9, 0.95)
"""By when so much of the futures has come to pass."""

_MOST_COMING = 300
"""Jobs that come later, at most, in each future."""


@checked
def forecast(
    policy: str | AnyDecider | Decides,
    state: str | Path | Mapping[str, Any],
    log: Workload | str | Path,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    now_s: float | None = None,
    futures: int = 100,
    horizon_s: float = 86400.0,
    seed: int = 0,
    **settings: Unpack[SimulationSettings],
) -> Forecast:
    """Foretell when each job of a state starts and ends, with quantiles over many futures.

    In each future every job gets a duration like those of the log
    (`apportion.answers.durations.Durations`), a running one longer than it has run, none longer
    than its time limit; jobs come as they came in a stretch of the log that is drawn; and the
    policy goes on from the state (`apportion.sim.carried_on`).

    Parameters
    ----------
    policy
        Who decides, as for `apportion.simulate`: the cluster's own order, ``"easy"`` for Slurm with
        backfilling. Queues go on from the state exactly; what policies of shares owed before is not
        known.
    state
        Who runs and waits, `apportion.answers.state.read_state`.
    log
        Of the jobs that were here before.
    cluster
        As for `apportion.simulate`.
    now_s
        The time, seconds, in place of that of the state.
    futures
        How many.
    horizon_s
        For how long jobs come later; they matter where somebody waits.
    seed
        Of all draws.
    **settings
        As for `apportion.simulate`.

    Raises
    ------
    InputError
        For a state that cannot be, or does not fit the cluster, and as `apportion.simulate`.
    """
    known = read_state(state, now_s)
    whole("futures", futures, 2)
    check_seed(seed)
    cluster = Cluster.of(cluster)
    past = one_source(log)[0].made(1.0, seed)
    if past.elastic is True:
        raise InputError("A forecast is of jobs whose gangs have one size; this log has others.")
    history = _History.of(past, cluster)
    running = placed(known, cluster)
    begun: dict[Hashable, tuple[str, Sequence[int]]]
    begun = {_name(job): held for job, held in running.items()}
    streams = np.random.default_rng(seed).spawn(futures)
    starts, ends = np.full((2, len(known.jobs), futures), np.nan)
    for future, rng in enumerate(streams):
        workload = _future(known, running, history, cluster, rng, horizon_s)
        run = carried_on(policy, workload, cluster, _ZERO_S, begun, seed=seed, **settings)
        jobs = run.jobs.loc[[_name(job) for job in known.jobs.index]]
        starts[:, future] = jobs["start_s"] - _ZERO_S + known.now_s
        ends[:, future] = jobs["completion_s"] - _ZERO_S + known.now_s
    here = (known.jobs["state"] == "running").to_numpy()
    starts[here] = known.jobs["start_s"].to_numpy()[here, None]
    return Forecast(known, starts, ends, history.durations.held)


_ZERO_S = 1e9
"""The time of the state in its futures: jobs arrived before it, and times are not below 0."""


def _name(job: Any) -> str:
    return f"here-{job}"


@dataclass(frozen=True, eq=False)
class _History:
    """Jobs of a log, in the order of arrival, and how long such take."""

    arrival_s: np.ndarray
    duration_s: np.ndarray
    gpus: np.ndarray
    durations: Durations

    @classmethod
    def of(cls, log: Workload, cluster: Cluster) -> _History:
        """Read the durations of a log: as recorded, else at the speed of its fastest type."""
        jobs = log.jobs
        arrival_s = jobs["arrival_s"].to_numpy(dtype=float)
        gpus = jobs["scale_factor"].to_numpy(dtype=np.intp)
        if "recorded_end_s" in jobs:
            end_s = jobs["recorded_end_s"].to_numpy(dtype=float)
            duration_s = end_s - jobs["recorded_start_s"].to_numpy(dtype=float)
        else:
            speed = log.to_frame().filter(regex="_steps_per_s$").to_numpy(dtype=float)
            duration_s = jobs["total_steps"].to_numpy(dtype=float) / speed.max(axis=1)
            end_s = arrival_s + duration_s
        kept = np.isfinite(duration_s) & (duration_s > 0)
        if not kept.any():
            raise InputError(f"The log {log.name!r} tells no durations.")
        found = [each[kept] for each in (arrival_s, end_s, duration_s, gpus)]
        fits = found[3] <= cluster.counts.max()
        order = np.argsort(found[0][fits], kind="stable")
        came, lasted, gangs = (found[k][fits][order] for k in (0, 2, 3))
        return cls(came, lasted, gangs, Durations(*found))

    def coming(self, rng: np.random.Generator, horizon_s: float) -> pd.DataFrame:
        """Draw a stretch of the log: who comes in it, how long after its beginning."""
        first_s, last_s = self.arrival_s[0], self.arrival_s[-1]
        begin_s = rng.uniform(first_s, max(last_s - horizon_s, first_s))
        within = (self.arrival_s > begin_s) & (self.arrival_s <= begin_s + horizon_s)
        rows = np.flatnonzero(within)[:_MOST_COMING]
        after_s = self.arrival_s[rows] - begin_s
        return pd.DataFrame(
            {"after_s": after_s, "duration_s": self.duration_s[rows], "gpus": self.gpus[rows]}
        )


def _future(
    state: ClusterState,
    running: Mapping[str, tuple[str, list[int]]],
    history: _History,
    cluster: Cluster,
    rng: np.random.Generator,
    horizon_s: float,
) -> Workload:
    """Draw one future: durations of who is here, and who comes."""
    rows: list[dict[str, Any]] = []
    # In an order that is none of the file's: what is drawn for a job hangs on it.
    here = state.jobs.reset_index().sort_values(["submit_s", "job"])
    levels = history.durations.levels(rng, len(here)).tolist()
    for told, level in zip(here.to_dict("records"), levels, strict=True):
        runs = told["state"] == "running"
        had_s = state.now_s - told["start_s"] if runs else 0.0
        drawn_s = history.durations.at(level, told["gpus"], had_s)
        limit_s = told["time_limit_s"]
        if not np.isnan(limit_s):
            drawn_s = min(drawn_s, limit_s)
        drawn_s = max(drawn_s, had_s + 1.0)
        kind = running[told["job"]][0] if runs else told["accelerator"]
        rows.append(
            {
                "job": _name(told["job"]),
                "arrival_s": _ZERO_S - (state.now_s - told["submit_s"]),
                "scale_factor": told["gpus"],
                "total_steps": drawn_s,
                "steps_remaining": drawn_s - had_s,
                "job_type": kind.lower(),
                "time_limit_s": limit_s,
            }
        )
    waits = (state.jobs["state"] == "waiting").any()
    coming = history.coming(rng, horizon_s if waits else 0.0)
    later = pd.DataFrame(
        {
            "job": [f"later-{number:06d}" for number in range(len(coming))],
            "arrival_s": _ZERO_S + coming["after_s"],
            "scale_factor": coming["gpus"],
            "total_steps": coming["duration_s"],
            "steps_remaining": coming["duration_s"],
            "job_type": "",
        }
    )
    tables = [pd.DataFrame(rows), *([later] if len(later) else [])]
    jobs = pd.concat(tables, ignore_index=True).set_index("job")
    if jobs["time_limit_s"].isna().any():
        jobs = jobs.drop(columns="time_limit_s")
    jobs["job_type"] = jobs["job_type"].replace("", "any")
    kinds = sorted(
        {
            (kind, int(gpus))
            for kind, gpus in zip(jobs["job_type"], jobs["scale_factor"], strict=True)
        }
    )
    runs_on = [
        [1.0 if kind in ("any", name.lower()) else 0.0 for name in cluster.gpus]
        for kind, _ in kinds
    ]
    index = pd.MultiIndex.from_tuples(kinds, names=["job_type", "scale_factor"])
    return Workload("future", jobs, pd.DataFrame(runs_on, index=index, columns=[*cluster.gpus]))


@dataclass(frozen=True, eq=False, repr=False)
class Forecast:
    """What `apportion.forecast` returns.

    Attributes
    ----------
    state
        As it was read.
    starts_s, ends_s
        When each job starts and ends in each future, in the clock of the state, shape (jobs,
        futures).
    held
        Of the jobs of the log, in their order, whether each took as long as was foretold when it
        came (`Durations.held`).
    """

    state: ClusterState
    starts_s: np.ndarray
    ends_s: np.ndarray
    held: np.ndarray

    def table(self) -> pd.DataFrame:
        """One row per job: ``state``, ``gpus``, and by when it starts and ends.

        ``start_05``, ``start_50``, ``start_90``, ``start_95`` and the same of ``end``, in seconds
        of the clock of the state: so much of the futures has it by then. From 05 to 95 is an
        interval of 90 %.
        """
        found = self.state.jobs[["state", "gpus"]].copy()
        for name, values in (("start", self.starts_s), ("end", self.ends_s)):
            for at, column in zip(QUANTILES, np.quantile(values, QUANTILES, axis=1), strict=True):
                found[f"{name}_{at * 100:02.0f}"] = column
        return found

    def sentences(self) -> list[str]:
        """Say by when each job starts and ends."""
        table, now_s = self.table(), self.state.now_s
        said = []
        for job, row in table.iterrows():
            ends = ", ".join(
                f"{at:.0%} by {_clock(row[f'end_{at * 100:02.0f}'], now_s)}" for at in (0.5, 0.9)
            )
            if row["state"] == "running":
                said.append(f"{job} ({row['gpus']} GPUs) runs: ends {ends}")
                continue
            starts = ", ".join(
                f"{at:.0%} by {_clock(row[f'start_{at * 100:02.0f}'], now_s)}" for at in (0.5, 0.9)
            )
            said.append(f"{job} ({row['gpus']} GPUs) waits: starts {starts}; ends {ends}")
        futures = self.starts_s.shape[1]
        later = self.held[self.held.size // 2 :]
        later = later[~np.isnan(later)]
        kept = ""
        if later.size:
            kept = f"; of its second half {later.mean():.0%} took within what 90 % were foretold to"
        log = f"durations like those of the {self.held.size:,} jobs of the log"
        said.append(f"({futures} futures with {log}{kept})")
        return said

    def __repr__(self) -> str:
        return "\n".join(self.sentences())


def _clock(at_s: float, now_s: float) -> str:
    """Write a time: of the day where the state tells dates, else how long from now."""
    if now_s < 1e8:  # no clock of Unix, which a log that begins at 0 has not
        return f"+{(at_s - now_s) / 3600:.1f} h"
    try:
        when = datetime.datetime.fromtimestamp(at_s, datetime.UTC).astimezone()
        now = datetime.datetime.fromtimestamp(now_s, datetime.UTC).astimezone()
    except (OverflowError, ValueError, OSError) as error:
        raise ApportionError(f"The time {at_s:g} is no date: {error}.") from error
    return f"{when:%H:%M}" if when.date() == now.date() else f"{when:%a %d %b %H:%M}"
