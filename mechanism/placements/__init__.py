"""Placements: which free devices a gang gets."""
