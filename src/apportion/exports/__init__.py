"""Allocations in the words of schedulers that people run: Slurm, Kueue, KAI, Volcano, Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.exports.entity_gpus import gpus_by as gpus_by
    from apportion.exports.entity_gpus import whole_gpus as whole_gpus
    from apportion.exports.kubernetes import kai_queues as kai_queues
    from apportion.exports.kubernetes import kueue_objects as kueue_objects
    from apportion.exports.kubernetes import kueue_quotas as kueue_quotas
    from apportion.exports.kubernetes import kueue_weights as kueue_weights
    from apportion.exports.kubernetes import volcano_queues as volcano_queues
    from apportion.exports.slurm import placement_groups as placement_groups
    from apportion.exports.slurm import slurm_commands as slurm_commands
    from apportion.exports.slurm import slurm_reservations as slurm_reservations


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
