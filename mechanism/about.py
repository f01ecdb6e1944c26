"""What a run is about: what schedulers and networks are made from, put together once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.cluster import Cluster
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.machines import Layout
    from apportion.mechanism.placement import Placer
    from apportion.types import Floats


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
        (`apportion.sim.contention.speeds.Steps`), of speeds and the network; ``None`` for rigid
        jobs, whose bytes follow from what they train.
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
