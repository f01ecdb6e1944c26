"""Policies about the worst off job: level by level, and beyond the first level by water filling."""
