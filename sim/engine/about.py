"""What a run is about: what schedulers and networks are made from, put together once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.cluster import Cluster
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.machines import Layout
    from apportion.mechanism.placement import Placer

__all__ = ["About"]


@dataclass(frozen=True, eq=False)
class About:
    """Jobs and devices of a run, in its own order; given to whoever decides and to networks.

    Attributes
    ----------
    jobs
        What is told of the jobs; kept up to date as the run goes on.
    ids
        What users call them, length (jobs,).
    job_types
        What each trains, length (jobs,); of elastic jobs what it trains at the moment.
    cluster
        Where they run, types without GPUs left out, the others sorted by name.
    devices
        Devices, and the placement by which gangs get them.
    seed
        Of everything at random.
    steps
        Makes what gangs do in a step, as a network asks for it that knows their bytes
        (`apportion.sim.contention.speeds.Steps`), of speeds and the network; ``None`` for rigid
        jobs, whose bytes follow from what they train.
    """

    jobs: JobTable
    ids: Sequence[Any]
    job_types: Sequence[str]
    cluster: Cluster
    devices: Placer
    seed: int = 0
    steps: Callable[..., Any] | None = None

    @property
    def layout(self) -> Layout:
        """In which machines and racks devices are, whoever holds them."""
        return self.devices.devices.layout
