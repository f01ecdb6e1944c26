"""Policies over tiers of types (machine, rack, network): shares of time, or plans at offers."""
