"""One round of Dally: Algorithm 1 over the waiting jobs, and the lexicographic optimum.

**Order.** Increasing priority P = n c / T_run, then the earlier last release, then the name.

**Eligibility**, w = time waited, timers T_mc and max(T_rk, T_mc):
    machine: g <= GPUs of a machine.
    rack:    g <= GPUs of a rack and (w >= T_mc or g > GPUs of a machine).
    network: w >= T_rk or g > GPUs of a rack.

**Algorithm 1** offers each job in turn what is free: the tightest eligible tier that has room, best
fit inside it; a job that is refused does not hold up the next.

**Lexicographically never worse.** A decision gives each job a rank: the place of its (type, tier)
in its own list of preferences, or one past the end if it waits. With one type the list is machine,
rack, network as far as eligible; with several it is by falling speed, then tighter tier, then type.
Decisions are compared by the ranks of the jobs in their order, first difference first, smaller
better. The optimum is over all decisions that *some* placement of all served jobs realises.
Algorithm 1 takes each job's best rank given where the earlier jobs were put; so its row is never
smaller than the optimum, and the first job that differs is one that best fit stood in the way of.
A job at the tier rack or network may use any GPUs of its rack or type, however few machines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from tests.sim.leasing.packing import MACHINE, NETWORK, RACK, Place, spot

if TYPE_CHECKING:
    from collections.abc import Sequence

Option = tuple[int, int]
"""(type, tier)."""
Free = tuple[tuple[tuple[int, ...], ...], ...]
"""Free GPUs by type, rack, machine."""


@dataclass(frozen=True)
class Cluster:
    """What is free in a round, and the sizes that decide which timers count."""

    free: Free
    per_machine: int
    per_rack: int


@dataclass(frozen=True)
class Waiting:
    """A waiting job; speed[type][tier] is read with several types only."""

    name: int
    gpus: int
    waited: float
    machine_timer: float
    rack_timer: float
    priority: float = 0.0
    released: float = 0.0
    speed: tuple[tuple[float, ...], ...] = field(default=((3.0, 2.0, 1.0),))


def in_order(jobs: Sequence[Waiting]) -> list[Waiting]:
    """Increasing priority; ties by the earlier last release, then by name."""
    return sorted(jobs, key=lambda j: (j.priority, j.released, j.name))


def eligible(job: Waiting, cluster: Cluster) -> list[int]:
    """Tiers that the timers allow, tightest first."""
    large, huge = job.gpus > cluster.per_machine, job.gpus > cluster.per_rack
    machine_timer = 0.0 if large else job.machine_timer
    rack_timer = 0.0 if huge else max(job.rack_timer, machine_timer)
    allowed = (not large, not huge and job.waited >= machine_timer, job.waited >= rack_timer)
    return [tier for tier in (MACHINE, RACK, NETWORK) if allowed[tier]]


def preferences(job: Waiting, cluster: Cluster) -> list[Option]:
    """Eligible (type, tier), best first."""
    options = [(t, tier) for t in range(len(cluster.free)) for tier in eligible(job, cluster)]
    if len(cluster.free) == 1:
        return options
    return sorted(options, key=lambda o: (-job.speed[o[0]][o[1]], o[1], o[0]))


def algorithm_1(cluster: Cluster, jobs: Sequence[Waiting]) -> dict[int, Option | None]:
    """Dally's decision: each job in order takes its best option that best fit can place now."""
    free: list[Place] = [
        {(r, m): n for r, rack in enumerate(racks) for m, n in enumerate(rack)}
        for racks in cluster.free
    ]
    found: dict[int, Option | None] = {}
    for job in in_order(jobs):
        found[job.name] = None
        for kind, tier in preferences(job, cluster):
            place = spot(free[kind], job.gpus, tier) if free[kind] else None
            if place is not None and place[0] <= tier:
                for at, n in place[1].items():
                    free[kind][at] -= n
                found[job.name] = (kind, tier)
                break
    return found


def placeable(free: Sequence[Sequence[int]], gangs: Sequence[tuple[int, int]]) -> bool:
    """Whether (GPUs, tier) of one type all find room at once, by trying machines and racks.

    Machine gangs first, each on any machine; then rack gangs, each in any rack's rest; the network
    gangs need the sum only. Equal machines of a rack (equal racks) are tried once. Still, the
    search grows exponentially with gangs that nearly fit.
    """
    machines = sorted((g for g, tier in gangs if tier == MACHINE), reverse=True)
    racks = sorted((g for g, tier in gangs if tier == RACK), reverse=True)
    rest = sum(g for g, tier in gangs if tier == NETWORK)

    @cache
    def on_racks(left: tuple[int, ...], at: int) -> bool:
        if at == len(racks):
            return sum(left) >= rest
        tries = {
            (*left[:r], n - racks[at], *left[r + 1 :]) for r, n in enumerate(left) if n >= racks[at]
        }
        return any(on_racks(row, at + 1) for row in sorted({tuple(sorted(t)) for t in tries}))

    @cache
    def on_machines(left: tuple[tuple[int, ...], ...], at: int) -> bool:
        if at == len(machines):
            return on_racks(tuple(sum(row) for row in left), 0)
        tries = {
            tuple(
                sorted(
                    (
                        *left[:r],
                        tuple(sorted((*row[:m], n - machines[at], *row[m + 1 :]))),
                        *left[r + 1 :],
                    )
                )
            )
            for r, row in enumerate(left)
            for m, n in enumerate(row)
            if n >= machines[at]
        }
        return any(on_machines(state, at + 1) for state in sorted(tries))

    if sum(g for g, _ in gangs) > sum(n for row in free for n in row):
        return False
    return on_machines(tuple(sorted(tuple(sorted(row)) for row in free)), 0)


def realisable(
    cluster: Cluster, jobs: Sequence[Waiting], decision: dict[int, Option | None]
) -> bool:
    """Whether a placement exists for all options taken together."""
    taken = [(j.gpus, o) for j in jobs if (o := decision[j.name]) is not None]
    return all(
        placeable(racks, [(g, tier) for g, (kind, tier) in taken if kind == t])
        for t, racks in enumerate(cluster.free)
    )


def lexicographic(cluster: Cluster, jobs: Sequence[Waiting]) -> dict[int, Option | None]:
    """The lexicographic optimum: job by job, the best rank that all earlier ones leave possible.

    Exact since leaving a job out never makes a realisable decision unrealisable.
    """
    found: dict[int, Option | None] = dict.fromkeys(j.name for j in jobs)
    for job in in_order(jobs):
        for option in preferences(job, cluster):
            if realisable(cluster, jobs, found | {job.name: option}):
                found[job.name] = option
                break
    return found


def ranks(
    cluster: Cluster, jobs: Sequence[Waiting], decision: dict[int, Option | None]
) -> tuple[int, ...]:
    """Rank of each job's option in its preferences, jobs in order; waiting is one past the end.

    ValueError for an option that its timers do not allow.
    """
    row = []
    for job in in_order(jobs):
        liked, option = preferences(job, cluster), decision[job.name]
        row.append(len(liked) if option is None else liked.index(option))
    return tuple(row)
