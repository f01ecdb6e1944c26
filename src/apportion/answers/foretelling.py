"""Futures of a state, drawn and simulated: who comes, when each starts and ends."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.answers.caveats import named
from apportion.answers.history import in_order, told_columns
from apportion.answers.state import placed
from apportion.errors import InputError
from apportion.mechanism.batch.scheduler import BatchScheduler, QueuedJobs, starts_alone
from apportion.mechanism.batch.serving import FreeGpus
from apportion.sim import Workload
from apportion.sim.deciders import get_decider
from apportion.sim.simulation import carried_on
from apportion.sim.workload_tables import present_types

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from apportion.answers.history import Coming, History
    from apportion.answers.state import ClusterState
    from apportion.cluster import Cluster
    from apportion.mechanism.own import Decides
    from apportion.sim.deciders import AnyDecider
    from apportion.types import Bools, Floats


ZERO_S = 1e9
"""The time of the state in its futures: jobs arrived before it, and times are not below 0."""


def _name_of(job: Any) -> str:
    """Return what a job of the state is called in its futures."""
    return f"here-{job}"


class Futures:
    """Futures of one state: durations of who is here, and who comes while somebody waits.

    Times are whole seconds from the state on, so that no sum of them is rounded.

    Parameters
    ----------
    state
        Who is here.
    history
        The log.
    cluster
        Where they run.
    reads
        Columns that the policy needs.
    horizon_s
        For how long jobs come later.

    Raises
    ------
    InputError
        For a state that does not fit the cluster, and as `told_columns`.
    """

    def __init__(
        self,
        state: ClusterState,
        history: History,
        cluster: Cluster,
        reads: Iterable[str],
        horizon_s: float,
    ) -> None:
        self.order = in_order(state)
        self._jobs = jobs = state.jobs.iloc[self.order].reset_index()
        self._running = placed(state, cluster)
        self._kinds = [
            (self._running[job][0] if job in self._running else kind).lower() or "any"
            for job, kind in zip(jobs["job"].tolist(), jobs["accelerator"].tolist(), strict=True)
        ]
        self._runs = (jobs["state"] == "running").to_numpy()
        self._gpus = jobs["gpus"].to_numpy(dtype=np.intp)
        had_s = state.now_s - jobs["start_s"].to_numpy(dtype=float)
        self._had_s = np.where(self._runs, had_s, 0.0)
        self._limit_s = jobs["time_limit_s"].to_numpy(dtype=float)
        limited = jobs[jobs["at_once"] < jobs["array"].map(jobs["array"].value_counts())]
        self._at_once = {
            str(each): int(most)
            for each, most in zip(limited["array"], limited["at_once"], strict=True)
        }
        self._array = {n: each for n, each in enumerate(jobs["array"]) if each in self._at_once}
        self._submit_s = jobs["submit_s"].to_numpy(dtype=float) - state.now_s
        self._cluster, self._history = cluster, history
        self._durations, self._of_kinds = history.durations(state)
        self._told = told_columns(state.jobs, history.told, reads)
        self._horizon_s = horizon_s if not self._runs.all() else 0.0
        self._check_fit()

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Coming]:
        """Draw a future: for how long each who is here still runs, and who comes."""
        who = self._of_kinds, self._had_s, self._runs, self._limit_s
        left_s = self._durations.draw(rng, *who) - self._had_s
        return np.ceil(np.maximum(left_s, 1.0)), self._history.coming(rng, self._horizon_s)

    def latest(self, decider: BatchScheduler, passing_s: float) -> Floats:
        """Return when each starts at the latest, seconds from now on, infinite for unknown.

        That holds if no later job runs for longer than `passing_s`.
        """
        left_s = np.where(np.isnan(self._limit_s), np.inf, self._limit_s - self._had_s)
        left_s, runs = np.ceil(np.maximum(left_s, 1.0)), self._runs
        known, one = np.isfinite(left_s).all(), len(present_types(self._cluster).gpus) == 1
        if decider.backfill == "none" and (one or "any" not in self._kinds):
            # A job that ends early lets others start earlier, and later jobs are behind them.
            began_s = self.in_queue(decider, left_s, self._history.nobody())
            return np.where(np.logical_or.accumulate(np.isinf(began_s)), np.inf, began_s)
        if decider.backfill == "easy" and one:
            began_s = self.in_queue(decider, left_s, self._history.nobody())
            return self._latest_of_heads(left_s, began_s == 0 if known else runs, passing_s)
        if decider.keeps and one and known and not self._at_once and sum(~runs) <= decider.depth:
            # The state does not tell reservations, but none becomes later, and later jobs delay
            # none. So until a job starts others run, at worst one after another for their limits.
            last_s = left_s[runs].max(initial=0.0) + left_s[~runs].sum()
            return np.where(runs, 0.0, last_s - left_s)
        return np.where(runs, 0.0, np.inf)

    def _latest_of_heads(self, left_s: Floats, starts: Bools, passing_s: float) -> Floats:
        """Return when each starts at the latest where nobody delays the head of the queue.

        Parameters
        ----------
        left_s
            For how long each may run, infinite for no limit, shape (jobs,).
        starts
            Who runs, or starts now, shape (jobs,).
        passing_s
            For how long a later job runs at most.
        """
        # The head has a shadow time from the limits of running jobs, and no later job delays it:
        # the first job starts by then. Let all jobs before k have started by M; from then on k is
        # the head, if it waits. A job that was backfilled before either fits before the shadow time
        # of a head, and ends by M; or it runs on spare GPUs, of which fewer are left further down
        # the queue: it has fewer GPUs than k, and ends at most its limit after M. All else that
        # runs then is known. That is the first bound. If no job before k has fewer GPUs than k, the
        # GPUs of the last one to start are enough for k, which starts by its end: the second.
        # A task of an array may wait for another task of it to end. If no job waits before it, it
        # starts at once then, on the GPUs of that task; before, any job may pass it.
        passing_s = max(passing_s, left_s[~starts].max(initial=0.0))
        ends: dict[str, list[float]] = {array: [] for array in self._at_once}
        running, found = np.flatnonzero(starts).tolist(), np.zeros(starts.size)
        for job in running:
            if job in self._array:
                heappush(ends[self._array[job]], left_s[job])
        held = [(float(left_s[job]), int(self._gpus[job])) for job in running]
        later = FreeGpus(0.0, int(self._cluster.counts.sum()) - sum(n for _, n in held), held)
        started_s, ended_s, fewest, waits = 0.0, 0.0, np.inf, False
        for job in np.flatnonzero(~starts).tolist():
            gpus, array, may_s = int(self._gpus[job]), self._array.get(job), 0.0
            while array is not None and len(ends[array]) >= self._at_once[array]:
                may_s = heappop(ends[array])
            at_s = may_s
            if waits or not may_s:
                passed = started_s > 0 and (gpus > 1 or array is not None)
                at_s = later.earliest_s(gpus, np.inf, started_s + (passing_s if passed else 0.0))
                if ended_s > 0 and gpus <= fewest:
                    at_s = min(at_s, ended_s)
                at_s = max(at_s, may_s)
                waits |= at_s > 0
            end_s = at_s + float(left_s[job])
            later.hold(at_s, end_s, gpus)
            found[job], started_s = at_s, max(started_s, at_s)
            if at_s > 0:
                fewest, ended_s = min(fewest, gpus), max(ended_s, end_s)
            if array is not None:
                heappush(ends[array], end_s)
        return found

    def in_queue(self, decider: BatchScheduler, left_s: Floats, coming: Coming) -> Floats:
        """Return when a queue alone starts who is here, seconds from now on."""
        present = present_types(self._cluster).gpus
        kinds = [name.lower() for name in present]
        every = list(range(len(kinds)))
        some = [every if kind == "any" else [kinds.index(kind)] for kind in self._kinds]
        limit_s = np.concatenate([self._limit_s - self._had_s, np.full(coming.row.size, np.nan)])
        jobs = QueuedJobs(
            np.concatenate([self._submit_s, coming.after_s]).tolist(),
            np.concatenate([self._gpus, coming.gpus]).tolist(),
            np.concatenate([left_s, coming.took_s]).tolist(),
            limit_s.tolist(),
            [*some, *[every] * coming.row.size],
            self._array,
            self._at_once,
        )
        running = {int(job): some[job][0] for job in np.flatnonzero(self._runs)}
        capacity = [int(count) for count in present.values()]
        return np.array(starts_alone(decider, jobs, capacity, 0.0, running, len(some)))

    def workload(
        self, left_s: Floats, coming: Coming
    ) -> tuple[Workload, dict[Hashable, tuple[str, Sequence[int]]]]:
        """Return a future as jobs, those here first, who arrived by `ZERO_S`; and who has what."""
        here = pd.DataFrame(
            {
                "job": [_name_of(job) for job in self._jobs["job"]],
                "arrival_s": ZERO_S + self._submit_s,
                "scale_factor": self._gpus,
                "total_steps": self._had_s + left_s,
                "steps_remaining": left_s,
                "job_type": self._kinds,
                "time_limit_s": self._limit_s,
            }
        ).join(self._told[0].rename(index=_name_of), on="job")
        later = pd.DataFrame(
            {
                "job": [f"later-{number:06d}" for number in range(coming.row.size)],
                "arrival_s": ZERO_S + coming.after_s,
                "scale_factor": coming.gpus,
                "total_steps": coming.took_s,
                "steps_remaining": coming.took_s,
                "job_type": "any",
            }
        )
        own = self._told[1].iloc[coming.row].reset_index(drop=True)
        tables = [here, *([pd.concat([later, own], axis=1)] if len(later) else [])]
        jobs = pd.concat(tables, ignore_index=True).set_index("job")
        if jobs["time_limit_s"].isna().all():
            jobs = jobs.drop(columns="time_limit_s")
        begun: dict[Hashable, tuple[str, Sequence[int]]]
        begun = {_name_of(job): devices for job, devices in self._running.items()}
        return Workload("future", jobs, _speeds(jobs, self._cluster)), begun

    def _check_fit(self) -> None:
        """Raise an error for a job that waits and that no type of the cluster holds."""
        most = {name.lower(): int(count) for name, count in self._cluster.gpus.items()}
        most["any"] = max(most.values())
        for job, kind, gpus in zip(self._jobs["job"], self._kinds, self._gpus, strict=True):
            if gpus > most.get(kind, 0):
                of = "" if kind == "any" else f" {kind}"
                raise InputError(
                    f"Job {job} of the state waits for {gpus}{of} GPUs; the cluster "
                    f"{self._cluster} has no type of which there are so many."
                )


def _speeds(jobs: pd.DataFrame, cluster: Cluster) -> pd.DataFrame:
    """Return speeds by which steps are seconds, on the type that a job asks for, or on any."""
    kinds = sorted(set(zip(jobs["job_type"], jobs["scale_factor"].astype(int), strict=True)))
    runs_on = [
        [1.0 if kind in ("any", name.lower()) else 0.0 for name in cluster.gpus]
        for kind, _ in kinds
    ]
    index = pd.MultiIndex.from_tuples(kinds, names=["job_type", "scale_factor"])
    return pd.DataFrame(runs_on, index=index, columns=[*cluster.gpus])


_FREE = {"preemption_overhead_seconds": 0.0}
"""Settings under which nothing but the queue counts."""


class Foretelling:
    """Draws futures of states of one log.

    Parameters
    ----------
    policy, settings
        As for `apportion.simulate`.
    cluster
        Where jobs run.
    horizon_s
        For how long jobs come later.
    seed
        Of all draws.

    Attributes
    ----------
    alone
        Whether a future is a queue alone (`apportion.mechanism.batch.scheduler`); if not, it is
        simulated (`apportion.sim.simulation`), which takes far longer.
    """

    def __init__(
        self,
        policy: str | AnyDecider | Decides,
        cluster: Cluster,
        horizon_s: float,
        seed: int,
        settings: Mapping[str, Any],
    ) -> None:
        self.cluster, self.seed = cluster, seed
        self._decider, self._settings = get_decider(policy), settings
        self._horizon_s, self._reads = horizon_s, getattr(self._decider, "columns", ())
        own = type(self._decider) is BatchScheduler and self._decider.order is None
        self.alone = own and all(_FREE.get(name) == each for name, each in settings.items())

    def __call__(self, state: ClusterState, history: History, count: int) -> tuple[Floats, Floats]:
        """Return starts and ends in the clock of the state, each of shape (jobs, futures)."""
        futures = Futures(state, history, self.cluster, self._reads, self._horizon_s)
        starts, ends = np.full((2, len(state.jobs), count), np.nan)
        # Of moments apart: what is rare in the futures of one is to be rare in those of another.
        rngs = np.random.default_rng([self.seed, history.gpus.size]).spawn(count)
        for future, rng in enumerate(rngs):
            went = self._went(futures, *futures.draw(rng))
            starts[futures.order, future], ends[futures.order, future] = went
        starts, ends = starts + state.now_s, ends + state.now_s
        here = (state.jobs["state"] == "running").to_numpy()
        starts[here] = state.jobs["start_s"].to_numpy()[here, None]
        return starts, ends

    def _went(self, futures: Futures, left_s: Floats, coming: Coming) -> tuple[Floats, Floats]:
        """Return starts and ends of a future, seconds from now on, in its order of jobs."""
        if self.alone:
            began_s = futures.in_queue(self._decider, left_s, coming)
            return began_s, began_s + left_s
        workload, begun = futures.workload(left_s, coming)
        run = carried_on(
            self._decider,
            *(workload, self.cluster, ZERO_S, begun),
            seed=self.seed,
            **self._settings,
        )
        jobs = run.jobs.loc[workload.jobs.index[: futures.order.size]]
        return jobs["start_s"].to_numpy() - ZERO_S, jobs["completion_s"].to_numpy() - ZERO_S

    def latest(self, state: ClusterState, history: History) -> tuple[Floats, Floats, str, str]:
        """Return when jobs start and end at the latest, infinite for unknown.

        And what that assumes, and why some times are unknown, empty for none.
        """
        jobs, ever, decider = state.jobs, np.full(len(state.jobs), np.inf), self._decider
        starts_s = jobs["start_s"].fillna(np.inf).to_numpy(dtype=float)
        if type(decider) is not BatchScheduler:
            why = "may stop jobs that run, and let others pass: limits bound nothing"
            return starts_s, ever, "", f"{decider.name} {why}"
        limit_s = jobs["time_limit_s"].fillna(np.inf).to_numpy(dtype=float)
        endless, waits = np.isinf(limit_s), (jobs["state"] == "waiting").to_numpy()
        passing_s = max(history.longest_s(), limit_s[~endless].max(initial=0.0))
        held, why = "every job ends by its limit", ""
        if decider.backfill == "easy" and waits.any():
            held += f", and no later job runs for longer than {passing_s / 3600:.1f} h"
        if self.alone:
            futures = Futures(state, history, self.cluster, self._reads, 0.0)
            ever[futures.order] = futures.latest(decider, passing_s) + state.now_s
        if endless.any():
            why = f"{named(jobs.index[endless].tolist(), 'has', 'have')} no time limit"
        elif np.isinf(ever[waits]).any():
            why = f"{decider.name} may put off who waits, with this cluster and these settings"
        starts_s = np.where(waits, ever, starts_s)
        return starts_s, np.maximum(starts_s + limit_s, state.now_s + 1), held, why
