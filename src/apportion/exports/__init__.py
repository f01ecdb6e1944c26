"""Allocations in the words of schedulers that people run: Slurm, Kueue, KAI, Volcano, Ray."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.exports.entity_gpus import gpus_by, whole_gpus
from apportion.exports.kubernetes import (
    kai_queues,
    kueue_objects,
    kueue_quotas,
    kueue_weights,
    volcano_queues,
)
from apportion.exports.ray import placement_groups
from apportion.exports.slurm import slurm_commands, slurm_reservations

__all__ = [
    "gpus_by",
    "kai_queues",
    "kueue_objects",
    "kueue_quotas",
    "kueue_weights",
    "placement_groups",
    "slurm_commands",
    "slurm_reservations",
    "volcano_queues",
    "whole_gpus",
]

open_doors(globals())
