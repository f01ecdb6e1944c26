"""Readers of job traces, one module per format; `read_workload` finds the right one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.traces.oracle import read_oracle as read_oracle
    from apportion.sim.traces.oracle import read_pair_oracle as read_pair_oracle
    from apportion.sim.traces.oracle import read_throughputs as read_throughputs
    from apportion.sim.traces.pollux import read_pollux_profile as read_pollux_profile
    from apportion.sim.traces.pollux import read_pollux_workload as read_pollux_workload
    from apportion.sim.traces.read import TRACE_FORMATS as TRACE_FORMATS
    from apportion.sim.traces.read import read_workload as read_workload


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
