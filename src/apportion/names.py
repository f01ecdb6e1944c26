"""Names of policies and schedulers, so that either registry knows what the other would take.

The registries are `apportion.policies.registry` and `apportion.mechanism.offers.registry`, which
do not import each other. Settings that name a placement or a network are checked here as well.
"""

from __future__ import annotations

from pkgutil import resolve_name

__all__ = ["POLICY_NAMES", "SCHEDULER_NAMES", "check_known", "is_policy_name"]

POLICY_NAMES = (
    "max_min_fairness",
    "makespan",
    "finish_time_fairness",
    "hierarchical_fairness",
    "fifo",
    "shortest_job_first",
    "max_total_throughput",
    "min_cost",
    "min_cost_slos",
    "isolated",
    "proportional",
    "nash_welfare",
    "strategy_proof",
    "network_sensitive",
    "allox",
    "gandiva_packing",
    "sia",
    "pollux",
    "deepboot",
    "optimus",
    "lyra",
    "least_workload",
    "capped_workload",
    "rotations",
    "dally_round",
)
"""Policies that come with the package."""

SCHEDULER_NAMES = (
    "dally",
    "dally_manual",
    "dally_no_wait",
    "dally_fully_consolidated",
    "tiresias",
    "tiresias_continuous",
    "gandiva",
    "themis",
)
"""Schedulers that come with the package."""

_HOMES = {
    "placement": "apportion.mechanism.placements:PLACEMENTS",
    "network": "apportion.sim.network.registry:NETWORKS",
}
"""Where the registry of a kind stands. It is imported when a name is checked, and not before: the
registries stand above those who write their names down.
"""


def is_policy_name(name: str) -> bool:
    """Tell whether a name is that of a policy, endings for its variants included."""
    return name.removesuffix("_space_sharing").removesuffix("_agnostic") in POLICY_NAMES


def check_known(kind: str, name: str) -> None:
    """Refuse a name that nothing of a kind has.

    Parameters
    ----------
    kind
        ``"placement"`` or ``"network"``.
    name
        As it was given.

    Raises
    ------
    InputError
        With the nearest name and all valid ones.
    """
    resolve_name(_HOMES[kind])[name]
