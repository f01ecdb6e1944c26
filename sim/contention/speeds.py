"""Fluid speeds of gangs that share links, under any mechanism; see `ContentionNetwork`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from apportion.sim.network.cassini import CassiniNetwork
from apportion.sim.network.contention import ContentionNetwork
from apportion.sim.network.phase_network import PhaseNetwork
from apportion.sim.network.speeds import NetworkSpeeds
from apportion.sim.phases.phase_speeds import PhaseSpeeds
from apportion.sim.phases.speeds import CompatibleSpeeds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.places import Placement
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.engine.speeds import Speeds
    from apportion.sim.network import MemoizedNetwork

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["ContendedSpeeds", "RigidSteps", "StepParts", "Steps", "speeds_on_network"]

_ROUNDS = 500
"""Most rounds in which expected numbers of transfers are found; each halves the error at least."""


class StepParts(NamedTuple):
    """What the steps of gangs consist of, shape (lines,) each.

    Attributes
    ----------
    rate
        Progress per second within one machine.
    worth
        Progress of a step.
    compute_s
        Seconds of a step without its transfer.
    startup_s, size
        Seconds before the first byte of the transfer over several machines, and its bytes.
    """

    rate: Floats
    worth: Floats
    compute_s: Floats
    startup_s: Floats
    size: Floats


class Steps(Protocol):
    """What gangs do in a step where they are."""

    def parts(self, gangs: Gangs, *, anew: bool) -> StepParts:
        """Return what the steps of every line consist of; `anew` if a decision has been made."""
        ...


class RigidSteps:
    """Steps by a table of speeds without communication, each with an all-reduce of its model.

    Parameters
    ----------
    free
        Speeds without communication.
    job_types
        What each job trains, length (jobs,).
    network
        Bytes and a.
    """

    def __init__(self, free: Speeds, job_types: Sequence[str], network: ContentionNetwork) -> None:
        self._free, self._startup_s = free, network.law.startup_s
        size = {each: network.size(each) for each in set(job_types)}
        self._size = np.array([size[each] for each in job_types])

    def parts(self, gangs: Gangs, *, anew: bool) -> StepParts:
        """Return what the steps of every line consist of; progress is steps."""
        free = self._free.rates(gangs)
        with np.errstate(divide="ignore"):
            compute_s = 1 / free
        startup_s = np.full(free.size, self._startup_s)
        return StepParts(free, np.ones(free.size), compute_s, startup_s, self._size[gangs.job])


class ContendedSpeeds:
    """Progress/s of gangs that share links, see `apportion.sim.engine.speeds.NeighbourSpeeds`.

    A step of a gang in several machines takes ``compute + a + c(k) M`` seconds, where M are the
    bytes that it all-reduces, and ``c(k) = k b + (k - 1) eta``.

    Parameters
    ----------
    steps
        What gangs do in a step.
    network
        b, eta, and what k is.
    held
        What each gang has that has devices, something else when it has moved.
    where
        Returns the placement of a gang.
    """

    def __init__(
        self,
        steps: Steps,
        network: ContentionNetwork,
        held: Mapping[int, object],
        where: Callable[[int], Placement],
    ) -> None:
        self._steps, self._network = steps, network
        self._held, self._where = held, where
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._seen: dict[int, tuple[object, list[int]]] = {}

    def rates(self, gangs: Gangs) -> Floats:
        """Return the progress/s of every line, shape (lines,)."""
        parts = self._steps.parts(gangs, anew=True)
        return self._shared(gangs, parts, np.ones(gangs.job.size, dtype=bool))

    def rates_among(self, gangs: Gangs, there: Bools) -> Floats:
        """Return the progress/s of every line while some lines are there no more."""
        return self._shared(gangs, self._steps.parts(gangs, anew=False), there)

    def _shared(self, gangs: Gangs, parts: StepParts, there: Bools) -> Floats:
        rate, worth, compute_s, startup_s, size = parts
        line, server = self._links(gangs)
        if not line.size:
            return rate
        split, law = np.unique(line), self._network.law

        def transfer_s(k: Floats) -> Floats:
            cost = k * law.s_per_byte + (k - 1) * law.penalty_s_per_byte
            return np.asarray(startup_s + cost * size)

        sends = there.astype(float)
        k = _busiest(line, server, sends, gangs.job.size)
        if self._network.expected:
            for _ in range(_ROUNDS):
                before, each_s = k, transfer_s(k)
                sends = np.where(there, each_s / (compute_s + each_s), 0.0)
                k = (k + _busiest(line, server, sends, gangs.job.size)) / 2
                if np.abs(k - before).max() <= 1e-12 * k.max():
                    break
        rates = rate.copy()
        rates[split] = (worth / (compute_s + transfer_s(k)))[split]
        return rates

    def _links(self, gangs: Gangs) -> tuple[Ints, Ints]:
        """Return lines whose gangs are in several servers, and these, one pair for each."""
        line: list[int] = []
        server: list[int] = []
        for place, (gang, kind) in enumerate(
            zip(gangs.gang.tolist(), gangs.option.tolist(), strict=True)
        ):
            has = self._held[gang]
            known = self._seen.get(gang)
            if known is None or (known[0] is not has and known[0] != has):
                known = self._seen[gang] = (has, self._servers(gang, kind))
            if len(known[1]) > 1:
                line += [place] * len(known[1])
                server += known[1]
        return np.array(line, dtype=np.intp), np.array(server, dtype=np.intp)

    def _servers(self, gang: int, kind: int) -> list[int]:
        """Return numbers of the servers of a gang, for all types together."""
        parts = {(kind, rack, machine) for rack, machine, _ in self._where(gang)}
        return [self._numbers.setdefault(part, len(self._numbers)) for part in sorted(parts)]


def _busiest(line: Ints, server: Ints, sends: Floats, lines: int) -> Floats:
    """Return 1 and what the others of the busiest server of each line send, shape (lines,)."""
    load = np.bincount(server, weights=sends[line])
    others = np.zeros(lines)
    np.maximum.at(others, line, load[server] - sends[line])
    return 1 + others


def speeds_on_network(
    free: Speeds,
    job_types: Sequence[str],
    network: MemoizedNetwork,
    held: Mapping[int, object],
    where: Callable[[int], Placement],
) -> Speeds:
    """Return speeds that depend on the shapes of gangs, or, by the model, on their neighbours."""
    if isinstance(network.model, PhaseNetwork):
        return PhaseSpeeds(free, job_types, network.model, network, where)
    if isinstance(network.model, CassiniNetwork):
        return CompatibleSpeeds(free, job_types, network.model, network, where)
    if isinstance(network.model, ContentionNetwork):
        steps = RigidSteps(free, job_types, network.model)
        return ContendedSpeeds(steps, network.model, held, where)
    return NetworkSpeeds(free, job_types, network, held, where)
