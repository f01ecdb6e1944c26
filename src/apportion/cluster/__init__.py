"""The cluster, and the GPUs that it may have."""

from apportion.cluster.accelerators import (
    ACCELERATORS,
    Accelerator,
    accelerators,
    is_slice,
    speed_ratios,
)
from apportion.cluster.cluster import TIERS, Cluster

__all__ = [
    "ACCELERATORS",
    "TIERS",
    "Accelerator",
    "Cluster",
    "accelerators",
    "is_slice",
    "speed_ratios",
]
