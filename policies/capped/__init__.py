"""Policies under a limit of the site: the power that GPUs may draw."""
