"""Experiments of Ada-SRSF's evaluation: all-reduces that contend."""
