"""Whose turn it is on GPUs and links that are shared: orders of jobs by whole numbers.

The turn of a job is ``first * iterations left + second``, the least comes first. Both are whole
numbers, of nanoseconds where they are of time: what is equal is equal, whatever is summed up how.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["TURNS", "Demand"]


class Demand(NamedTuple):
    """What an order may ask of a job.

    Attributes
    ----------
    iteration_ns
        Nanoseconds of an iteration.
    gpus
        GPUs of its gang.
    iterations
        In all.
    arrival
        Its place among all jobs.
    """

    iteration_ns: int
    gpus: int
    iterations: int
    arrival: int


TURNS: Mapping[str, Callable[[Demand], tuple[int, int]]] = MappingProxyType(
    {
        "srsf": lambda job: (job.iteration_ns * job.gpus, 0),
        "srtf": lambda job: (job.iteration_ns, 0),
        "smallest": lambda job: (0, job.gpus),
        "fifo": lambda job: (0, job.arrival),
        "least_attained": lambda job: (
            -job.iteration_ns * job.gpus,
            job.iteration_ns * job.gpus * job.iterations,
        ),
    }
)
"""Orders by name: least remaining service (GPU time) first, least remaining time first, fewest GPUs
first, first come first served, least service received first. Of equal jobs, the first to come."""
