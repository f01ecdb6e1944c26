"""Workloads, the simulator and its results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.elastic.generate import (
        generate_elastic_workload as generate_elastic_workload,
    )
    from apportion.sim.elastic_workload import ElasticWorkload as ElasticWorkload
    from apportion.sim.floors.floor import floor as floor
    from apportion.sim.generators.generate import (
        generate_pair_throughputs as generate_pair_throughputs,
    )
    from apportion.sim.generators.generate import generate_workload as generate_workload
    from apportion.sim.generators.presets import (
        generate_communicating_workload as generate_communicating_workload,
    )
    from apportion.sim.generators.presets import (
        generate_contended_workload as generate_contended_workload,
    )
    from apportion.sim.generators.presets import (
        generate_rack_workload as generate_rack_workload,
    )
    from apportion.sim.generators.resampling import resample as resample
    from apportion.sim.inference.fewest import FewestGpus as FewestGpus
    from apportion.sim.inference.fewest import fewest_gpus as fewest_gpus
    from apportion.sim.inference.read import read_requests as read_requests
    from apportion.sim.inference.served import ServingRun as ServingRun
    from apportion.sim.inference.served import serve as serve
    from apportion.sim.inference.serving import Serving as Serving
    from apportion.sim.metrics import measuring as measuring
    from apportion.sim.run import Run as Run
    from apportion.sim.schedule_files import read_schedule as read_schedule
    from apportion.sim.simulation import simulate as simulate
    from apportion.sim.traces.elastic import read_elastic_workload as read_elastic_workload
    from apportion.sim.traces.read import read_workload as read_workload
    from apportion.sim.workload import Workload as Workload


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
