"""Training and requests on the same devices: the runtime, what is believed, the tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.errors import InputError, written
from apportion.mechanism.configurations import ServingPlaces, ServingSide, reclaim_rule
from apportion.mechanism.inference import InferenceGpus, RequestFeed
from apportion.sim.inference.serving import POOLED
from apportion.sim.inference.tables import gpu_states_table, requests_table
from apportion.sim.record import Columns

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.configurations import BesideRequests, GangWorth
    from apportion.mechanism.devices import Devices
    from apportion.mechanism.scheduler import Decision, GangProgress
    from apportion.sim.elastic.choice import PolicyChoice
    from apportion.sim.elastic.parts import ElasticParts
    from apportion.sim.elastic.trainers import Trainers
    from apportion.sim.engine import Fluid
    from apportion.sim.inference.serving import Serving


class FluidBesideRequests:
    """Lets gangs work while requests come; a stretch is over when a request needs a loaned GPU.

    Requests that get a GPU by themselves concern nobody else, and cost no decision.

    Parameters
    ----------
    fluid
        Lets the gangs work.
    feed
        Lets the requests come.
    """

    def __init__(self, fluid: Fluid, feed: RequestFeed) -> None:
        self._fluid, self._feed = fluid, feed

    def apply(self, now_s: float, decision: Decision) -> None:
        """Let the gangs of a decision have their devices from now on."""
        self._fluid.apply(now_s, decision)

    def run(
        self, now_s: float, length_s: float, until_s: float, *, to_completion: bool
    ) -> tuple[float, GangProgress]:
        """Let them work for a while, see `apportion.sim.engine.loop.Runtime`."""
        end_s = now_s + min(length_s, self._fluid.first_done_s(now_s))
        stop_s = self._feed.before(end_s)
        if stop_s < end_s:
            _, ran = self._fluid.run(now_s, stop_s - now_s, now_s, to_completion=to_completion)
            return stop_s, ran
        return self._fluid.run(now_s, length_s, until_s, to_completion=to_completion)

    def awaits(self, starts: NDArray[np.bool_]) -> bool:
        """Tell whether requests are to come or be served, or a gang gets ahead by itself."""
        return self._feed.busy or self._fluid.awaits(starts)

    def tables(self, jobs: pd.Index) -> dict[str, pd.DataFrame]:
        """Return what there is to tell of the speeds."""
        return self._fluid.tables(jobs)


class Speedups:
    """Speeds as jobs believe them, over those that the policy has reckoned for a fair share.

    Parameters
    ----------
    trainers
        Know the speeds.
    choice
        Knows those of fair shares.
    """

    def __init__(self, trainers: Trainers, choice: PolicyChoice) -> None:
        self._trainers, self._choice = trainers, choice

    def speedup(self, job: int, kind: int, gpus: int, nodes: int) -> float:
        """Return the speed of a job on a type over that with a fair share of the GPUs."""
        fair = float(self._choice.fair[job])
        if not fair > 0:
            return 0.0
        return self._trainers.goodput(job, kind, gpus, nodes) / fair


_Row = tuple[int, str, object, float, float]

RECLAIM_COLUMNS = ("time_s", "gpu", "job", "speedup_change", "yield_s")
"""Columns of the table ``reclaims``: a row for each GPU that training had to give back."""


def serving_side(serving: Serving, devices: Devices, worth: GangWorth, seed: int) -> ServingSide:
    """Return what serves requests on devices.

    Raises
    ------
    InputError
        If fewer GPUs are there than are to serve.
    """
    total = sum(len(pool.machine_of) for pool in devices.pools)
    count = total if serving.gpus == POOLED else int(serving.gpus)
    if count > total:
        raise InputError(f"gpus={count} are to serve requests; the cluster has {total}.")
    places = ServingPlaces(devices.pools, count)
    gpus = InferenceGpus(places.node, serving.cold_starts, serving.protect_times)
    requests = serving.requests
    feed = RequestFeed(
        *(gpus, requests["arrival_s"].tolist()),
        *(requests["service"].tolist(), requests["duration_s"].tolist()),
    )
    rule = reclaim_rule(serving.reclaim, seed)
    return ServingSide(feed, places, rule, worth, serving.yield_seconds, serving.lending)


def check_some_train(
    side: ServingSide, devices: Devices, jobs: ElasticParts, ids: Sequence[Hashable]
) -> None:
    """Refuse jobs that would wait for ever, as GPUs that serve are never lent.

    Raises
    ------
    InputError
        For a job that can train on none of the GPUs that are left; it is named.
    """
    if side.lending:
        return
    total = np.array([len(pool.machine_of) for pool in devices.pools])
    serve = np.bincount([kind for kind, _ in side.places.device], minlength=total.size)
    options = jobs.options
    left = options.gpus <= (total - serve)[options.kind]
    for job, name in enumerate(ids):
        if not jobs.trainers.goodputs([job])[0][left].any():
            raise InputError(
                f"Job {written(name)} would wait for ever: {serve.sum()} of {total.sum()} GPUs "
                f"serve requests and are not lent, and it can train on none of the others. Let "
                f"fewer serve, or lend them (lending=True)."
            )


class ServingTables(Columns):
    """Tables of requests, of the states of GPUs, and of reclaims.

    Parameters
    ----------
    serving, side, scheduler
        Of the run.
    accelerators
        Types, in the order in which their GPUs are numbered.
    ids
        Names of the jobs.
    """

    def __init__(
        self,
        serving: Serving,
        side: ServingSide,
        scheduler: BesideRequests,
        accelerators: Sequence[str],
        ids: Sequence[Any],
    ) -> None:
        self._serving, self._side, self._scheduler = serving, side, scheduler
        self._accelerators, self._ids = accelerators, ids

    def tables(self, schedule: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
        """Let the other requests be served, and return the tables."""
        self._scheduler.finish()
        self._side.feed.rest()
        gpus, places = self._side.feed.gpus, self._side.places
        end_s = max([gpus.now_s, *(each.end_s for each in gpus.served)])
        gpus.advance(end_s)
        rows = [each._replace(job=self._ids[each.job]) for each in self._scheduler.reclaims]
        reclaims = pd.DataFrame(rows, columns=list(RECLAIM_COLUMNS))
        held = _held(schedule, places, self._accelerators, reclaims)
        idle = _idle(held, sorted(set(places.numbers.values()) - set(places.number)), end_s)
        trained = pd.DataFrame([*held, *idle], columns=["gpu", "state", "job", "from_s", "to_s"])
        return {
            "requests": requests_table(self._serving.requests, gpus.served, places.number),
            "gpu_states": gpu_states_table(gpus.changes, places.number, (0.0, end_s), trained),
            "reclaims": reclaims,
        }


def _held(
    schedule: pd.DataFrame | None,
    places: ServingPlaces,
    accelerators: Sequence[str],
    reclaims: pd.DataFrame,
) -> list[_Row]:
    """Return which job has had which GPU; one that is called back is its until it is left."""
    serves, kinds = set(places.number), {name: k for k, name in enumerate(accelerators)}
    rows: list[_Row] = []
    stays = () if schedule is None else schedule.itertuples(index=False)
    for job, name, _, devices, from_s, to_s in stays:
        for device in devices if to_s > from_s else ():
            gpu = places.numbers[kinds[name], device]
            rows.append((gpu, "loaned" if gpu in serves else "training", job, from_s, to_s))
    for time_s, gpu, job, _, yield_s in reclaims.itertuples(index=False):
        if yield_s > 0:
            rows.append((gpu, "loaned", job, time_s, time_s + yield_s))
    return rows


def _idle(held: Sequence[_Row], gpus: Sequence[int], end_s: float) -> list[_Row]:
    """Return when GPUs that only train had nobody."""
    rows: list[_Row] = []
    for gpu in gpus:
        since_s = 0.0
        for from_s, to_s in sorted(row[3:] for row in held if row[0] == gpu):
            if from_s > since_s:
                rows.append((gpu, "free", None, since_s, from_s))
            since_s = to_s
        if end_s > since_s:
            rows.append((gpu, "free", None, since_s, end_s))
    return rows
