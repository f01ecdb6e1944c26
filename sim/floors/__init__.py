"""What no schedule can be better than: floors under completion times, with a certificate."""

from __future__ import annotations

from apportion.sim.floors.floor import Floor, floor

__all__ = ["Floor", "floor"]
