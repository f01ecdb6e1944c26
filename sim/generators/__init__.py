"""Workloads that are drawn at random: arrivals, lengths, gangs, pairs; for types and for racks."""
