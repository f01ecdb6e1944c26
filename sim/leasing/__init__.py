"""Leases in the simulator: the parts of a run, and what it tells besides."""
