"""The placement whose links are shared by jobs that suit each other (CASSINI's Algorithm 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from apportion.mechanism.placements.built_in import Consolidated
from apportion.mechanism.placements.strategy import Gang, Strategy
from apportion.mechanism.places import MACHINE, tier_of
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from apportion.mechanism.devices import Devices
    from apportion.mechanism.placements.by_speed import Placing
    from apportion.mechanism.places import Placement
    from apportion.mechanism.time_shifts.link_scores import LinkScores

    Trained = tuple[str, int]
    Ints = NDArray[np.int64]

__all__ = ["Compatible", "KnowsLinks"]

CANDIDATES = 10
"""The paper's N: the host's own placement, and so many less one drawn at random."""


@runtime_checkable
class KnowsLinks(Protocol):
    """A pace that knows which links a gang uses, and what is sent over them."""

    scores: LinkScores

    def links_of(self, placement: Placement) -> Mapping[Any, float]:
        """Return the links that a gang uses, with their Gb/s; none within a machine."""
        ...


class Compatible(Strategy):
    """Of placements at one tier, take that on whose links the jobs suit each other best.

    The first candidate is what `Consolidated` takes; the others have its shape in other machines
    and racks drawn at random: as many GPUs of the same type at the same tier, so that what the
    scheduler has decided stays as it is. A candidate's score is the mean over the links with
    several jobs of their compatibility: under the best shifts, or, as shifts need not suit all
    links where the affinity graph has a loop, under random starts there. The paper discards
    candidates with loops. Without a network that knows of links, the first candidate is taken.

    Source: Rajasekaran et al., CASSINI, NSDI 2024, Algorithm 2.
    """

    name = "cassini"
    largest_first = True

    def __init__(
        self, rng: np.random.Generator | None = None, placings: Sequence[Placing] = ()
    ) -> None:
        super().__init__(rng, placings)
        paces = [placing.pace for placing in placings]
        self._knows = [pace for pace in paces if isinstance(pace, KnowsLinks)]
        self._host = Consolidated(self.rng, placings)
        self._models: dict[int, str] = {}

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Draw candidates and compare them."""
        self._models[gang.job] = gang.model
        first = self._host.choose(gang, devices)
        if first is None or gang.gpus == 1 or not self._knows:
            return first
        pool = devices.free_for(gang)
        where = pool.placement(first)
        if tier_of(where) == MACHINE:
            return first
        others = self._others(gang, devices)
        best, chosen = self._score(gang, where, others), first
        for _ in range(CANDIDATES - 1):
            drawn = self._drawn(pool.free, where)
            if drawn is not None:
                score = self._score(gang, drawn, others)
                if score > best:
                    best, chosen = score, pool.lowest(drawn)
        return chosen

    def state(self) -> dict[str, Any]:
        """Return what the gangs train, for JSON."""
        return {"models": sorted(self._models.items())}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        self._models = {gang: model for gang, model in state["models"]}

    def _drawn(self, free: Ints, where: Placement) -> Placement | None:
        """Draw a placement of the same shape; None if its racks or machines are not found."""
        parts: dict[int, list[int]] = {}
        for rack, _, gpus in where:
            parts.setdefault(rack, []).append(gpus)
        order = self.rng.permutation(len(free)).tolist()
        found: list[tuple[int, int, int]] = []
        for part in sorted(parts.values(), key=lambda part: (-sum(part), -len(part), part)):
            for rack in order:
                machines = self._in_rack(free[rack], sorted(part, reverse=True))
                if machines is not None:
                    found += [(rack, *each) for each in machines]
                    order.remove(rack)
                    break
            else:
                return None
        return tuple(sorted(found))

    def _in_rack(self, free: Ints, part: list[int]) -> list[tuple[int, int]] | None:
        """Draw machines of a rack for parts in descending order; None if it has none for some."""
        order = self.rng.permutation(free.size).tolist()
        found: list[tuple[int, int]] = []
        for gpus in part:
            machine = next((each for each in order if free[each] >= gpus), None)
            if machine is None:
                return None
            order.remove(machine)
            found.append((machine, gpus))
        return found

    def _others(self, gang: Gang, devices: Devices) -> dict[int, tuple[Placement, Trained]]:
        """Where the other gangs of the type are, and what they train."""
        return {
            other: (devices.placement(other), (self._models[other], len(has)))
            for other, (kind, has) in sorted(devices.held.items())
            if kind == gang.kind and other != gang.job and other in self._models
        }

    def _score(
        self, gang: Gang, where: Placement, others: Mapping[int, tuple[Placement, Trained]]
    ) -> float:
        """Return the mean score of the links with several jobs; 1 if there are none."""
        knows = self._knows[gang.kind]
        gangs = {**others, gang.job: (where, (gang.model, gang.gpus))}
        jobs_of: dict[Any, list[int]] = {}
        capacities: dict[Any, float] = {}
        for job, (place, _) in gangs.items():
            for link, gbps in knows.links_of(place).items():
                jobs_of.setdefault(link, []).append(job)
                capacities[link] = gbps
        trained = {job: each for job, (_, each) in gangs.items()}
        scores = list(knows.scores.of_links(jobs_of, trained, capacities).values())
        return significant(sum(scores) / len(scores)) if scores else 1.0
