"""`forecast`: when the jobs that run and wait now will start and end."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from apportion.annotations import checked
from apportion.answers.caveats import caveats
from apportion.answers.evidence import one_source
from apportion.answers.foretelling import Foretelling
from apportion.answers.hindsight import Hindsight
from apportion.answers.history import History
from apportion.answers.state import read_state
from apportion.checks import seed as check_seed
from apportion.checks import whole
from apportion.cluster import Cluster
from apportion.errors import ApportionError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from apportion.answers.state import ClusterState
    from apportion.mechanism.own import Decides
    from apportion.mechanisms.setting_names import SimulationSettings
    from apportion.sim import Workload
    from apportion.sim.deciders import AnyDecider

QUANTILES = (0.5, 0.9)
"""Parts of jobs of which it is told by when they start and end."""

_SAID = {"waiting": "waits", "running": "runs"}

FUTURES_OF_MOMENTS = 25
"""Futures of each earlier moment."""

MOMENTS = 200
"""Earlier moments at most, where a future is a queue alone."""


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
    of it are foretold as well, and what is told of today is where by then so many jobs were, if
    that held on the later half of the log (`apportion.answers.hindsight.Hindsight`). Without that
    it is only told when jobs start and end at the latest, as limits bound it. Columns that a
    policy needs are further keys of the state's jobs and columns of the log
    (`apportion.answers.history.told_columns`).

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
        Earlier moments at most that are foretold, by 25 futures each; with 0 no quantile is told.
        By default 200 where a future is a queue alone (`Foretelling.alone`), which takes
        milliseconds, and 0 where it has to be simulated.
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
    """Foretell as `forecast`, with policy, cluster and settings as `foretells` has them."""
    known = read_state(state, now_s)
    whole("futures", futures, 2)
    if moments is None:
        moments = MOMENTS if foretells.alone else 0
    whole("moments", moments, 0)
    past = one_source(log)[0].made(1.0, foretells.seed)
    if past.elastic is True:
        raise InputError("A forecast is of jobs whose gangs have one size; this log has others.")
    cluster = foretells.cluster
    history = History.of(past, cluster).until(known.now_s)
    starts, ends = foretells(known, history, futures)
    earlier = partial(foretells, count=min(futures, FUTURES_OF_MOMENTS))
    hindsight = Hindsight.of(earlier, known, history, cluster, moments, foretells.seed)
    *latest, assumed, no_bound = foretells.latest(known, history)
    said = caveats(known, history, cluster)
    if not foretells.alone and known.jobs["at_once"].notna().any():
        said.append("The limit of an array's tasks at once is not held here: all may run at once.")
    bounds = np.array(latest), assumed, no_bound
    return Forecast(known, starts, ends, *bounds, history, hindsight, said)


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
    latest_s
        When each starts and ends at the latest, shape (2, jobs); infinite for unknown.
    assumed
        What that rests on.
    no_bound
        Why it is unknown, empty if it is not.
    history
        The log, until the time of the state.
    hindsight
        How forecasts of earlier moments turned out.
    caveats
        Why times mean less than they say (`apportion.answers.caveats`).
    """

    state: ClusterState
    starts_s: np.ndarray
    ends_s: np.ndarray
    latest_s: np.ndarray
    assumed: str
    no_bound: str
    history: History
    hindsight: Hindsight = field(default_factory=Hindsight)
    caveats: Sequence[str] = ()

    def table(self) -> pd.DataFrame:
        """One row per job: ``state``, ``gpus``, ``tasks``, and by when it starts and ends.

        ``start_50``, ``start_90``, ``start_latest`` and the same of ``end``, in seconds of the
        clock of the state. The first two are where by then so many were, in forecasts before
        (`Hindsight.part`), and never later than the last, which is infinite for unknown. They are
        NaN where forecasts before did not hold (`Hindsight.doubt`). No job is told to end before it
        is told to start. Pending tasks of one array are one row, from the first start to the last
        end.
        """
        jobs = self.state.jobs.groupby("entry", sort=False)
        found = jobs[["state", "gpus"]].first().rename_axis("job").assign(tasks=jobs.size())
        waits = (found["state"] == "waiting").to_numpy()
        entry, futures = jobs.ngroup().to_numpy(), self.starts_s.shape[1]
        for what, times_s, latest_s, last in (
            ("start", self.starts_s, self.latest_s[0], np.minimum),
            ("end", self.ends_s, self.latest_s[1], np.maximum),
        ):
            values = np.full((len(found), futures + 1), -np.inf if what == "end" else np.inf)
            last.at(values, entry, np.column_stack([times_s, latest_s]))
            for at in QUANTILES:
                told = np.full(len(found), np.nan)
                for state, rows in (("waiting", waits), ("running", ~waits)):
                    if rows.any() and not self._doubt(state, what, at):
                        level = self.hindsight.part(state, what, at)
                        told[rows] = np.quantile(values[rows, :-1], level, axis=1, method="weibull")
                found[f"{what}_{at * 100:.0f}"] = np.minimum(told, values[:, -1])
            found[f"{what}_latest"] = values[:, -1]
        for at in QUANTILES:  # what came before is told apart
            start, end = (found[f"{what}_{at * 100:.0f}"] for what in ("start", "end"))
            found[f"end_{at * 100:.0f}"] = end.mask(end < start, start)
        return found

    def _doubt(self, state: str, what: str, at: float) -> str:
        """Say why no time is told for a part, empty if one is: none without that for 90 %."""
        if (state, what) == ("running", "start"):
            return ""
        futures = self.starts_s.shape[1]
        asked = (self.hindsight.doubt(state, what, each, futures) for each in (0.9, at))
        return next(filter(None, asked), "")

    def sentences(self) -> list[str]:
        """Say by when each job starts and ends, and what that rests on."""
        said = []
        for job, row in self.table().iterrows():
            tasks = f"{row['tasks']} tasks of " * (row["tasks"] > 1)
            what = f"{job} ({tasks}{row['gpus']} GPUs)"
            if row["state"] == "running":
                said.append(f"{what} runs: ends {self._times(row, 'end')}")
                continue
            starts, ends = (self._times(row, each) for each in ("start", "end"))
            said.append(f"{what} waits: starts {starts}; ends {ends}")
        notes = [f"At the latest: if {self.assumed}"] * bool(np.isfinite(self.latest_s[1]).any())
        notes += [f"No bound where none is told: {self.no_bound}"] * bool(self.no_bound)
        return said + [f"({note})" for note in [*notes, *self.caveats, *self._rests_on()]]

    def _times(self, row: pd.Series[Any], what: str) -> str:
        """Say by when a job starts, or ends."""
        at = {f"{at:.0%} by": row[f"{what}_{at * 100:.0f}"] for at in QUANTILES}
        at["at the latest by"] = row[f"{what}_latest"]
        told = [f"{part} {_clock(s, self.state.now_s)}" for part, s in at.items() if np.isfinite(s)]
        return ", ".join(told) or "at an unknown time"

    def _rests_on(self) -> Iterator[str]:
        """Say how forecasts of earlier moments held, or why none is told today."""
        seen, log = self.hindsight, f"the {self.history.gpus.size:,} jobs of the log"
        if seen.why:
            yield f"No reliable forecast: {seen.why}"
            return
        here = set(self.state.jobs["state"])
        for state, what in (("waiting", "start"), ("waiting", "end"), ("running", "end")):
            who = f"{what}s of who {_SAID[state]}"
            if state in here and (doubt := self._doubt(state, what, 0.9)):
                yield f"No reliable forecast of {who}: {doubt}"
            elif state in here:
                share, margin, count = seen.coverage(state, what, 0.9)
                half = self._doubt(state, what, 0.5)
                yield (
                    f"At {count} moments of the later half of {log} {share:.0%} ± {margin:.0%} of "
                    f"{who} came by the time told for 90%" + f"; none for 50%: {half}" * bool(half)
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
