"""The state in which a round begins, as users tell it and as schedulers are told it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanisms.past import Past
from apportion.sim.one_round.fitting import (
    Available,
    check_fits,
    check_gang,
    check_time,
    fitting,
)
from apportion.sim.one_round.running import RunningGang, read_free, read_running
from apportion.sim.one_round.tables import Seconds, clock_of, read_jobs, read_seconds, steps_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.devices import Held
    from apportion.sim.about import AboutRun
    from apportion.tensor import ThroughputTensor
    from apportion.types import Floats


@dataclass(frozen=True, eq=False)
class RoundState:
    """Jobs, devices, who has which, and what there was before.

    Attributes
    ----------
    tensor, cluster
        Throughputs, and all devices.
    jobs
        The jobs table in the order of the tensor.
    running
        Who has devices.
    available
        The devices that may be given; ``None`` if there are none.
    takes_part
        Whether each job can run on what is available, shape (jobs,).
    received, owed
        Seconds that jobs have had devices, and those by which they are behind their shares.
    """

    tensor: ThroughputTensor
    cluster: Cluster
    jobs: pd.DataFrame
    running: list[RunningGang]
    available: Available | None
    takes_part: NDArray[np.bool_]
    received: Seconds
    owed: Seconds

    @classmethod
    def of(
        cls, tensor: ThroughputTensor, decider: Any, shared: bool, given: Mapping[str, Any]
    ) -> RoundState:
        """Read what users tell.

        Parameters
        ----------
        tensor
            With its cluster, and its jobs table if there is one.
        decider
            Who decides.
        shared
            Whether jobs may have the same devices, see `read_running`.
        given
            ``running``, ``free``, ``received`` and ``owed``, as of `apportion.solve_round`.

        Raises
        ------
        InputError
            For labels that do not match, values out of range, and a job that the cluster can never
            run.
        """
        cluster = tensor.cluster
        tensor = tensor.on_types_of(cluster)
        jobs = read_jobs(tensor, decider)
        gpus = jobs["scale_factor"].to_numpy(dtype=float)
        check_fits(tensor, cluster, gpus)

        def check(job: Hashable, accelerator: str, count: int) -> None:
            check_gang(tensor, gpus, job, accelerator, count)

        known = dict.fromkeys(tensor.jobs)
        running = read_running(given["running"], cluster, known, check, shared=shared)
        left = read_free(given["free"], cluster, running)
        available = Available.of(cluster, {name: sorted(each) for name, each in left.items()})
        received = read_seconds("received", given["received"], tensor, cluster)
        check_time(jobs, received)
        owed = read_seconds("owed", given["owed"], tensor, cluster, signed=True)
        takes_part: Any = np.zeros(len(jobs), dtype=bool)
        if available is not None:
            takes_part = fitting(tensor, available.cluster, gpus).any(axis=1)
        return cls(tensor, cluster, jobs, running, available, takes_part, received, owed)

    @property
    def now_s(self) -> float:
        """The time, seconds."""
        return clock_of(self.jobs)[1]

    def table(self) -> pd.DataFrame:
        """Return the jobs that take part as a workload has them."""
        arrival_s, _ = clock_of(self.jobs)
        total, _ = steps_of(self.jobs)
        left_out = ["steps_remaining", "elapsed_s", "isolated_elapsed_s", "running_on", "pinned"]
        left_out += ["waited_s", "count"]
        told = self.jobs.drop(columns=left_out, errors="ignore")
        told = told.assign(arrival_s=arrival_s, total_steps=total)
        if "job_type" not in told.columns:
            told = told.assign(job_type=[str(job) for job in told.index])
        return told[self.takes_part]

    def speeds(self) -> pd.DataFrame:
        """Return steps/s of the jobs that take part on each type."""
        table = self.tensor.values.set_axis(self.tensor.jobs, axis=0)
        return table.reindex(columns=list(self.cluster.gpus), fill_value=0.0)[self.takes_part]

    def begin(self, about: AboutRun) -> Past:
        """Let what a run is about begin in this state; return what its scheduler is told.

        The time is rounded up to where things can happen.
        """
        order = about.workload.jobs.index
        place = {job: number for number, job in enumerate(order.tolist())}
        jobs = self.jobs.loc[order]
        now_s = self.now_s
        if about.tick_s:
            now_s = float(np.ceil(now_s / about.tick_s) * about.tick_s)
        elapsed_s = now_s - about.jobs.arrival_s
        held = self._held(about, place)
        here = np.zeros(len(order), dtype=bool)
        here[list(held)] = True
        isolated_s = _column(jobs, "isolated_elapsed_s", elapsed_s)
        about.truth.begin(steps_of(jobs)[1], isolated_s, self._received(about, place))
        return Past(
            now_s=now_s,
            held=held,
            stays=_column(jobs, "pinned", np.zeros(len(order))).astype(bool),
            waited_s=np.where(here, 0.0, _column(jobs, "waited_s", elapsed_s)),
            running_on=self._running_on(about, jobs, held),
            owed_s=self._owed(about, place),
        )

    def _held(self, about: AboutRun, place: Mapping[Hashable, int]) -> dict[int, Held]:
        """Return who has which devices, in numbers."""
        kinds = {name: kind for kind, name in enumerate(about.present.accelerators)}
        found: dict[int, Held] = {}
        if self.available is None:
            return found
        for gang in self.running:
            devices = self.available.inside(gang.accelerator, gang.devices)
            found[place[gang.job]] = kinds[gang.accelerator], devices
        return dict(sorted(found.items()))

    def _received(self, about: AboutRun, place: Mapping[Hashable, int]) -> Floats:
        """Return the seconds that jobs have had devices, by type."""
        return self.received.array(place, about.present.accelerators, tiers=False)

    def _owed(self, about: AboutRun, place: Mapping[Hashable, int]) -> Floats:
        """Return the seconds by which jobs are behind their shares."""
        tiers = self.owed.tier is not None
        return self.owed.array(place, about.present.accelerators, tiers=tiers)

    def _running_on(self, about: AboutRun, jobs: pd.DataFrame, held: Mapping[int, Held]) -> Floats:
        """Return the type on which each job is all the time: as told, else where it runs."""
        found = np.full(len(jobs), -1.0)
        if "running_on" in jobs.columns:
            names = list(about.present.accelerators)
            told = jobs["running_on"].tolist()
            return np.array([names.index(name) if name in names else -1 for name in told], float)
        for job, (kind, _) in held.items():
            found[job] = kind
        return found


def _column(jobs: pd.DataFrame, name: str, default: Floats) -> Floats:
    return jobs[name].to_numpy(dtype=float) if name in jobs.columns else default
