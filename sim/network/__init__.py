"""How much of an iteration is exposed communication, given where the GPUs of a gang are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.network.analytic import (
        TABLE1_PERCENT,
        AnalyticNetwork,
        StaticNetwork,
        Table1Network,
    )
    from apportion.sim.network.calibration import (
        AlphaBeta,
        calibrate,
        calibrate_groups,
        compute_scale_for,
    )
    from apportion.sim.network.collectives import (
        ALL_REDUCES,
        COLLECTIVES,
        Cost,
        all_reduce,
        all_reduce_cost,
        halving_doubling,
        hierarchical,
        phases,
        ring,
    )
    from apportion.sim.network.contention import ContentionNetwork
    from apportion.sim.network.interconnect import TOPOLOGIES, Dimension, Interconnect, Span
    from apportion.sim.network.model import MemoizedNetwork, NetworkModel, NoNetwork
    from apportion.sim.network.models.astra_workload import read_astra_workload
    from apportion.sim.network.models.communicating import (
        COMMUNICATING_MODELS,
        PARALLELISMS,
        CommunicatingModel,
        communication_profile,
    )
    from apportion.sim.network.models.measured_communication import (
        merged,
        profile_of_layers,
        profile_of_samples,
    )
    from apportion.sim.network.models.parallelism import (
        data_parallel,
        hybrid_parallel,
        pipeline_parallel,
        tensor_parallel,
    )
    from apportion.sim.network.models.published_speeds import PUBLISHED_SPEEDS, PublishedSpeed
    from apportion.sim.network.models.table_i import model_profiles
    from apportion.sim.network.phase_network import PhaseNetwork
    from apportion.sim.network.profile import Exchange, Layer, ModelProfile, exposed_s
    from apportion.sim.network.registry import BY_SHAPE, NETWORKS, get_network, on_topology
    from apportion.sim.network.samples import profiles_from_samples
    from apportion.sim.network.shapes import Shape, canonical_shape, shape_of_placement, tier_of
    from apportion.sim.network.topology import Topology, jobs_on_links
    from apportion.sim.network.topology.dragonfly import DragonflyTopology
    from apportion.sim.network.topology.named import (
        TOPOLOGY_PRESETS,
        fat_tree,
        get_topology,
        leaf_spine,
        rails,
        read_topology,
    )
    from apportion.sim.network.topology.paths import ParallelUplinks, chosen_paths
    from apportion.sim.network.topology.torus import TorusTopology
    from apportion.sim.network.topology.tree import SwitchLevel, TreeTopology

__all__ = [
    "ALL_REDUCES",
    "BY_SHAPE",
    "COLLECTIVES",
    "COMMUNICATING_MODELS",
    "NETWORKS",
    "PARALLELISMS",
    "PUBLISHED_SPEEDS",
    "TABLE1_PERCENT",
    "TOPOLOGIES",
    "TOPOLOGY_PRESETS",
    "AlphaBeta",
    "AnalyticNetwork",
    "CommunicatingModel",
    "ContentionNetwork",
    "Cost",
    "Dimension",
    "DragonflyTopology",
    "Exchange",
    "Interconnect",
    "Layer",
    "MemoizedNetwork",
    "ModelProfile",
    "NetworkModel",
    "NoNetwork",
    "ParallelUplinks",
    "PhaseNetwork",
    "PublishedSpeed",
    "Shape",
    "Span",
    "StaticNetwork",
    "SwitchLevel",
    "Table1Network",
    "Topology",
    "TorusTopology",
    "TreeTopology",
    "all_reduce",
    "all_reduce_cost",
    "calibrate",
    "calibrate_groups",
    "canonical_shape",
    "chosen_paths",
    "communication_profile",
    "compute_scale_for",
    "data_parallel",
    "exposed_s",
    "fat_tree",
    "get_network",
    "get_topology",
    "halving_doubling",
    "hierarchical",
    "hybrid_parallel",
    "jobs_on_links",
    "leaf_spine",
    "merged",
    "model_profiles",
    "on_topology",
    "phases",
    "pipeline_parallel",
    "profile_of_layers",
    "profile_of_samples",
    "profiles_from_samples",
    "rails",
    "read_astra_workload",
    "read_topology",
    "ring",
    "shape_of_placement",
    "tensor_parallel",
    "tier_of",
]

if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
