"""What knows the links of a cluster: which of them a gang uses, and which jobs meet on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from apportion.checks import listed, mapping, whole
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["MOST_LINKS", "Topology", "check_gangs", "jobs_on_links", "members_of"]

MOST_LINKS = 1_000_000
"""Links that a topology may have; more would fill the memory with their names."""


@runtime_checkable
class Topology(Protocol):
    """What knows the links of a cluster, and which of them a gang uses."""

    @property
    def name(self) -> str:
        """As results show it."""
        ...

    @property
    def gpus(self) -> int:
        """GPUs of the cluster, numbered from 0."""
        ...

    @property
    def capacities(self) -> Mapping[str, float]:
        """Gb/s per direction of every link, by its name."""
        ...

    def links_of(self, gpus: Iterable[int]) -> tuple[str, ...]:
        """Links that the collectives of a gang use, given the numbers of its GPUs."""
        ...


def jobs_on_links(
    topology: Topology, gangs: Mapping[Any, Iterable[int]]
) -> dict[str, tuple[Any, ...]]:
    """Return which jobs are on which link, for links that have some.

    Parameters
    ----------
    topology
        Knows the links.
    gangs
        Numbers of the GPUs of each job, by job.

    Raises
    ------
    InputError
        For what is no topology, a number that is none of a GPU, and a GPU of two gangs.
    """
    if not callable(getattr(topology, "links_of", None)):
        raise InputError(f"topology is {written(topology)}; it must be a Topology.")
    found: dict[str, list[Any]] = {}
    for job, gpus in check_gangs(gangs).items():
        for link in topology.links_of(gpus):
            found.setdefault(link, []).append(job)
    return {link: tuple(jobs) for link, jobs in found.items()}


def check_gangs(gangs: Mapping[Any, Iterable[int]]) -> dict[Any, list[int]]:
    """Return the GPUs of gangs; refuse a GPU that two gangs have, or one gang twice.

    Raises
    ------
    InputError
        It names the GPU and the gangs.
    """
    known = {
        job: listed(f"The GPUs of the gang {written(job)}", gpus)
        for job, gpus in mapping("gangs", gangs, "a mapping from jobs to their GPUs").items()
    }
    owner: dict[Any, Any] = {}
    for job, gpus in known.items():
        for gpu in gpus:
            if gpu in owner:
                both = f"{written(owner[gpu])} and {written(job)}"
                whose = f"{written(job)} twice" if owner[gpu] == job else f"both {both}"
                raise InputError(f"GPU {written(gpu)} is given to {whose}; it is for one gang.")
            owner[gpu] = job
    return known


def members_of(gpus: object, count: int, name: str) -> list[int]:
    """Check the numbers of GPUs; ascending, each once."""
    several = listed("The GPUs of a gang", gpus)
    if not several:
        raise InputError("A gang has no GPU; it needs at least one.")
    return sorted({whole(f"A GPU of {name!r}", each, 0, count - 1) for each in several})
