"""Experiments of Gavel's evaluation."""
