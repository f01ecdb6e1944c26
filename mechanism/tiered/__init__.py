"""Rounds in which shares are of tiers of types: a machine, a rack, any GPUs."""
