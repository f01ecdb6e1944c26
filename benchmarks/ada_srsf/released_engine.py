"""What the released simulator of AdaDUAL does by mistake, put into the engine.

There, asking how much of a transfer is left moves it: the bytes of the last tick are counted when
a job that waits for the gate looks at it, and counted again when the tick is booked. So a transfer
goes on at its rate, times one and the number of jobs that AdaDUAL keeps waiting for it. The gates
of SRSF(n) ask for no bytes; their runs are what they should be. The mistake is emulated from that
description, in continuous time; none of the released code is here.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from apportion.mechanism.gates import AdaDual
from apportion.sim.links import LinkEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.mechanism.gates import Flow


class _Engine(LinkEngine):
    """Transfers go on faster while jobs that wait for the gate look at them."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._leaps = False

    def _ask_gate(self, now_s: float) -> None:
        self._ask_all = True  # whoever asks pushes
        super()._ask_gate(now_s)
        self._changed.add(None)

    def _share(self, now_s: float) -> None:
        looked_at = [self._looked_at(transfer) for transfer in self.waiting]
        rates = self.sharing.rates(self.under_way)
        self._changed = set()
        for each, own in zip(self.under_way, rates, strict=True):
            rate = own * (1 + looked_at.count(each))
            if each.since_s == float("inf"):
                each.promised = rate
            elif rate != each.rate:
                self._send_at(each, rate, now_s)

    def _looked_at(self, transfer: Flow) -> Flow | None:
        """Return the transfer of which AdaDUAL asks what is left: the first met, if one at most."""
        if not isinstance(self.gate, AdaDual):
            return None
        met = [self.on_link[link] for link in transfer.links]
        if max(len(on) for on in met) != 1:
            return None
        return next(on[0] for on in met if on)


@contextmanager
def released(*, switched_on: bool) -> Iterator[None]:
    """Run iterations with the mistake while this lasts, if it is switched on."""
    if not switched_on:
        yield
        return
    with patch("apportion.sim.links.parts.LinkEngine", _Engine):
        yield
