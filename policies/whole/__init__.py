"""Whole decisions: each job has one of its options, or none."""
