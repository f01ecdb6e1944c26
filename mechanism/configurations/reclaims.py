"""Which GPUs of a cluster serve requests, and which training gives back when requests need some."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from apportion.checks import choice
from apportion.ties import EXACT, first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.mechanism.machines import MachinePool


class ServingPlaces:
    """GPUs that serve requests, numbered from 0, as devices of types and as GPUs of the cluster.

    GPUs of the cluster are numbered type by type and machine by machine, nodes likewise.

    Parameters
    ----------
    pools
        Machines of each type.
    count
        How many GPUs serve: the last ones.

    Attributes
    ----------
    device
        Type and device of each.
    number
        Number in the cluster of each.
    node
        Node of each.
    place
        Which of them a device is, by type and device; those that only train are not there.
    """

    def __init__(self, pools: Sequence[MachinePool], count: int) -> None:
        every: list[tuple[tuple[int, int], int]] = []
        first = 0
        for kind, pool in enumerate(pools):
            machines = pool.machine_of
            every += [((kind, k), first + machine) for k, machine in enumerate(machines)]
            first += max(machines, default=-1) + 1
        start = len(every) - count
        self.device = [device for device, _ in every[start:]]
        self.node = [node for _, node in every[start:]]
        self.number = list(range(start, len(every)))
        self.place = {device: place for place, device in enumerate(self.device)}
        self.nodes = {device: node for device, node in every}
        self.numbers = {device: number for number, (device, _) in enumerate(every)}


class Shape(NamedTuple):
    """Type of a gang, and its GPUs by node; nodes are numbered in the cluster."""

    kind: int
    per_node: dict[int, int]


class Loan(NamedTuple):
    """A GPU that a job trains on and that may be called back."""

    gpu: int
    node: int
    job: int


class GangWorth(Protocol):
    """What is believed of gangs: how fast each would be."""

    def speedup(self, job: int, kind: int, gpus: int, nodes: int) -> float:
        """Return the speed of a job on a type over that with a fair share of the GPUs."""
        ...


class ReclaimRule(Protocol):
    """Chooses loans to be called back."""

    def choose(
        self, loans: Sequence[Loan], shapes: Mapping[int, Shape], worth: GangWorth
    ) -> list[Loan]:
        """Return those to be called back together, at least one.

        Parameters
        ----------
        loans
            Those that may be, by GPU; at least one.
        shapes
            Gangs of their jobs.
        worth
            What is believed of them.
        """
        ...


def change_of_speedup(worth: GangWorth, job: int, shape: Shape, node: int, gpus: int = 1) -> float:
    """Return the change of the sum of speed-ups when a job loses GPUs of a node.

    It is above 0 where a gang on fewer nodes is faster, though it has fewer GPUs.
    """
    kind, there = shape
    had, nodes = sum(there.values()), len(there) - (there[node] == gpus)
    after = worth.speedup(job, kind, had - gpus, nodes) if had > gpus else 0.0
    return after - worth.speedup(job, kind, had, len(there))


class LeastLoss:
    """The largest change of the sum of speed-ups (DeepBoot, ATS-Inference).

    Ties go to the lower job and node; of the GPUs of a node the last is called back.
    """

    def choose(
        self, loans: Sequence[Loan], shapes: Mapping[int, Shape], worth: GangWorth
    ) -> list[Loan]:
        """Return one loan."""
        last = {(loan.job, loan.node): loan for loan in loans}
        cells = sorted(last)
        known: dict[tuple[int, bool], float] = {}
        loss = np.empty(len(cells))
        for place, (job, node) in enumerate(cells):
            key = (job, shapes[job].per_node[node] == 1)  # all that nodes of a gang differ in
            if key not in known:
                known[key] = -change_of_speedup(worth, job, shapes[job], node)
            loss[place] = known[key]
        return [last[cells[first_of([loss], absolute=EXACT, relative=EXACT)]]]


class AtRandom:
    """Any loan.

    Parameters
    ----------
    seed
        Of the draws.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def choose(
        self, loans: Sequence[Loan], shapes: Mapping[int, Shape], worth: GangWorth
    ) -> list[Loan]:
        """Return one loan, drawn uniformly."""
        return [loans[int(self._rng.integers(len(loans)))]]


class WholeServer:
    """All loans of the node that has the fewest, the first of equal ones (Lyra, Aryl)."""

    def choose(
        self, loans: Sequence[Loan], shapes: Mapping[int, Shape], worth: GangWorth
    ) -> list[Loan]:
        """Return all loans of a node."""
        by_node: dict[int, list[Loan]] = {}
        for loan in loans:
            by_node.setdefault(loan.node, []).append(loan)
        return by_node[min(by_node, key=lambda node: (len(by_node[node]), node))]


RECLAIMS: Mapping[str, Callable[[int], ReclaimRule]] = MappingProxyType(
    {
        "least_loss": lambda seed: LeastLoss(),
        "random": AtRandom,
        "whole_server": lambda seed: WholeServer(),
    }
)
"""Ways to choose, by name; each is made with a seed."""


def reclaim_rule(name: str, seed: int = 0) -> ReclaimRule:
    """Return a way to choose the GPUs that training gives back.

    Raises
    ------
    InputError
        For a name that is none of `RECLAIMS`.
    """
    return RECLAIMS[choice("reclaim", name, RECLAIMS)](seed)
