"""Fluid speeds of gangs that share links, under any mechanism; see `ContentionNetwork`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from apportion.sim.engine.speeds import Speeds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.devices import Held
    from apportion.mechanism.machines import Layout
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.network.contention import ContentionNetwork
    from apportion.types import Bools, Floats, Ints


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

    def parts(self, gangs: Gangs, there: Bools | None = None) -> StepParts:
        """Return what the steps of every line consist of; the arguments are those of `rates`."""
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

    def parts(self, gangs: Gangs, there: Bools | None = None) -> StepParts:
        """Return what the steps of every line consist of; progress is steps."""
        free = self._free.rates(gangs, there)
        with np.errstate(divide="ignore"):
            compute_s = 1 / free
        startup_s = np.full(free.size, self._startup_s)
        return StepParts(free, np.ones(free.size), compute_s, startup_s, self._size[gangs.job])


class ContendedSpeeds(Speeds):
    """Progress/s of gangs that share links, see `apportion.sim.engine.speeds.Speeds`.

    A step of a gang in several machines takes ``compute + a + c(k) M`` seconds, where M are the
    bytes that it all-reduces, and ``c(k) = k b + (k - 1) eta``.

    Parameters
    ----------
    steps
        What gangs do in a step.
    network
        b, eta, and what k is.
    layout
        In which machines devices are.
    """

    def __init__(self, steps: Steps, network: ContentionNetwork, layout: Layout) -> None:
        self._steps, self._network, self._layout = steps, network, layout
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._seen: dict[int, tuple[Held, list[int]]] = {}

    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        """Return the progress/s of every line, shape (lines,)."""
        every = np.ones(gangs.job.size, dtype=bool)
        parts = self._steps.parts(gangs, there)
        return self._shared(gangs, parts, every if there is None else there)

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
        for place, (gang, has) in enumerate(zip(gangs.gang.tolist(), gangs.devices, strict=True)):
            known = self._seen.get(gang)
            if known is None or (known[0] is not has and known[0] != has):
                known = self._seen[gang] = (has, self._servers(has))
            if len(known[1]) > 1:
                line += [place] * len(known[1])
                server += known[1]
        return np.array(line, dtype=np.intp), np.array(server, dtype=np.intp)

    def _servers(self, held: Held) -> list[int]:
        """Return numbers of the servers of a gang, for all types together."""
        parts = {(held[0], rack, machine) for rack, machine, _ in self._layout.placement(held)}
        return [self._numbers.setdefault(part, len(self._numbers)) for part in sorted(parts)]


def _busiest(line: Ints, server: Ints, sends: Floats, lines: int) -> Floats:
    """Return 1 and what the others of the busiest server of each line send, shape (lines,)."""
    load = np.bincount(server, weights=sends[line])
    others = np.zeros(lines)
    np.maximum.at(others, line, load[server] - sends[line])
    return 1 + others
