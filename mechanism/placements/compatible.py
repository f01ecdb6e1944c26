"""The placement whose links are shared by jobs that suit each other (CASSINI's Algorithm 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from apportion.mechanism.placements.built_in import Consolidated
from apportion.mechanism.placements.drawn import drawn_together
from apportion.mechanism.placements.strategy import Gang, Strategy
from apportion.mechanism.scheduler import MACHINE, tier_of
from apportion.mechanism.time_shifts.affinity import AffinityGraph
from apportion.ties import significant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from apportion.mechanism.devices import Devices
    from apportion.mechanism.placements.by_speed import Placing
    from apportion.mechanism.scheduler import Placement
    from apportion.mechanism.time_shifts.link_scores import LinkScores

    Trained = tuple[str, int]

FIGURES = ("gpus", "placements", "candidates", "with_loops", "none_left", "moved")
"""GPUs of gangs; how often one was placed, different candidates in all, those with loops, how often
none was without, and how often it came elsewhere than in the first. Gangs that are placed together
count the same candidates each."""

CANDIDATES = 10
"""The paper's N: the host's own placement, and so many less one drawn at random.

`apportion.sim.network.cassini.CassiniNetwork` may say another number.
"""


@runtime_checkable
class KnowsLinks(Protocol):
    """A pace that knows which links a gang uses, and what is sent over them."""

    scores: LinkScores

    def links_of(self, placement: Placement) -> Mapping[Any, float]:
        """Return the links that a gang uses, with their Gb/s; none within a machine."""
        ...


class Compatible(Strategy):
    """Of whole placements of the cluster, take that on whose links jobs suit each other best.

    The first candidate has every gang where it was, if that is free again at the end of a lease,
    else where `Consolidated` puts it. In the others all gangs that the scheduler has just given
    GPUs to come to other machines and racks drawn at random: as many GPUs of the same type at the
    same tier, so that what the scheduler has decided stays as it is. Every other candidate keeps
    how many GPUs each gang has together, too; the rest may split gangs in other ways. A candidate's
    score is the mean over the links with several jobs of their compatibility under the best shifts.
    Candidates with which one of these gangs would be part of a loop of the affinity graph are
    discarded, as shifts need not suit all links there; if all are, the first is taken. Links of
    loops that others form count as if these started at random. Without a network that knows of
    links, the first candidate is taken.

    Source: Rajasekaran et al., CASSINI, NSDI 2024, Algorithm 2.
    """

    name = "cassini"
    chooses_anew = True
    largest_first = True
    compares_whole = True

    def __init__(
        self, rng: np.random.Generator | None = None, placings: Sequence[Placing] = ()
    ) -> None:
        super().__init__(rng, placings)
        self._knows = [each.pace for each in placings if isinstance(each.pace, KnowsLinks)]
        self._host = Consolidated(self.rng, placings)
        self._models: dict[int, str] = {}
        self._counts: dict[int, list[int]] = {}

    def first(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Choose as the host does, before whole placements are compared."""
        return self._host.choose(gang, devices)

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Draw candidates for this gang alone and compare them."""
        first = self._host.choose(gang, devices)
        return None if first is None else self.choose_again(gang, first, devices)

    def choose_again(self, gang: Gang, stay: Sequence[int], devices: Devices) -> Sequence[int]:
        """Compare what the gang would have with other candidates."""
        (where,) = self.choose_together([gang._replace(before=stay)], devices)
        pool = devices.free_for(gang)
        return stay if where == pool.placement(stay) else pool.lowest(where)

    def choose_together(self, gangs: Sequence[Gang], devices: Devices) -> Sequence[Placement]:
        """Compare whole placements, of which the first has every gang where it would be."""
        self._models |= {gang.job: gang.model for gang in gangs}
        first = tuple(devices.free_for(gang).placement(gang.before or ()) for gang in gangs)
        wide = [where for where in first if tier_of(where) != MACHINE]
        if not (wide and self._knows):
            return first
        some = next(gang.kind for gang, where in zip(gangs, first, strict=True) if where in wide)
        count = getattr(self._knows[some], "candidates", CANDIDATES)
        drawn = [
            drawn_together(self.rng, gangs, first, devices, shaped=turn % 2 == 0)
            for turn in range(count - 1)
        ]
        candidates = list(dict.fromkeys([first, *(each for each in drawn if each is not None)]))
        best, looped, none_left = self._best(gangs, candidates, devices)
        for gang, before, now in zip(gangs, first, best, strict=True):
            if before in wide:
                counted = (1, len(candidates), looped, int(none_left), int(now != before))
                known = self._counts.get(gang.gpus, [0] * len(counted))
                self._counts[gang.gpus] = [sum(each) for each in zip(known, counted, strict=True)]
        return best

    def _best(
        self,
        gangs: Sequence[Gang],
        candidates: Sequence[tuple[Placement, ...]],
        devices: Devices,
    ) -> tuple[tuple[Placement, ...], int, bool]:
        """Return the candidate to take, how many had loops, and whether none was left."""
        others = self._others(gangs, devices)
        scored = [self._score(gangs, each, others) for each in candidates]
        kept = [place for place, (_, loops) in enumerate(scored) if not loops]
        best = max(kept, key=lambda place: (scored[place][0], -place), default=0)
        return candidates[best], sum(loops for _, loops in scored), not kept

    def remember(self, gang: int, model: str) -> None:
        """Take down what a gang trains now that holds devices."""
        self._models[gang] = model

    def figures(self) -> dict[str, list[int]]:
        """Return what was compared, a column each, with a row for each number of GPUs."""
        sizes = sorted(self._counts)
        columns = zip(*(self._counts[gpus] for gpus in sizes), strict=True)
        return dict(zip(FIGURES, [sizes, *map(list, columns)], strict=True)) if sizes else {}

    def _others(
        self, gangs: Sequence[Gang], devices: Devices
    ) -> dict[int, tuple[int, Placement, Trained]]:
        """Types of the other gangs, where these are, and what they train."""
        kinds, own = {gang.kind for gang in gangs}, {gang.job for gang in gangs}
        return {
            other: (kind, devices.placement(other), (self._models[other], len(has)))
            for other, (kind, has) in sorted(devices.held.items())
            if kind in kinds and other not in own and other in self._models
        }

    def _score(
        self,
        gangs: Sequence[Gang],
        wheres: Sequence[Placement],
        others: Mapping[int, tuple[int, Placement, Trained]],
    ) -> tuple[float, bool]:
        """Return the mean score of links with several jobs, and whether a gang is in a loop."""
        placed = dict(others)
        for gang, where in zip(gangs, wheres, strict=True):
            placed[gang.job] = gang.kind, where, (gang.model, gang.gpus)
        scores: list[float] = []
        looped = False
        for kind in sorted({gang.kind for gang in gangs}):
            knows, jobs_of = self._knows[kind], dict[Any, list[int]]()
            trained = {job: each for job, (own, _, each) in placed.items() if own == kind}
            capacities: dict[Any, float] = {}
            for job in trained:
                for link, gbps in knows.links_of(placed[job][1]).items():
                    jobs_of.setdefault(link, []).append(job)
                    capacities[link] = gbps
            scores += knows.scores.of_links(jobs_of, trained, capacities).values()
            loops = AffinityGraph(jobs_of).looped
            looped |= any(gang.job in loops for gang in gangs)
        return significant(sum(scores) / len(scores)) if scores else 1.0, looped


class CompatibleOneByOne(Compatible):
    """As `Compatible`, but each gang is compared for itself, when those before it are placed."""

    name = "cassini_by_gang"
    compares_whole = False
