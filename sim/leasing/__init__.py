"""The simulator of lease-based schedulers on racks."""

from __future__ import annotations

from apportion.sim.leasing.simulate import simulate_leases

__all__ = ["simulate_leases"]
