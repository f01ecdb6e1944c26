"""A network model as the lease mechanism asks it: how slow a model is on a placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.mechanism.offers.racks import machines_of
from apportion.mechanism.placements.by_speed import Placing
from apportion.sim.network.shapes import shape_of_placement

if TYPE_CHECKING:
    from apportion.cluster import Cluster
    from apportion.mechanism.offers import Placement
    from apportion.mechanism.placements.by_speed import Pace
    from apportion.sim.network.model import NetworkModel

__all__ = ["pace_of", "placing_of"]


def pace_of(network: NetworkModel) -> Pace:
    """Return what tells the time of a step on a placement over its compute time."""

    def slowdown(model: str, placement: Placement) -> float:
        return 1 + network.overhead(model, shape_of_placement(placement))

    return slowdown


def placing_of(cluster: Cluster, network: NetworkModel) -> Placing:
    """Return what chooses placements on a cluster of racks of one accelerator type."""
    return Placing(machines_of(cluster), pace_of(network))
