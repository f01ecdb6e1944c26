"""The state in which a round begins, as users tell it and as schedulers are told it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.cluster import TIERS
from apportion.errors import InputError
from apportion.mechanisms.past import Past
from apportion.sim.one_round.fitting import (
    Available,
    check_fits,
    check_gang,
    check_time,
    fitting,
    gpus_held,
)
from apportion.sim.one_round.running import RunningGang, read_free, read_running
from apportion.sim.one_round.tables import Seconds, clock_of, read_jobs, read_seconds, steps_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

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
        cls, tensor: ThroughputTensor, decider: Any, shares: str, given: Mapping[str, Any]
    ) -> RoundState:
        """Read what users tell.

        Parameters
        ----------
        tensor
            With its cluster, and its jobs table if there is one.
        decider
            Who decides.
        shares
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
        gpus = gpus_held(tensor, jobs)
        check_fits(tensor, cluster, gpus)

        def check(job: Hashable, accelerator: str, count: int) -> None:
            check_gang(tensor, gpus, job, accelerator, count)

        known = dict.fromkeys(tensor.jobs)
        running = read_running(given["running"], cluster, known, check, shares)
        left = read_free(given["free"], cluster, running)
        available = Available.of(cluster, {name: sorted(each) for name, each in left.items()})
        received = read_seconds("received", given["received"], tensor, cluster)
        if tensor.gpus_of_option is not None and received.rows and received.gpus is None:
            raise InputError(
                "received has no GPUs among its columns; of elastic jobs it is by (accelerator, "
                "gpus), as the throughputs are."
            )
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
        """Return steps/s of the jobs that take part on each type, at their fastest option there."""
        kinds = self.tensor.accelerator_of_option
        values = self.tensor.values.to_numpy()
        by_type = {
            name: values[:, kinds == name].max(axis=1, initial=0.0) for name in self.cluster.gpus
        }
        return pd.DataFrame(by_type, index=self.tensor.jobs)[self.takes_part]

    def by_tier(self) -> dict[str, pd.DataFrame]:
        """Return steps/s of the jobs that take part at each tier, by type; 0 where not told."""
        tiers = self.tensor.option_level("tier")
        frames: dict[str, pd.DataFrame] = {}
        if tiers is None:
            return frames
        for name in self.cluster.gpus:
            of_type = self.tensor.accelerator_of_option == name
            frame = self.tensor.values.loc[:, of_type].set_axis(tiers[of_type], axis=1)
            frame = frame.set_axis(self.tensor.jobs, axis=0)
            frames[name] = frame.reindex(columns=list(TIERS), fill_value=0.0)[self.takes_part]
        return frames

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
        here[[job for members in held for job in members]] = True
        isolated_s = _column(jobs, "isolated_elapsed_s", elapsed_s)
        received = self._received(about, place)
        about.truth.begin(steps_of(jobs)[1], isolated_s, received["held_s"])
        owed, by_pair = self._owed(about, place)
        for members, (_, devices) in held.items():
            for job in members:
                received["most_gpus"][job] = max(received["most_gpus"][job], len(devices))
        return Past(
            now_s=now_s,
            held=held,
            stays=_column(jobs, "pinned", np.zeros(len(order))).astype(bool),
            waited_s=np.where(here, 0.0, _column(jobs, "waited_s", elapsed_s)),
            running_on=self._running_on(about, jobs, held),
            alone_s=received["alone_s"],
            owed_s=owed,
            owed_by_pair=by_pair,
            gpu_s=received["gpu_s"],
            most_gpus=received["most_gpus"].astype(np.intp),
            restarts=_column(jobs, "restarts", np.zeros(len(order))).astype(np.intp),
        )

    def _held(self, about: AboutRun, place: Mapping[Hashable, int]) -> dict[tuple[int, ...], Held]:
        """Return who has which devices, in numbers."""
        kinds = {name: kind for kind, name in enumerate(about.present.accelerators)}
        found: dict[tuple[int, ...], Held] = {}
        if self.available is None:
            return found
        for gang in self.running:
            devices = self.available.inside(gang.accelerator, gang.devices)
            members = tuple(sorted(place[job] for job in gang.jobs))
            found[members] = kinds[gang.accelerator], devices
        return dict(sorted(found.items()))

    def _received(self, about: AboutRun, place: Mapping[Hashable, int]) -> dict[str, Floats]:
        """Return what jobs have had: seconds by type and alone, GPU-seconds, and most GPUs."""
        names, told = about.present.accelerators, self.received
        kinds = {name: kind for kind, name in enumerate(names)}
        held_s = np.zeros((len(place), len(names)))
        alone_s, gpu_s, most = np.zeros((3, len(place)))
        for row, values in zip(told.rows, told.values, strict=True):
            for job in [place[job] for job in row if job in place]:
                for column, seconds in enumerate(values.tolist()):
                    gpus = int(about.jobs.scale[job]) if told.gpus is None else told.gpus[column]
                    if seconds and told.kind[column] in kinds:
                        held_s[job, kinds[told.kind[column]]] += seconds
                    alone_s[job] += seconds * (len(row) == 1)
                    gpu_s[job] += seconds * gpus
                    most[job] = max(most[job], gpus * (seconds > 0))
        return {"held_s": held_s, "alone_s": alone_s, "gpu_s": gpu_s, "most_gpus": most}

    def _owed(
        self, about: AboutRun, place: Mapping[Hashable, int]
    ) -> tuple[Floats, dict[tuple[int, ...], Floats]]:
        """Return the seconds by which jobs, and pairs, are behind their shares."""
        names, told = about.present.accelerators, self.owed
        columns = len(names) * (1 if told.tier is None else len(TIERS))
        owed = np.zeros((len(place), columns))
        by_pair: dict[tuple[int, ...], Floats] = {}
        places = told.places(names)
        for row, values in zip(told.rows, told.values, strict=True):
            if not all(job in place for job in row):
                continue
            line = np.zeros(columns + 1)  # the last for types that are not there
            np.add.at(line, places, values)
            if len(row) == 1:
                owed[place[row[0]]] = line[:-1]
            else:
                by_pair[tuple(sorted(place[job] for job in row))] = line[:-1]
        return owed, by_pair

    def _running_on(
        self, about: AboutRun, jobs: pd.DataFrame, held: Mapping[tuple[int, ...], Held]
    ) -> Floats:
        """Return the type on which each job is all the time: as told, else where it runs."""
        found = np.full(len(jobs), -1.0)
        if "running_on" in jobs.columns:
            names = list(about.present.accelerators)
            told = jobs["running_on"].tolist()
            return np.array([names.index(name) if name in names else -1 for name in told], float)
        for members, (kind, _) in held.items():
            found[list(members)] = kind
        return found


def _column(jobs: pd.DataFrame, name: str, default: Floats) -> Floats:
    return jobs[name].to_numpy(dtype=float) if name in jobs.columns else default
