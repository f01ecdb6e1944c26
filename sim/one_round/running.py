"""Who runs on which devices, and which are free, as users tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.checks import listed, mapping, whole
from apportion.errors import InputError, unknown_name, written

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from apportion.cluster import Cluster

_VALID = "a mapping from jobs to (accelerator, devices), e.g. {'job': ('v100', [0, 1])}"


class RunningGang(NamedTuple):
    """A job that has devices."""

    job: Hashable
    accelerator: str
    devices: tuple[int, ...]


def read_running(
    running: Any,
    cluster: Cluster,
    jobs: Mapping[Hashable, Any],
    check: Callable[[Hashable, str, int], None],
    *,
    shared: bool = False,
) -> list[RunningGang]:
    """Read who runs where.

    Parameters
    ----------
    running
        Accelerator type and numbers of devices, by job; ``None`` for nobody.
    cluster
        What devices there are.
    jobs
        Whom there is, by id.
    check
        Refuses a number of GPUs of a type that a job cannot have.
    shared
        Whether jobs may have the same devices, by their memory.

    Raises
    ------
    InputError
        For unknown jobs and devices, gangs that cannot be, and devices of two gangs.
    """
    found: list[RunningGang] = []
    for job, where in mapping("running", {} if running is None else running, _VALID).items():
        if job not in jobs:
            raise unknown_name("job in running", job, jobs)
        if not isinstance(where, (tuple, list)) or len(where) != 2:
            raise InputError(
                f"running of job {written(job)} is {written(where)}; it must be (accelerator, "
                f"devices), e.g. ('v100', [0, 1])."
            )
        accelerator, devices = str(where[0]), _devices(cluster, job, *where)
        check(job, accelerator, len(devices))
        found.append(RunningGang(job, accelerator, devices))
    if not shared:
        _refuse_twice(found)
    return found


def read_free(free: Any, cluster: Cluster, running: list[RunningGang]) -> dict[str, set[int]]:
    """Return which devices of each type may be given: the free ones, and those of who runs.

    Parameters
    ----------
    free
        Numbers of devices by accelerator type; ``None`` for all that nobody has.
    cluster
        What devices there are.
    running
        Who has some.

    Raises
    ------
    InputError
        For unknown devices, and such as are free and taken at once.
    """
    every = {name: set(range(count)) for name, count in cluster.gpus.items()}
    if free is None:
        return every
    valid = "a mapping from accelerators to devices, e.g. {'v100': [0, 1]}"
    given = {
        str(accelerator): set(_devices(cluster, None, accelerator, devices))
        for accelerator, devices in mapping("free", free, valid).items()
    }
    found = {name: given.get(name, set()) for name in every}
    for gang in running:
        both = found[gang.accelerator].intersection(gang.devices)
        if both & given.get(gang.accelerator, set()):
            raise InputError(
                f"Device {min(both)} of {gang.accelerator!r} is among the free ones, and job "
                f"{written(gang.job)} runs there; a device is free, or somebody's."
            )
    for gang in running:
        found[gang.accelerator] = found[gang.accelerator].union(gang.devices)
    return found


def _devices(cluster: Cluster, job: Any, accelerator: Any, devices: Any) -> tuple[int, ...]:
    """Return numbers of devices, each checked to be there once."""
    of = "free" if job is None else f"running of job {written(job)}"
    if str(accelerator) not in cluster.gpus:
        raise unknown_name(f"accelerator in {of}", accelerator, cluster.gpus)
    last = cluster.gpus[str(accelerator)] - 1
    numbers = listed(f"The devices in {of}", devices, "a list of numbers of devices")
    if last < 0 and numbers:
        raise InputError(f"There are no devices {str(accelerator)!r}, which {of} names.")
    found = [whole(f"A device of {accelerator!r} in {of}", each, 0, last) for each in numbers]
    if len(set(found)) < len(found):
        twice = next(each for each in found if found.count(each) > 1)
        raise InputError(f"Device {twice} of {accelerator!r} stands twice in {of}.")
    return tuple(found)


def _refuse_twice(gangs: list[RunningGang]) -> None:
    """Refuse devices that two gangs have."""
    taken: dict[tuple[str, int], Hashable] = {}
    for gang in gangs:
        for device in gang.devices:
            other = taken.setdefault((gang.accelerator, device), gang.job)
            if other != gang.job:
                raise InputError(
                    f"Device {device} of {gang.accelerator!r} is held by jobs {written(other)} and "
                    f"{written(gang.job)}; here every gang has its devices to itself."
                )
