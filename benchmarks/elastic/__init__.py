"""Elastic training: Pollux, Sia, DeepBoot and their kin."""
