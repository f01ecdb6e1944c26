"""Which engine lets the iterations of a run go by; both have the same outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.errors import InputError, written
from apportion.mechanism.gates import AdaDual, AtMost, KWay, TimeShift, WhatIf
from apportion.sim.contention import arrays
from apportion.sim.contention.plain import PlainEngine
from apportion.sim.network.link_sharing import FairSharing, SharedCost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.gates import Gate
    from apportion.sim.contention.engine import Engine
    from apportion.sim.contention.record import Timeline
    from apportion.sim.contention.runtime import LinkMap
    from apportion.sim.network.link_sharing import LinkSharing

_LARGEST_TURN = 2**63 - 1
"""Compiled code has turns in 64 bits; Python's whole numbers have as many as they need."""

_LOADING_S, _COMPILING_S = 0.5, 13.0
"""CPU seconds to import numba and load what is compiled, and to compile it."""

_EVENT_S = {KWay: 6e-6, WhatIf: 9e-5}
"""CPU seconds of an event in the plain engine, by its gate."""

_OTHER_EVENT_S = 3.5e-6
"""The same for all other gates."""

_plain_s = 0.0
"""CPU seconds that runs of this process took in the plain engine because nothing was compiled."""


def why_not_fast(sharing: LinkSharing, gate: Gate) -> str:
    """Say what the compiled engine lacks for a way to share links and a gate; nothing if it can."""
    if type(sharing) not in (SharedCost, FairSharing):
        return f"links shared by {written(sharing)} are not compiled"
    if gate_number(gate) is None:
        return f"the gate {gate.name!r} is not compiled"
    from apportion.sim.contention.jit import compiled  # numba takes longer to import than most runs

    return "" if compiled else "numba is not installed: pip install 'apportion[fast]'"


def gate_number(gate: Gate) -> tuple[int, float] | None:
    """Return the number of a gate and its parameter, if it is compiled."""
    if type(gate) is AtMost:
        by_pair = gate.counted_by == "pair"
        kind = arrays.AT_MOST_ON_A_PAIR if by_pair else arrays.AT_MOST
        return kind, float(gate.transfers)
    if type(gate) is AdaDual:
        return (arrays.DUAL_FIRST if gate.conflicts == "first" else arrays.DUAL), 0.0
    numbers = {KWay: arrays.K_WAY, WhatIf: arrays.WHAT_IF, TimeShift: arrays.SHIFTED}
    number = numbers.get(type(gate))
    return None if number is None else (number, 0.0)


def engine_for(
    name: str,
    links: LinkMap,
    sharing: LinkSharing,
    gate: Gate,
    timeline: Timeline | None,
    jobs: Sequence[object] = (),
    largest_turn: int = 0,
    events: float = 0.0,
) -> Engine:
    """Return the engine of a name: plain, fast, or the one that is expected to take less time.

    `jobs` is what users call them, by number; no number of a turn exceeds `largest_turn`, and some
    `events` are expected.

    Raises
    ------
    InputError
        If the fast one is asked for and cannot do it; it says why.
    """
    either = type(sharing) is SharedCost and _few_share(gate)
    pays = not either or _pays(events, gate)
    if name == "fast" or (name == "auto" and timeline is None and pays):
        why_not = why_not_fast(sharing, gate)
        if largest_turn > _LARGEST_TURN:
            why_not = f"{largest_turn:.2g} ns of work in one job are more than compiled code counts"
        if timeline is not None:
            why_not = "only the plain engine takes down a timeline"
        if not why_not and (name == "fast" or not either or _is_bought(events, gate)):
            from apportion.sim.contention.fast import FastEngine

            return FastEngine(links.gpus, links.links, sharing, gate, jobs)
        if name == "fast":
            raise InputError(f"engine='fast': {why_not}; leave it out, or use engine='plain'.")
    return PlainEngine(links.gpus, links.links, sharing, gate, timeline, jobs)


def _few_share(gate: Gate) -> bool:
    """Tell whether so few transfers share a link that both engines agree to the last bit.

    Where many do, they were seen to differ by 2e-14: bytes must not hang on what is compiled.
    """
    if type(gate) is AtMost:
        return gate.transfers == 1 and gate.counted_by != "pair"
    return type(gate) in (KWay, WhatIf) or (type(gate) is AdaDual and gate.conflicts != "first")


def _seconds(events: float, gate: Gate) -> float:
    return events * _EVENT_S.get(type(gate), _OTHER_EVENT_S)


def _pays(events: float, gate: Gate) -> bool:
    """Tell whether compiled code that is there would be quicker, loading included."""
    return _seconds(events, gate) > _LOADING_S


def _is_bought(events: float, gate: Gate) -> bool:
    """Tell whether code is compiled, or is now that as much was spent without: to rent or to buy.

    Whatever comes, that takes at most twice as long as the better choice.
    """
    global _plain_s
    from apportion.sim.contention import kernel
    from apportion.sim.contention.jit import is_kept

    if is_kept(kernel.advance):
        return True
    _plain_s += _seconds(events, gate)
    return _plain_s > _COMPILING_S
