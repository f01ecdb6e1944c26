"""Workloads, the simulator and its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.contention.workload import generate_contended_workload
    from apportion.sim.drawn.generate import generate_workload
    from apportion.sim.drawn.interference import generate_pair_throughputs
    from apportion.sim.drawn.rack_workloads import generate_rack_workload
    from apportion.sim.drawn.resampling import resample
    from apportion.sim.elastic.generate import generate_elastic_workload
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.floors.floor import floor
    from apportion.sim.inference.cheapest import CheapestGpus, cheapest_gpus
    from apportion.sim.inference.fewest import FewestGpus, fewest_gpus
    from apportion.sim.inference.read import read_requests
    from apportion.sim.inference.serve import ServingRun, serve
    from apportion.sim.inference.serve_replicas import serve_replicas
    from apportion.sim.inference.served_model import ServedModel
    from apportion.sim.inference.serving import Serving
    from apportion.sim.metrics import measuring
    from apportion.sim.phases.workload import generate_communicating_workload
    from apportion.sim.run import Run
    from apportion.sim.schedule_files import read_schedule
    from apportion.sim.simulation import simulate
    from apportion.sim.traces.elastic import read_elastic_workload
    from apportion.sim.traces.read import read_workload
    from apportion.sim.workload import Workload

__all__ = [
    "CheapestGpus",
    "ElasticWorkload",
    "FewestGpus",
    "Run",
    "ServedModel",
    "Serving",
    "ServingRun",
    "Workload",
    "cheapest_gpus",
    "fewest_gpus",
    "floor",
    "generate_communicating_workload",
    "generate_contended_workload",
    "generate_elastic_workload",
    "generate_pair_throughputs",
    "generate_rack_workload",
    "generate_workload",
    "measuring",
    "read_elastic_workload",
    "read_requests",
    "read_schedule",
    "read_workload",
    "resample",
    "serve",
    "serve_replicas",
    "simulate",
]

if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
