"""Speeds of gangs whose phases meet on links: by the score, or as the engine of phases has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.sim.engine.speeds import Speeds
from apportion.sim.links.meeting import connected, crowded, meeting_of
from apportion.sim.links.shift_plan import Crowd, Epochs, looped_jobs, planned_shifts
from apportion.sim.links.steady import SteadyIterations
from apportion.sim.network.cassini import CassiniNetwork, GangLinks
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from apportion.cluster import Cluster
    from apportion.mechanism.machines import Layout
    from apportion.mechanism.scheduler import Gangs, Placement
    from apportion.mechanism.time_shifts import CommunicationProfile
    from apportion.sim.network.contention import PhaseNetwork
    from apportion.types import Bools, Floats

    Stay = tuple[int, int, str, Placement]

_BOOKS = ("marks_gigabits", "worked_s", "alone_s", "shared_s", "shifted_s", "looped_s")
_LINES = ("slowdown", "marks_gbps", "shared", "shifted", "looped")


class PhaseSpeeds(Speeds):
    """Steps/s of gangs on links, see `apportion.sim.engine.speeds.Speeds`.

    The speed of a gang that has the links for itself, over how many times as long its iterations
    take beside the others in the engine.

    Parameters
    ----------
    free
        Speeds of gangs that have the links for themselves.
    job_types
        What each job trains, length (jobs,).
    model
        Profiles, Gb/s and epochs.
    cluster
        Machines and racks.
    layout
        In which machines and racks devices are.
    """

    def __init__(
        self,
        free: Speeds,
        job_types: Sequence[str],
        model: PhaseNetwork,
        cluster: Cluster,
        layout: Layout,
    ) -> None:
        self._free, self._job_types, self._layout = free, job_types, layout
        self._model, self._links = model, GangLinks(model, cluster)
        self._steady = SteadyIterations(model)
        self._epochs = Epochs(model.epoch_s)
        self._shifts: dict[Stay, float] = {}  # those of the epoch
        self._paces: dict[Stay, float] = {}  # periods that are kept in it
        self._planned: frozenset[Stay] = frozenset()  # who was there when they were chosen
        self._asked: Hashable = None
        self._settled = True
        self._books = {name: np.zeros(len(job_types)) for name in _BOOKS}
        self._lines: dict[str, Floats] = {}

    def changes_s(self, now_s: float) -> float:
        """Return when shifts are chosen anew for gangs that have none that suit; or never."""
        begins = self._epochs.at(now_s)
        if self._settled:
            return np.inf
        return now_s if begins else self._epochs.next_s

    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        """Return the steps/s of every line, shape (lines,)."""
        free, size = self._free.rates(gangs, there), gangs.job.size
        stays: dict[int, Stay] = {}
        for line, (job, held) in enumerate(zip(map(int, gangs.job), gangs.devices, strict=True)):
            if there is None or there[line]:
                where = self._layout.placement(held)
                stays[line] = job, held[0], self._job_types[job], where
        asked = tuple(stays.items()), size
        if asked != self._asked or self._epochs.due:
            self._asked = asked
            self._meet(stays, size)
        rates: Floats = free / self._lines["slowdown"]
        return rates

    def worked(self, gangs: Gangs, worked_s: Floats) -> None:
        """Take down how long each line worked at the speeds that were asked for last."""
        lines, books = self._lines, self._books
        added = {
            "marks_gigabits": lines["marks_gbps"],
            "worked_s": np.ones(worked_s.size),
            "alone_s": 1 / lines["slowdown"],
            "shared_s": lines["shared"],
            "shifted_s": lines["shifted"],
            "looped_s": lines["looped"],
        }
        for name, per_s in added.items():
            np.add.at(books[name], gangs.job, per_s * worked_s)

    def marks_gigabits(self) -> Floats:
        """Return what each job has wanted above the capacities of links so far, shape (jobs,)."""
        return self._books["marks_gigabits"]

    def tables(self, jobs: pd.Index) -> dict[str, pd.DataFrame]:
        """Return ``links``: what each job met on links.

        ``marks_gigabits``: wanted above the capacities of links; ``slowdown``: mean time of an
        iteration over that alone; ``shared_s``: seconds of work on links that others used too,
        ``shifted_s`` of them with a shift, ``looped_s`` where links and jobs formed a loop.
        """
        books = self._books
        worked_s = books["worked_s"]
        slowdown = np.divide(worked_s, books["alone_s"], out=np.ones(len(jobs)), where=worked_s > 0)
        columns = {"marks_gigabits": books["marks_gigabits"], "slowdown": slowdown}
        spent = {name: books[name] for name in ("shared_s", "shifted_s", "looped_s")}
        return {"links": pd.DataFrame({**columns, **spent}, index=jobs)}

    def _meet(self, stays: dict[int, Stay], lines: int) -> None:
        """Find how long iterations take, for lines at their places."""
        crowd = self._crowd(stays)
        on_links = {line for lines_there in crowd.jobs_of.values() for line in lines_there}
        profile = {line: self._model.profile(*crowd.trained[line]) for line in sorted(on_links)}
        present = frozenset(stays.values())
        if self._epochs.due:
            self._epochs.chosen()
            self._planned = present
            self._plan(stays, crowd, profile)
        starts_s = {line: self._shifts.get(stay) for line, stay in stays.items()}
        found = {name: np.zeros(lines) for name in _LINES}
        found["slowdown"] += 1
        for jobs in crowd.jobs_of.values():
            if len(jobs) > 1:
                found["shared"][jobs] = 1.0
        found["looped"][sorted(looped_jobs(crowd))] = 1.0
        alone = found["shared"] == 0
        self._settled = present == self._planned or bool(alone.all()) or not self._model.shifted
        found["shifted"][[line for line in stays if starts_s[line] is not None]] = 1.0
        found["shifted"][alone] = 0.0
        tight = crowded(crowd.jobs_of, profile, crowd.capacities)
        for jobs, links in connected(tight):
            if len(jobs) == 1:  # for which it does not matter
                starts_s[jobs[0]] = 0.0
            paces_s = {
                line: self._paces[stays[line]] for line in jobs if stays[line] in self._paces
            }
            meeting, order = meeting_of(
                *(jobs, links, tight, profile, starts_s, crowd.capacities),
                paces_s if len(jobs) > 1 else {},
            )
            steady = self._steady.of(meeting)
            found["slowdown"][order] = steady.slowdown
            found["marks_gbps"][order] = steady.marks_gbps
        self._lines = found

    def _plan(
        self, stays: dict[int, Stay], crowd: Crowd, profile: dict[int, CommunicationProfile]
    ) -> None:
        """Choose shifts and paces for an epoch."""
        self._shifts, self._paces = {}, {}
        model = self._model
        if not model.shifted:
            return
        plan = planned_shifts(
            *(crowd, self._links.scores, {line: each.period_s for line, each in profile.items()}),
            paces=model.readjust is not None,
            epoch_s=model.epoch_s,
        )
        shifts_s = {line: significant(each) for line, each in plan.shifts_s.items()}
        paces_s = {line: significant(each) for line, each in plan.paces_s.items()}
        tight = crowded(crowd.jobs_of, profile, crowd.capacities)
        for jobs, links in connected(tight):
            own = {line: shifts_s.get(line) for line in jobs}
            paced = {line: paces_s[line] for line in jobs if line in paces_s}
            meeting = meeting_of(jobs, links, tight, profile, own, crowd.capacities, paced)[0]
            if len(jobs) > 1 and not self._steady.gains(meeting):
                for line in jobs:
                    shifts_s.pop(line, None)
                    paces_s.pop(line, None)
        self._paces = {stays[line]: each for line, each in paces_s.items()}
        self._shifts = {stays[line]: each for line, each in shifts_s.items()}

    def _crowd(self, stays: dict[int, Stay]) -> Crowd:
        crowd = Crowd({}, {}, {})
        for line, (_, kind, job_type, where) in stays.items():
            for link, gbps in self._links.links_of(where).items():
                crowd.jobs_of.setdefault((kind, link), []).append(line)
                crowd.capacities[kind, link] = gbps
            crowd.trained[line] = job_type, sum(gpus for _, _, gpus in where)
        return crowd


class CompatibleSpeeds(Speeds):
    """Steps/s of gangs by the law of the score, see `apportion.sim.engine.speeds.Speeds`.

    ``speed / (2 - score of the gang's worst link)``.

    Parameters
    ----------
    free
        Speeds of gangs that have the links for themselves.
    job_types
        What each job trains, length (jobs,).
    model
        Profiles and Gb/s.
    cluster
        Machines and racks.
    layout
        In which machines and racks devices are.
    """

    def __init__(
        self,
        free: Speeds,
        job_types: Sequence[str],
        model: CassiniNetwork,
        cluster: Cluster,
        layout: Layout,
    ) -> None:
        self._free, self._job_types, self._layout = free, job_types, layout
        self._shifted = model.shifted
        self._links = GangLinks(model, cluster)

    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        """Return the steps/s of every line, shape (lines,)."""
        free = self._free.rates(gangs, there)
        jobs_of: dict[Any, list[int]] = {}
        trained: dict[int, tuple[str, int]] = {}
        capacities: dict[Any, float] = {}
        for line, (job, held) in enumerate(zip(map(int, gangs.job), gangs.devices, strict=True)):
            if there is not None and not there[line]:
                continue
            own = self._links.network.profiles.get(self._job_types[job])
            if own is not None and not own.phases:
                continue  # who sends nothing waits for nobody
            kind, where = held[0], self._layout.placement(held)
            for link, gbps in self._links.links_of(where).items():
                jobs_of.setdefault((kind, link), []).append(line)
                capacities[kind, link] = gbps
            trained[line] = self._job_types[job], sum(gpus for _, _, gpus in where)
        scores = self._links.scores.of_links(jobs_of, trained, capacities, shifted=self._shifted)
        longer = np.ones(free.size)
        for link, score in scores.items():
            for line in jobs_of[link]:
                longer[line] = max(longer[line], 2 - score)
        rates: Floats = free / longer
        return rates
