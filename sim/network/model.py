"""What every network model answers: how much of an iteration is exposed communication."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from apportion.checks import number
from apportion.errors import InputError
from apportion.own_code import answered_by
from apportion.sim.network.shapes import Shape, canonical_shape, gpus_of

if TYPE_CHECKING:
    from apportion.cluster import Cluster
    from apportion.mechanism.about import About
    from apportion.sim.engine.speeds import Speeds
    from apportion.sim.network.cassini import GangLinks


@runtime_checkable
class NetworkModel(Protocol):
    """How much slower a placement makes a gang."""

    @property
    def name(self) -> str:
        """Name of the model, as results show it."""
        ...

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Exposed communication over compute time of one iteration.

        A gang with overhead o makes 1 / (1 + o) of the steps per second that it would make if
        communication were free.

        Parameters
        ----------
        job_type
            The model that is trained.
        shape
            Where its GPUs are.

        Returns
        -------
        float
            >= 0, without unit; 0 for a single GPU.

        Raises
        ------
        InputError
            If the model of the job type is unknown, or the shape is none.
        """
        ...


@dataclass(frozen=True)
class NoNetwork:
    """Communication is free: every placement is as fast as one machine."""

    name: str = "none"

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Return 0 for every job type and shape."""
        return 0.0

    def speeds(self, alone: Speeds, about: About) -> Speeds:
        """Return how fast gangs are that have the network for themselves."""
        return alone


@dataclass(frozen=True)
class MemoizedNetwork:
    """A network model on a given cluster that computes each overhead once.

    Parameters
    ----------
    model
        What to ask the first time.
    cluster
        Shapes that it cannot hold are refused.
    """

    model: NetworkModel
    cluster: Cluster
    _known: dict[tuple[str, Shape], float] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def name(self) -> str:
        """Name of the model inside."""
        return self.model.name

    @property
    def gang_links(self) -> GangLinks | None:
        """What tells which links gangs use, if the model knows (`CassiniNetwork.gang_links`)."""
        make = getattr(self.model, "gang_links", None)
        return None if make is None else make(self.cluster)

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Exposed communication over compute time, as `NetworkModel.overhead`.

        Raises
        ------
        InputError
            As the model inside, if the cluster cannot hold the shape, and if what the model says is
            no finite number >= 0.
        """
        key = (job_type, shape)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._ask(job_type, canonical_shape(shape))
        return known

    def _ask(self, job_type: str, shape: Shape) -> float:
        """Check the shape and ask the model; a single GPU has nobody to talk to."""
        self._check(shape)
        if gpus_of(shape) == 1:
            return 0.0
        answer, what = self.model.overhead(job_type, shape), f"overhead of job type {job_type!r}"
        try:
            return number(what, answer, words="a finite number")
        except InputError as error:
            where = f"says the network {self.name!r} of the shape {shape}"
            whose = answered_by(self.model, "overhead")
            raise InputError(f"The {str(error).rstrip('.')}; so {where}.{whose}") from error

    def _check(self, shape: Shape) -> None:
        """Refuse a shape with more GPUs in a machine, or machines or racks, than there are."""
        gpus, machines = self.cluster.largest_machine, self.cluster.machines_per_rack
        if machines is None and len(shape) > 1:
            raise InputError(f"The shape {shape} does not fit a single rack (machines_per_rack).")
        if max(map(max, shape)) > gpus:
            raise InputError(f"The shape {shape} does not fit machines of {gpus} GPUs.")
        if machines is not None and max(map(len, shape)) > machines:
            raise InputError(f"The shape {shape} does not fit racks of {machines} machines.")
