"""How much of an iteration is exposed communication, given where the GPUs of a gang are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.network.analytic import TABLE1_PERCENT as TABLE1_PERCENT
    from apportion.sim.network.analytic import AnalyticNetwork as AnalyticNetwork
    from apportion.sim.network.analytic import StaticNetwork as StaticNetwork
    from apportion.sim.network.analytic import Table1Network as Table1Network
    from apportion.sim.network.cassini import CassiniNetwork as CassiniNetwork
    from apportion.sim.network.collectives import ALL_REDUCES as ALL_REDUCES
    from apportion.sim.network.collectives import COLLECTIVES as COLLECTIVES
    from apportion.sim.network.collectives import Cost as Cost
    from apportion.sim.network.collectives import all_reduce as all_reduce
    from apportion.sim.network.collectives import all_reduce_cost as all_reduce_cost
    from apportion.sim.network.collectives import halving_doubling as halving_doubling
    from apportion.sim.network.collectives import hierarchical as hierarchical
    from apportion.sim.network.collectives import phases as phases
    from apportion.sim.network.collectives import ring as ring
    from apportion.sim.network.contention import ContentionNetwork as ContentionNetwork
    from apportion.sim.network.contention import PhaseNetwork as PhaseNetwork
    from apportion.sim.network.interconnect import TOPOLOGIES as TOPOLOGIES
    from apportion.sim.network.interconnect import Dimension as Dimension
    from apportion.sim.network.interconnect import Interconnect as Interconnect
    from apportion.sim.network.interconnect import Span as Span
    from apportion.sim.network.model import MemoizedNetwork as MemoizedNetwork
    from apportion.sim.network.model import NetworkModel as NetworkModel
    from apportion.sim.network.model import NoNetwork as NoNetwork
    from apportion.sim.network.models.communicating import (
        COMMUNICATING_MODELS as COMMUNICATING_MODELS,
    )
    from apportion.sim.network.models.communicating import PARALLELISMS as PARALLELISMS
    from apportion.sim.network.models.communicating import CommunicatingModel as CommunicatingModel
    from apportion.sim.network.models.communicating import (
        communication_profile as communication_profile,
    )
    from apportion.sim.network.models.parallelism import PUBLISHED_SPEEDS as PUBLISHED_SPEEDS
    from apportion.sim.network.models.parallelism import PublishedSpeed as PublishedSpeed
    from apportion.sim.network.models.parallelism import data_parallel as data_parallel
    from apportion.sim.network.models.parallelism import hybrid_parallel as hybrid_parallel
    from apportion.sim.network.models.parallelism import pipeline_parallel as pipeline_parallel
    from apportion.sim.network.models.parallelism import tensor_parallel as tensor_parallel
    from apportion.sim.network.models.table_i import model_profiles as model_profiles
    from apportion.sim.network.profile import Exchange as Exchange
    from apportion.sim.network.profile import Layer as Layer
    from apportion.sim.network.profile import ModelProfile as ModelProfile
    from apportion.sim.network.profile import exposed_s as exposed_s
    from apportion.sim.network.registry import BY_SHAPE as BY_SHAPE
    from apportion.sim.network.registry import NETWORKS as NETWORKS
    from apportion.sim.network.registry import get_network as get_network
    from apportion.sim.network.registry import on_topology as on_topology
    from apportion.sim.network.shapes import Shape as Shape
    from apportion.sim.network.shapes import canonical_shape as canonical_shape
    from apportion.sim.network.shapes import shape_of_placement as shape_of_placement
    from apportion.sim.network.shapes import tier_of as tier_of
    from apportion.sim.network.topology import Topology as Topology
    from apportion.sim.network.topology import jobs_on_links as jobs_on_links
    from apportion.sim.network.topology.named import TOPOLOGY_PRESETS as TOPOLOGY_PRESETS
    from apportion.sim.network.topology.named import fat_tree as fat_tree
    from apportion.sim.network.topology.named import get_topology as get_topology
    from apportion.sim.network.topology.named import leaf_spine as leaf_spine
    from apportion.sim.network.topology.named import rails as rails
    from apportion.sim.network.topology.named import read_topology as read_topology
    from apportion.sim.network.topology.paths import ParallelUplinks as ParallelUplinks
    from apportion.sim.network.topology.paths import chosen_paths as chosen_paths
    from apportion.sim.network.topology.tree import SwitchLevel as SwitchLevel
    from apportion.sim.network.topology.tree import TreeTopology as TreeTopology


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
