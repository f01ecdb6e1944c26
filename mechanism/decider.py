"""What a run is about, and who decides in it and is no policy: a value that makes the scheduler."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, fields, is_dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from apportion.annotations import check_fields
from apportion.errors import InputError, written
from apportion.mechanism.own import Watched, is_own

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from apportion.cluster import Cluster
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.machines import Layout
    from apportion.mechanism.placement import Placer
    from apportion.types import Floats


class Part:
    """A dataclass whose repr leaves out fields that have their default value."""

    def __post_init__(self) -> None:
        """Refuse options that are not of their kind; called by dataclasses."""
        if is_dataclass(self):
            check_fields(self)

    def __repr__(self) -> str:
        own: tuple[Any, ...] = fields(self) if is_dataclass(self) else ()
        changed = [
            f"{part.name}={getattr(self, part.name)!r}"
            for part in own
            if part.repr and getattr(self, part.name) != _default(part)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def promises(part: Any, promise: str, *methods: str) -> bool:
    """Return whether a part makes a promise about methods of its own.

    Who says one of the methods anew has to make the promise anew: that of the class above is about
    what that class says.
    """
    for each in type(part).__mro__:
        if promise in vars(each):
            return bool(getattr(part, promise))
        if any(name in vars(each) for name in methods):
            return False
    return False


def _default(part: Any) -> object:
    """Value that a field has unless another is given."""
    # Of a class that was pickled by value, as a notebook's, what says "none" is not MISSING.
    return part.default_factory() if callable(part.default_factory) else part.default


class Decider:
    """Decides who has GPUs; a value, that ``make(about)`` makes the scheduler of each run of.

    `about` has jobs and devices, and what the mechanism tells of them
    (`apportion.mechanism.decider.About`). Whoever has no ``make`` is asked by mechanisms, when it
    suits these: rules of elastic jobs (``choose``), and policies, which have these attributes, too.
    Beside them it has a ``name``, and perhaps a ``source``, paper and section.
    """

    works_by: ClassVar[tuple[str, ...]] = ()
    """Mechanisms by which it works, the usual one first."""
    works_how: ClassVar[str] = "decides itself"
    """Why by these, as messages say it behind its name."""
    asks_for_speeds: ClassVar[bool] = False
    """Whether it is told speeds that may be estimates."""
    integral: ClassVar[bool] = True
    """Whether it gives whole GPUs."""
    all_rigid: ClassVar[bool] = False
    """Whether every elastic job has the GPUs and the batch that its user set."""
    passes_over: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """By mechanism, the settings that say nothing to it, as the mechanism calls them."""
    replays: ClassVar[bool] = False
    """Whether jobs start and end as their log says, whatever the mechanism."""
    terms: Any = None
    """Itself, if it brings order, placement, lease or gate; ``None``: those of the mechanism."""
    of_elastic: Decider | None = None
    """What stands in its place where jobs are elastic, if anything else does."""

    @property
    def label(self) -> str:
        """Name in tables and plots."""
        return str(getattr(self, "name", type(self).__name__))

    @property
    def description(self) -> str:
        """What it does, in a line."""
        return (type(self).__doc__ or self.label).strip().partition("\n")[0]

    def knows_durations(self, jobs: pd.DataFrame) -> bool:
        """Whether it goes by how long such jobs will run, which a log tells and users do not."""
        return False


@dataclass(frozen=True)
class AsRecorded(Decider):
    """Jobs start and end when their log says: what the cluster's own scheduler did.

    A row beside any others, with the same figures; it decides nothing, so that settings of a
    mechanism say nothing to it. The columns ``recorded_start_s`` and ``recorded_end_s`` say when,
    ``recorded_on`` on which type.
    """

    works_by: ClassVar[tuple[str, ...]] = ("rounds", "exact", "leases", "queue", "iterations")
    works_how: ClassVar[str] = "replays a log, with jobs whose gangs are known"
    replays: ClassVar[bool] = True

    name: str = "as_recorded"
    source: str = "the log of the workload"


@dataclass(frozen=True, eq=False)
class About:
    """Jobs and devices of a run, in its own order; given to whoever decides and to networks.

    Attributes
    ----------
    jobs
        What is told of the jobs; kept up to date as the run goes on.
    ids
        What users call them, by number.
    cluster
        Where they run, types without GPUs left out, the others sorted by name.
    devices
        Devices, and the placement by which gangs get them.
    network
        A network model (`apportion.sim.network.NetworkModel`), if gangs are slower by where they
        are; ``None`` if not.
    seed
        Of everything at random.
    models
        What each job trains at the moment, as networks ask for it, length (jobs,); ``None`` if that
        is its job type for good.
    steps
        Makes what gangs do in a step, as a network asks for it that knows their bytes
        (`apportion.sim.links.contended_speeds.Steps`), of speeds and the network; ``None`` for
        rigid jobs, whose bytes follow from what they train.
    lost_s
        Seconds that each job loses at a start, whoever decides, shape (jobs,); none by default.
    needs
        What jobs that share GPUs need beside, by iterations
        (`apportion.mechanism.run_to_completion.StayNeeds`); ``None`` elsewhere.
    """

    jobs: JobTable
    ids: Sequence[Any]
    cluster: Cluster
    devices: Placer
    network: Any = None
    seed: int = 0
    models: Sequence[str] | None = None
    steps: Callable[..., Any] | None = None
    lost_s: Floats = field(default_factory=lambda: np.zeros(0))
    needs: Any = None

    @property
    def job_types(self) -> Sequence[str]:
        """What each job trains, length (jobs,)."""
        return self.jobs.job_type if self.models is None else self.models

    @property
    def elastic(self) -> bool:
        """Whether jobs may have any number of GPUs."""
        return self.steps is not None

    @property
    def layout(self) -> Layout:
        """In which machines and racks devices are, whoever holds them."""
        return self.devices.devices.layout


@dataclass(frozen=True)
class OwnScheduler(Decider):
    """Anything that decides as a `apportion.mechanism.scheduler.Scheduler` does, as a value.

    Parameters
    ----------
    scheduler
        Has ``decide(event)``. If it has ``start(about)``, it is told of its jobs and devices
        (`apportion.mechanism.decider.About`) before the first decision of a run. A run works on a
        copy of it. What else it lacks of a `Scheduler` is as there. Or it has ``make(about)``,
        which returns for each run what decides.
    """

    scheduler: Any

    works_by: ClassVar[tuple[str, ...]] = ("queue", "leases", "iterations", "configurations")
    works_how: ClassVar[str] = "decides itself whenever anything happens, as by a queue"
    passes_over: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType(
        {
            "leases": (
                *("resolve_seconds", "resolve_every", "checkpoint_seconds_per_gpu", "timers"),
            ),
            "iterations": ("order",),
            "configurations": (
                *("interval_seconds", "restart", "rescale_seconds", "growth", "gang_sizes"),
                *("goodputs", "keep_paused", "reallocation_seconds", "serving", "placement"),
                "restart_stages",
            ),
        }
    )

    @property
    def label(self) -> str:
        """Name in tables and plots."""
        own = self.scheduler
        label = getattr(own, "label", None) or getattr(own, "name", None) or type(own).__name__
        return str(label)

    @property
    def name(self) -> str:
        """The same."""
        return self.label

    def __repr__(self) -> str:
        """Write what it holds, and no addresses, so that it reads the same everywhere."""
        own = self.scheduler
        if "__repr__" in {name for kind in type(own).__mro__[:-1] for name in vars(kind)}:
            return repr(own)
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(own).items())
        return f"{type(own).__qualname__}({fields})"

    def knows_durations(self, jobs: pd.DataFrame) -> bool:
        """Whether it says so of itself."""
        says = getattr(self.scheduler, "knows_durations", None)
        return bool(says(jobs)) if callable(says) else False

    def make(self, about: About) -> Watched:
        """Return what it makes for a run, or a copy of it, started for the run."""
        if hasattr(self.scheduler, "make"):
            made = self.scheduler.make(about)
            if not is_own(made):
                raise InputError(
                    f"Scheduler {self.label!r} makes {written(made)} for a run; make(about) must "
                    f"return what has decide(event)."
                )
            return Watched(made, self.label, about, about.lost_s)
        scheduler: Any = copy.deepcopy(self.scheduler)
        if hasattr(scheduler, "start"):
            scheduler.start(about)
        return Watched(scheduler, self.label, about, about.lost_s)
