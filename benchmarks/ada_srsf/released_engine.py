"""What the released simulator of AdaDUAL does by mistake, put into the plain engine.

There, asking how much of a transfer is left moves it: the bytes of the last tick are counted when
a job that waits for the gate looks at it, and counted again when the tick is booked. So a transfer
goes on at its rate, times one and the number of jobs that AdaDUAL keeps waiting for it. The gates
of SRSF(n) ask for no bytes; their runs are what they should be. The mistake is emulated from that
description, in continuous time; none of the released code is here.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from apportion.mechanism.gates import AdaDual
from apportion.sim.contention.plain import PlainEngine
from apportion.sim.contention.plain_links import Transfers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apportion.mechanism.gates import Flow, Gate
    from apportion.sim.contention import LinkSharing
    from apportion.sim.contention.plain_state import Transfer


class _Pushed:
    """Rates of another way to share links, times one and the number of jobs that look."""

    def __init__(self, law: LinkSharing) -> None:
        self._law = law
        self.s_per_byte, self.penalty_s_per_byte = law.s_per_byte, law.penalty_s_per_byte
        self.lookers: Counter[int] = Counter()

    def rates(self, flows: Sequence[Flow]) -> list[float]:
        rates = zip(flows, self._law.rates(flows), strict=True)
        return [rate * (1 + self.lookers[flow.job]) for flow, rate in rates]


class _Transfers(Transfers):
    """Transfers that go on faster while jobs that wait for the gate look at them."""

    def settle(self, now_s: float) -> None:
        if self._ask or self._new:
            self._ask_gate(now_s)
            self._share_anew = True
        if self._share_anew:
            looked_at = (self._looked_at(transfer) for transfer in self.waiting)
            self.sharing.lookers = Counter(  # type: ignore[attr-defined]
                other.job.number for other in looked_at if other is not None
            )
            self._share(now_s)

    def _looked_at(self, transfer: Transfer) -> Transfer | None:
        """Return the transfer of which AdaDUAL asks what is left: the first met, if one at most."""
        if not isinstance(self.gate, AdaDual):
            return None
        met = [self.on_link[link] for link in transfer.job.links]
        if max(len(on) for on in met) != 1:
            return None
        return next(on[0] for on in met if on)


class _Engine(PlainEngine):
    def __init__(self, gpus: int, links: int, sharing: LinkSharing, gate: Gate) -> None:
        super().__init__(gpus, links, sharing, gate)
        self._transfers = _Transfers(links, _Pushed(sharing), gate, self._plan, None)
        self._transfers.asks_all = True  # whoever asks pushes


def _engine(gpus: int, links: int, sharing: LinkSharing, gate: Gate, *_: Any) -> _Engine:
    return _Engine(gpus, links, sharing, gate)


@contextmanager
def released(*, switched_on: bool) -> Iterator[None]:
    """Run iterations with the mistake while this lasts, if it is switched on."""
    if not switched_on:
        yield
        return
    with patch("apportion.sim.contention.parts.PlainEngine", _engine):
        yield
