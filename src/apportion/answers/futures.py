"""`forecast`: when the jobs that run and wait now will start and end."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from apportion.annotations import checked
from apportion.answers.drawn_futures import ZERO_S, History, future_of, name_of
from apportion.answers.evidence import one_source
from apportion.answers.hindsight import Hindsight
from apportion.answers.own_columns import told_columns
from apportion.answers.state import placed, read_state
from apportion.checks import seed as check_seed
from apportion.checks import whole
from apportion.cluster import Cluster
from apportion.errors import ApportionError, InputError
from apportion.sim.carried_on import carried_on
from apportion.sim.deciders import get_decider

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from apportion.answers.state import ClusterState
    from apportion.mechanism.own import Decides
    from apportion.mechanisms.setting_names import SimulationSettings
    from apportion.sim import Workload
    from apportion.sim.deciders import AnyDecider
    from apportion.types import Floats

QUANTILES = (0.05, 0.5, 0.9, 0.95)
"""Parts of jobs of which it is told by when they start and end."""

_FUTURES_OF_MOMENTS = 25
"""Futures of each earlier moment."""


@checked
def forecast(
    policy: str | AnyDecider | Decides,
    state: str | Path | Mapping[str, Any],
    log: Workload | str | Path,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    now_s: float | None = None,
    futures: int = 100,
    moments: int = 10,
    horizon_s: float = 86400.0,
    seed: int = 0,
    **settings: Unpack[SimulationSettings],
) -> Forecast:
    """Foretell when each job of a state starts and ends, with quantiles over many futures.

    In each future every job gets a duration like those of the log
    (`apportion.answers.durations.Durations`), all of them as far off what was to be expected as at
    one of its moments, a running one longer than it has run, none longer than its time limit; jobs
    come as they came in a stretch of the log that is drawn; and the policy goes on from the state
    (`apportion.sim.carried_on`). Where the log tells who waited, earlier moments of it are foretold
    as well, and what is told of today is wider by what came of that
    (`apportion.answers.hindsight.Hindsight`). Columns that a policy needs are further keys of the
    state's jobs and columns of the log (`apportion.answers.own_columns.told_columns`).

    Parameters
    ----------
    policy
        Who decides, as for `apportion.simulate`: the cluster's own order, ``"easy"`` for Slurm with
        backfilling. Queues go on from the state exactly; what policies of shares owed before is not
        known.
    state
        Who runs and waits, `apportion.answers.state.read_state`.
    log
        Of the jobs that were here before. What of it had not ended by the time of the state is left
        out; one that begins later than that has another clock, and is taken whole.
    cluster
        As for `apportion.simulate`.
    now_s
        The time, seconds, in place of that of the state.
    futures
        How many.
    moments
        Earlier moments at most that are foretold, by 25 futures each; 0 for none.
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
    whole("moments", moments, 0)
    check_seed(seed)
    cluster = Cluster.of(cluster)
    past = one_source(log)[0].made(1.0, seed)
    if past.elastic is True:
        raise InputError("A forecast is of jobs whose gangs have one size; this log has others.")
    history = History.of(past, cluster).until(known.now_s)
    decider = get_decider(policy)

    def foretells(state: ClusterState, log: History, count: int) -> tuple[Floats, Floats]:
        told = told_columns(state.jobs, log.told, getattr(decider, "columns", ()))
        running = placed(state, cluster)
        begun: dict[Hashable, tuple[str, Sequence[int]]]
        begun = {name_of(job): devices for job, devices in running.items()}
        durations = log.durations(state)
        starts, ends = np.full((2, len(state.jobs), count), np.nan)
        for future, rng in enumerate(np.random.default_rng(seed).spawn(count)):
            workload = future_of(state, running, log, durations, told, cluster, rng, horizon_s)
            run = carried_on(decider, workload, cluster, ZERO_S, begun, seed=seed, **settings)
            jobs = run.jobs.loc[[name_of(job) for job in state.jobs.index]]
            starts[:, future] = jobs["start_s"] - ZERO_S + state.now_s
            ends[:, future] = jobs["completion_s"] - ZERO_S + state.now_s
        here = (state.jobs["state"] == "running").to_numpy()
        starts[here] = state.jobs["start_s"].to_numpy()[here, None]
        return starts, ends

    starts, ends = foretells(known, history, futures)
    fewer = partial(foretells, count=min(futures, _FUTURES_OF_MOMENTS))
    hindsight = Hindsight.of(fewer, known, history, cluster, moments, seed)
    held = history.durations(known).held
    return Forecast(known, starts, ends, held, history.gpus.size, history.later, hindsight)


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
        Of jobs of the log, some hundreds in their order, whether each took as long as was foretold
        when it came (`Durations.held`).
    of_jobs
        How many jobs of the log durations were learnt from.
    later
        How many more it has, that had not ended by the time of the state and were left out.
    hindsight
        How forecasts of earlier moments turned out.
    """

    state: ClusterState
    starts_s: np.ndarray
    ends_s: np.ndarray
    held: np.ndarray
    of_jobs: int
    later: int = 0
    hindsight: Hindsight = field(default_factory=Hindsight)

    def table(self) -> pd.DataFrame:
        """One row per job: ``state``, ``gpus``, and by when it starts and ends.

        ``start_05``, ``start_50``, ``start_90``, ``start_95`` and the same of ``end``, in seconds
        of the clock of the state: so many jobs have it by then, by the futures and by what came of
        forecasts before (`Hindsight.part`). From 05 to 95 is an interval of 90 %.
        """
        found = self.state.jobs[["state", "gpus"]].copy()
        runs = (found["state"] == "running").to_numpy()
        for what, values in (("start", self.starts_s), ("end", self.ends_s)):
            for at in QUANTILES:
                running, waiting = (
                    np.quantile(
                        values, self.hindsight.part(state, what, at), axis=1, method="weibull"
                    )
                    for state in ("running", "waiting")
                )
                found[f"{what}_{at * 100:02.0f}"] = np.where(runs, running, waiting)
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
            kept = f"; of its second half {later.mean():.0%} took as long as 90 % were foretold to"
        log = f"durations like those of the {self.of_jobs:,} jobs of the log"
        if self.later:
            said.append(
                f"(Left out of the log: {self.later:,} jobs that had not ended by the time of the "
                f"state.)"
            )
        said.append(f"({futures} futures with {log}{kept})")
        return [*said, f"({self._rests_on()})"]

    def _rests_on(self) -> str:
        """Say how forecasts of earlier moments held, and what that does to those of today."""
        seen = self.hindsight
        if seen.why:
            return f"No earlier moment of the log says how far forecasts hold: {seen.why}"
        held, ends_held = (seen.held("waiting", what, 0.9) for what in ("start", "end"))
        at, ends_at = (seen.part("waiting", what, 0.95) for what in ("start", "end"))
        return (
            f"At {seen.moments} earlier moments of the log {held:.0%} of starts and "
            f"{ends_held:.0%} of ends of who waited came within 90 % of the futures; 95 % of "
            f"starts and ends are told for when {at:.1%} and {ends_at:.1%} of those of today have"
        )

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
