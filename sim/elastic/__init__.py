"""Elastic training jobs in the simulator: what is true of them, what they know, who decides."""

from __future__ import annotations

from apportion.sim.elastic.choice import PolicyChoice
from apportion.sim.elastic.generate import generate_elastic_workload
from apportion.sim.elastic.speeds import ElasticSpeeds, TrueProgress, epoch_of
from apportion.sim.elastic.trainers import Trainers

__all__ = [
    "ElasticSpeeds",
    "PolicyChoice",
    "Trainers",
    "TrueProgress",
    "epoch_of",
    "generate_elastic_workload",
]
