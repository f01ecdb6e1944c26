"""Readers of job traces, one module per format; `read_workload` finds the right one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.traces.oracle import read_oracle, read_pair_oracle, read_throughputs
    from apportion.sim.traces.pollux import read_pollux_profile, read_pollux_workload
    from apportion.sim.traces.read import TRACE_FORMATS, read_workload

__all__ = [
    "TRACE_FORMATS",
    "read_oracle",
    "read_pair_oracle",
    "read_pollux_profile",
    "read_pollux_workload",
    "read_throughputs",
    "read_workload",
]

if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
