"""Logs of production clusters, replayed."""
