"""`forecast`: when the jobs that run and wait now will start and end."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from apportion.annotations import checked
from apportion.answers.evidence import one_source
from apportion.answers.foretelling import Foretelling
from apportion.answers.hindsight import Hindsight
from apportion.answers.history import History
from apportion.answers.levels import at_level, caveats
from apportion.answers.state import read_state
from apportion.checks import seed as check_seed
from apportion.checks import whole
from apportion.cluster import Cluster
from apportion.errors import ApportionError, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from apportion.answers.state import ClusterState
    from apportion.mechanism.own import Decides
    from apportion.mechanisms.setting_names import SimulationSettings
    from apportion.sim import Workload
    from apportion.sim.deciders import AnyDecider

QUANTILES = (0.05, 0.5, 0.9, 0.95)
"""Parts of jobs of which it is told by when they start and end."""

_SAID = {"waiting": "waited", "running": "ran"}

FUTURES_OF_MOMENTS = 25
"""Futures of each earlier moment."""

MOMENTS, MOMENTS_SIMULATED = 200, 10
"""Earlier moments at most: where a future is a queue alone, and where it has to be simulated."""


@checked
def forecast(
    policy: str | AnyDecider | Decides,
    state: str | Path | Mapping[str, Any],
    log: Workload | str | Path,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    now_s: float | None = None,
    futures: int = 100,
    moments: int | None = None,
    horizon_s: float = 86400.0,
    seed: int = 0,
    **settings: Unpack[SimulationSettings],
) -> Forecast:
    """Foretell when each job of a state starts and ends, with quantiles over many futures.

    In each future every job gets a duration like those of the log
    (`apportion.answers.durations.Durations`), all of them as far off what was to be expected as at
    one of its moments, a running one longer than it has run, none longer than its time limit; jobs
    come as they came in a stretch of the log that is drawn; and the policy goes on from the state
    (`apportion.answers.foretelling.Foretelling`). Where the log tells who waited, earlier moments
    of it are foretold as well, and what is told of today is where by then so many jobs were
    (`apportion.answers.hindsight.Hindsight`). Columns that a policy needs are further keys of the
    state's jobs and columns of the log (`apportion.answers.history.told_columns`).

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
        Earlier moments at most that are foretold, by 25 futures each; 0 for none. By default 200
        where a future is a queue alone (`Foretelling.alone`), which takes milliseconds, and 10
        where it has to be simulated.
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
    check_seed(seed)
    foretells = Foretelling(policy, Cluster.of(cluster), horizon_s, seed, settings)
    return foretold(foretells, state, log, now_s, futures, moments)


def foretold(
    foretells: Foretelling,
    state: str | Path | Mapping[str, Any],
    log: Workload | str | Path,
    now_s: float | None = None,
    futures: int = 100,
    moments: int | None = None,
) -> Forecast:
    """Foretell as `forecast`; who asks again with the same `foretells` has earlier moments ready.

    Parameters
    ----------
    foretells
        Policy, cluster and settings; of this log only.
    state, log, now_s, futures, moments
        As for `forecast`.
    """
    known = read_state(state, now_s)
    whole("futures", futures, 2)
    if moments is None:
        moments = MOMENTS if foretells.alone else MOMENTS_SIMULATED
    whole("moments", moments, 0)
    past = one_source(log)[0].made(1.0, foretells.seed)
    if past.elastic is True:
        raise InputError("A forecast is of jobs whose gangs have one size; this log has others.")
    cluster = foretells.cluster
    history = History.of(past, cluster).until(known.now_s)
    starts, ends = foretells(known, history, futures)
    earlier = partial(foretells.remembered, count=min(futures, FUTURES_OF_MOMENTS))
    hindsight = Hindsight.of(earlier, known, history, cluster, moments, foretells.seed)
    said = caveats(known, history, cluster)
    return Forecast(known, starts, ends, history, hindsight, said)


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
    history
        The log, until the time of the state.
    hindsight
        How forecasts of earlier moments turned out.
    caveats
        Why times mean less than they say (`apportion.answers.levels`).
    """

    state: ClusterState
    starts_s: np.ndarray
    ends_s: np.ndarray
    history: History
    hindsight: Hindsight = field(default_factory=Hindsight)
    caveats: Sequence[str] = ()

    def table(self) -> pd.DataFrame:
        """One row per job: ``state``, ``gpus``, and by when it starts and ends.

        ``start_05``, ``start_50``, ``start_90``, ``start_95`` and the same of ``end``, in seconds
        of the clock of the state: so many jobs have it by then, by the futures and by what came of
        forecasts before (`Hindsight.part`). From 05 to 95 is an interval of 90 %. No job is told to
        end before it is told to start.
        """
        found = self.state.jobs[["state", "gpus"]].copy()
        runs = (found["state"] == "running").to_numpy()
        for what, values in (("start", self.starts_s), ("end", self.ends_s)):
            for at in QUANTILES:
                running, waiting = (
                    at_level(values, self.state.now_s, self.hindsight.part(state, what, at))
                    for state in ("running", "waiting")
                )
                found[f"{what}_{at * 100:02.0f}"] = np.where(runs, running, waiting)
        for level in (f"{at * 100:02.0f}" for at in QUANTILES):  # what came before is told apart
            found[f"end_{level}"] = np.maximum(found[f"end_{level}"], found[f"start_{level}"])
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
        held = self.history.durations(self.state)[0].held
        later = held[held.size // 2 :]
        later = later[~np.isnan(later)]
        kept = ""
        if later.size:
            kept = f"; of its second half {later.mean():.0%} took as long as 90 % were foretold to"
        log = f"durations like those of the {self.history.gpus.size:,} jobs of the log"
        said += [f"({caveat})" for caveat in self.caveats]
        said.append(f"({futures} futures with {log}{kept})")
        return [*said, f"({self._rests_on()})"]

    def _rests_on(self) -> str:
        """Say how forecasts of earlier moments held, and what that does to those of today."""
        seen = self.hindsight
        if seen.why:
            return f"No earlier moment of the log says how far forecasts hold: {seen.why}"
        here = set(self.state.jobs["state"])
        parts = [
            self._held(state, what)
            for state, what in (("waiting", "start"), ("waiting", "end"), ("running", "end"))
            if state in here and not math.isnan(seen.held(state, what, 0.9))
        ]
        if not parts:
            return f"At none of {seen.moments} earlier moments of the log came what is told here"
        count = f"{seen.moments} earlier moment{'s' * (seen.moments > 1)}"
        return f"At {count} of the log came within 90 % of the futures {'; '.join(parts)}"

    def _held(self, state: str, what: str) -> str:
        """Say of how many it held, and what that does."""
        held, at = (self.hindsight.held(state, what, 0.9), self.hindsight.part(state, what, 0.95))
        return (
            f"{held:.0%} of {what}s of who {_SAID[state]}, so that for 95 % is told by when "
            f"{at:.1%} of those of today are"
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
