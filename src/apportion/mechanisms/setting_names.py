"""The settings of a simulation by name, as type checkers see them.

What each one is for is described where it belongs: in the fields of the mechanism that heeds it
(`apportion.mechanisms`) and in `apportion.sim.settings.settings_for`. A test holds the names to
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from apportion.mechanisms import Mechanism

StartCosts = float | str | Mapping[str, float]
"""Seconds of every job, by job type, or ``"measured"``."""

ByType = float | Mapping[str, float]
"""Seconds of every job, or by job type."""


class SimulationSettings(TypedDict, total=False):
    """Settings of the mechanism, and of what policies are told of speeds."""

    # Of several mechanisms.
    resolve_seconds: float | None
    resolve_every: float | None
    preemption_overhead_seconds: StartCosts | None
    placement: Any
    network: Any
    topology: Any
    # Rounds.
    round_seconds: float | None
    placement_sensitive: bool | None
    carry_over: bool | None
    leases: bool | None
    tiers: bool | None
    # Leases.
    lease_seconds: float | None
    checkpoint_seconds_per_gpu: ByType | None
    timers: Any
    # Iterations on shared links.
    order: Any
    gate: Any
    exclusive: bool | None
    gpu_memory_gb: float | None
    s_per_byte: float | None
    penalty_s_per_byte: float | None
    startup_s: float | None
    counted_over: str | None
    rack_links: bool | None
    sharing: Any
    turns_count_transfers: bool | None
    loads_count_transfers: bool | None
    loads_times_gpus: bool | None
    loads_s_per_byte: float | None
    all_reduce: str | None
    add_s_per_byte: float | None
    overlap: bool | None
    engine: str | None
    timeline: bool | None
    # Configurations of elastic jobs.
    interval_seconds: float | None
    gang_restart: str | None
    restart_seconds: ByType | None
    rescale_seconds: ByType | None
    growth: float | None
    gang_sizes: str | None
    goodputs: str | None
    keep_paused: bool | None
    reallocation_seconds: ByType | None
    checkpoint_interval_s: float | None
    join_mini_batches: float | None
    leader_seconds: float | None
    restart_stages: Any
    serving: Any
    # What policies are told of speeds.
    speeds: Literal["told", "estimated", "agnostic"] | None
    references: int | None
    optimism: float | Literal["worth"] | None
    rows: Literal["job", "family", "type"] | None


class ComparisonSettings(SimulationSettings, total=False):
    """Those that `apportion.compare` has not among its own parameters."""

    learn_pairs: bool | None
    record_prices: bool | None


class SweepSettings(ComparisonSettings, total=False):
    """Those of `apportion.simulate` that are the same for every run of a sweep."""

    mechanism: Mechanism | str | None
    pair_estimates: Literal["completed", "nearest"] | None
