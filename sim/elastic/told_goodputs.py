"""What is told of elastic jobs: profiles as measured by type, or goodputs option by option."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from apportion.errors import InputError
from apportion.mechanism.configurations import GangOptions
from apportion.mechanism.devices import Devices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from apportion.cluster import Cluster
    from apportion.estimators.goodput import MeasuredApplication
    from apportion.mechanism.scheduler import GangProgress
    from apportion.sim.workload import Workload
    from apportion.types import Bools, Floats


@dataclass(frozen=True, eq=False)
class ToldGoodputs:
    """Stands where an `ElasticWorkload` does; what jobs train is no matter but for their costs.

    Parameters
    ----------
    rigid
        The jobs as a run counts them, each with GPUs that it may have.
    goodputs
        Progress per second, rows jobs, columns (accelerator, GPUs).
    options
        (accelerator, GPUs) of each of its columns.
    cluster
        With all devices, those included that nobody may have now.
    """

    rigid: Workload
    goodputs: pd.DataFrame
    options: Sequence[tuple[str, int]]
    cluster: Cluster

    name: ClassVar[str] = "one round"
    elastic: ClassVar[bool] = True
    relative_speed: ClassVar[Mapping[str, float]] = {}
    restart_s: ClassVar[Mapping[str, tuple[float, float]]] = {}

    @property
    def jobs(self) -> pd.DataFrame:
        """The jobs, with what they train as their application."""
        return self.rigid.jobs.assign(application=self.rigid.jobs["job_type"])

    @property
    def applications(self) -> Mapping[str, object]:
        """Names of what is trained, by which costs may be told."""
        return dict.fromkeys(self.rigid.jobs["job_type"])

    def in_steps(self, cluster: Cluster) -> Workload:
        """Return the jobs as a run counts them."""
        return self.rigid

    def trainers(
        self, order: Sequence[object], options: GangOptions, accelerators: Sequence[str]
    ) -> ToldTrainers:
        """Return what tells the goodputs of jobs in an order, at the options of a decision.

        Options of which nothing is told no job can have, and those that are told and cannot be
        had now are left out.
        """
        column = {option: place for place, option in enumerate(self.options)}
        pairs = zip(options.kind.tolist(), options.gpus.tolist(), strict=True)
        places = [column.get((accelerators[kind], gpus), -1) for kind, gpus in pairs]
        told = self.goodputs.loc[list(order)].to_numpy(dtype=float)
        padded = np.column_stack([told, np.zeros(len(told))])
        return ToldTrainers(padded[:, places])

    def check_options(self, sizes: str) -> None:
        """Refuse options that gangs of such sizes never have, on all of the cluster.

        Raises
        ------
        InputError
            It names the first, and says what lets gangs have any number of GPUs.
        """
        names = self.cluster.accelerators
        every = GangOptions.of(Devices.of(self.cluster).pools, sizes)
        pairs = zip(every.kind.tolist(), every.gpus.tolist(), strict=True)
        known = {(names[kind], gpus) for kind, gpus in pairs}
        for accelerator, gpus in self.options:
            if (accelerator, gpus) not in known and self.cluster.gpus[accelerator]:
                valid = sorted(each for kind, each in known if kind == accelerator)
                hint = "" if sizes == "every" else ", or say gang_sizes='every'"
                raise InputError(
                    f"No gang has {gpus} GPUs of type {accelerator!r}, an option of the "
                    f"throughputs; valid: {', '.join(map(str, valid[:20]))}. Leave it out{hint}."
                )


class ToldTrainers:
    """Tells goodputs as they were told; see `apportion.sim.elastic.trainers.Trainers`."""

    def __init__(self, goodput: Floats) -> None:
        self._goodput = goodput
        self.rigid = np.zeros(len(goodput), dtype=bool)

    def goodputs(self, jobs: Sequence[int]) -> Floats:
        """Return the progress per second, shape (jobs, options); 0 = cannot run."""
        return self._goodput[list(jobs)]

    def observe(self, ran: GangProgress) -> None:
        """Learn nothing."""


class Profiles:
    """The applications of jobs, each with what was measured of it on each type.

    A type on which an application was measured has its own profile; any other has that of the
    application itself, made faster or slower by the ratio of the types.

    Parameters
    ----------
    applications
        Of each job.
    accelerators
        Names of the types.
    speed_on
        How fast a type is relative to the one on which applications were measured, by its name.

    Attributes
    ----------
    relative
        How many times as fast as its profile each job is on each type, shape (jobs, types).
    """

    def __init__(
        self,
        applications: Sequence[MeasuredApplication],
        accelerators: Sequence[str],
        speed_on: Callable[[str], float],
    ) -> None:
        self.applications, types = list(applications), len(accelerators)
        distinct = dict.fromkeys(self.applications)
        self._on = {
            each: [each.on_types.get(name, each) for name in accelerators] for each in distinct
        }
        ratio = [speed_on(name) for name in accelerators]
        by_application = {
            each: [ratio[kind] if on is each else 1.0 for kind, on in enumerate(ons)]
            for each, ons in self._on.items()
        }
        rows = [by_application[each] for each in self.applications]
        self.relative: Floats = np.array(rows, dtype=float).reshape(-1, types)
        self._groups = {each: _grouped(ons) for each, ons in self._on.items()}

    def alike(self) -> Profiles:
        """Return the same as if all types were the one that applications were measured on."""
        plain = {each: replace(each, on_types={}) for each in dict.fromkeys(self.applications)}
        names = [""] * self.relative.shape[1]
        return Profiles([plain[each] for each in self.applications], names, lambda _: 1.0)

    def on(self, job: int, kind: int) -> MeasuredApplication:
        """Return the profile of a job on a type."""
        return self._on[self.applications[job]][kind]

    def groups(self, job: int) -> list[tuple[MeasuredApplication, Bools]]:
        """Return the different profiles of a job, and on which types each holds."""
        return self._groups[self.applications[job]]


def _grouped(ons: Sequence[MeasuredApplication]) -> list[tuple[MeasuredApplication, Bools]]:
    return [(each, np.array([on is each for on in ons])) for each in dict.fromkeys(ons)]
