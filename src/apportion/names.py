"""Names of policies and schedulers, so that either registry knows what the other would take.

The registries are `apportion.policies.registry` and `apportion.mechanism.deciders`, of which the
first does not import the other. Settings that name a placement or a network are checked here as
well, and job types are matched with the models that they train.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

POLICIES_OF: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "any jobs": (
            "max_min_fairness",
            "makespan",
            "finish_time_fairness",
            "hierarchical_fairness",
            "fair_over_time",
            "cohort",
            "power_capped",
            "fifo",
            "shortest_job_first",
            "least_mean_completion",
            "max_total_throughput",
            "min_cost",
            "min_cost_slos",
            "isolated",
            "proportional",
            "nash_welfare",
            "strategy_proof",
            "network_sensitive",
        ),
        "single GPUs, or pairs": ("allox", "gandiva_packing"),
        "(type, GPUs)": ("sia", "pollux", "deepboot", "optimus", "lyra"),
        "rotations": ("rotations",),
        "places that are free": ("dally_round",),
    }
)
"""Policies that come with the package, by the jobs or the options that they are for."""

POLICY_NAMES = tuple(name for names in POLICIES_OF.values() for name in names)
"""All of them."""

OTHER_POLICY_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "las": "max_min_fairness",  # Gavel's name of it: least attained service
        "max_min": "max_min_fairness",
        "ftf": "finish_time_fairness",
        "srtf": "shortest_job_first",  # by what remains, as ours does
        "sjf": "shortest_job_first",
        "hierarchical": "hierarchical_fairness",
        "min_total_cost": "min_cost",
        "nash": "nash_welfare",
        "fair_share": "fair_over_time",
    }
)
"""What papers and users call policies of the package, in lower case."""

OTHER_SCHEDULER_NAMES: Mapping[str, str] = MappingProxyType(
    {"srsf": "srsf_1", "adasrsf": "ada_srsf", "no_wait": "dally_no_wait"}
)
"""What they call its schedulers."""

_AS_POLICY: Mapping[str, str] = MappingProxyType({"themis": "finish_time_fairness"})
"""Policies that state what a scheduler of this name is after."""

_BY_VALUE = {
    "placement": "apportion.mechanism.placements.least_workload_first(2, strict_servers=True)",
    "network": "apportion.sim.network.CassiniNetwork(candidates=4)",
}
"""Values that stand in place of a name, with settings."""

_HOMES = {
    "placement": "apportion.mechanism.placements:PLACEMENTS",
    "network": "apportion.sim.network.registry:NETWORKS",
    "scheduler": "apportion.mechanism.deciders:DECIDERS",
}
"""Where the registry of a kind stands. It is imported when a name is checked, and not before: the
registries stand above those who write their names down.
"""


def is_policy_name(name: str) -> bool:
    """Tell whether a name is that of a policy, endings for its variants included."""
    return name.removesuffix("_space_sharing").removesuffix("_agnostic") in POLICY_NAMES


def standard(name: str, others: Mapping[str, str]) -> str:
    """Return the name that another one stands for, whatever its capitals and hyphens.

    Examples
    --------
    >>> standard("Max-Min", OTHER_POLICY_NAMES)
    'max_min_fairness'
    """
    plain = name.strip().lower().replace("-", "_").replace(" ", "_")
    return others.get(plain, plain)


def as_policy(scheduler: str) -> str:
    """Say which policy states what a scheduler is after, if one does."""
    if scheduler not in _AS_POLICY:
        return ""
    return f" The policy that states what it is after is {_AS_POLICY[scheduler]!r}."


def is_scheduler_name(name: str) -> bool:
    """Tell whether a name is that of a scheduler."""
    return name in resolve_name(_HOMES["scheduler"])


def comes_with_schedulers(name: str) -> bool:
    """Tell whether a name is that of a scheduler of the package or an installed one."""
    return is_scheduler_name(name) and name not in resolve_name(_HOMES["scheduler"]).own()


def check_known(kind: str, given: Any) -> None:
    """Refuse a name that nothing of a kind has, and what is none itself.

    Parameters
    ----------
    kind
        ``"placement"`` or ``"network"``.
    given
        As it was given.

    Raises
    ------
    InputError
        With the nearest name and all valid ones.
    """
    registry = resolve_name(_HOMES[kind])
    base = given.partition("(")[0] if isinstance(given, str) else given
    if base is not given and base != given and base in registry:
        raise InputError(
            f"Unknown {kind} {given!r}. Settings of a {kind} are given in Python, by a value in "
            f"place of its name, such as {_BY_VALUE[kind]}."
        )
    registry.of(given)


_OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {"bert": "BERT-large", "mobilenetv3small": "MobileNetV3"}
)
"""Models that are known under two names, by the second one without its punctuation."""


def model_of(job_type: str, known: Collection[str], *, kind: str = "ModelProfile") -> str:
    """Name of the model that a job type trains.

    A remark in parentheses, capitals and punctuation do not count: ``"ResNet-50 (batch size 64)"``,
    as Gavel writes it, is ``"ResNet50"``.

    Parameters
    ----------
    job_type
        As the workload spells it.
    known
        Names of the models to choose from.
    kind
        What one can add to them, as errors say it.

    Raises
    ------
    InputError
        If none of them is meant; it names them all and says how to add one.
    """
    by_letters = {_letters(name): name for name in known}
    letters = _letters(re.sub(r"\(.*\)", "", job_type))
    other = _letters(_OTHER_NAMES.get(letters, ""))
    model = by_letters.get(letters) or by_letters.get(other)
    if model is None:
        raise InputError(
            f"The job type {job_type!r} has no communication profile. Known: {', '.join(known)}. "
            f"Add one with profiles={{job_type: {kind}(...)}}."
        )
    return model


@lru_cache(maxsize=4096)
def _letters(name: str) -> str:
    """Letters and digits of a name, lower case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
