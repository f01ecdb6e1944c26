"""The record of a comparison: every setting, where the workload came from, and all versions."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from apportion.checks import as_word
from apportion.cluster import Cluster
from apportion.experiments.fitted_jobs import FITTING
from apportion.mechanisms.setting_names import in_brackets
from apportion.sim.fingerprint import versions, workload_fingerprint

if TYPE_CHECKING:
    from apportion.sim import ElasticWorkload, Workload

INFINITE = "inf"
"""Stands for an infinite setting, e.g. of ``resolve_seconds``, which JSON has no number for."""

_WITHIN = {"speeds": ("references", "optimism", "rows")}
"""Settings of simulations that are no mechanism's, by the option in whose brackets they stand."""


def record(
    policies: Sequence[str],
    workload: Workload | ElasticWorkload,
    cluster: Cluster,
    settings: Mapping[str, object],
    origin: Mapping[str, object] | None,
    command: str | None,
    own: Sequence[str],
    by_policy: Mapping[str, Mapping[str, object]],
) -> dict[str, Any]:
    """Return all that it takes to repeat a comparison, as plain values for JSON.

    `own` names what was given as objects of the caller's own, of which only a name is kept. Where
    policies run by several mechanisms, ``settings_by_policy`` has all settings of each.
    """
    each = {label: _settings(one) for label, one in by_policy.items()}
    return {
        "command": command,
        "policies": list(policies),
        "own": list(own),
        "cluster": plain(asdict(cluster)),
        "settings": _settings(settings),
        **({"settings_by_policy": each} if each else {}),
        "workload": {
            "name": workload.name,
            "jobs": len(workload.jobs),
            "notes": list(workload.notes),
            "fingerprint": workload_fingerprint(workload),
            "origin": plain(origin),
        },
        "versions": versions(),
    }


def command_line(
    policies: Sequence[str],
    cluster: Cluster,
    settings: Mapping[str, object],
    origin: Mapping[str, object],
) -> str | None:
    """Return the command that repeats a comparison, every option spelt out.

    None where the command line cannot say it: prices of one's own, a setting that is infinite, or
    a workload made with another seed than the simulation.
    """
    where = cluster_options(cluster)
    if where is None or origin.get("seed", settings["seed"]) != settings["seed"]:
        return None
    if INFINITE in map(_setting, settings.values()):
        return None
    rest = {name: value for name, value in settings.items() if value is not None}
    seed, inner = rest.pop("seed"), {}
    rest.pop("learn_pairs", None)  # says nothing without a table of pairs
    for section, names in _WITHIN.items():
        name = str(rest.pop(section, ""))
        inner[section] = in_brackets(name, {each: rest.pop(each, None) for each in names})
    mechanism = in_brackets(str(rest.pop("mechanism", "")), rest)
    said: dict[str, object] = {
        **_workload(origin),
        **where,
        "policies": ",".join(policies),
        **{name: text for name, text in {"mechanism": mechanism, **inner}.items() if text},
        "seed": seed,
    }
    options = ((f"--{name.replace('_', '-')}", as_word(value)) for name, value in said.items())
    return shlex.join(["apportion", "compare", *(word for option in options for word in option)])


def _workload(origin: Mapping[str, object]) -> dict[str, object]:
    """Return how a workload was made, as options."""
    given = {name: value for name, value in origin.items() if value is not None}
    given.pop("seed", None)  # the simulation's
    plain = {name: given.pop(name) for name in FITTING if name in given}
    if "workload" in given:
        return {"workload": in_brackets(str(given.pop("workload")), given)} | plain
    jobs = {"jobs": given.pop("generate_jobs")} if "generate_jobs" in given else {}
    drawn = in_brackets("", jobs | given)[1:-1]
    return ({"generate": drawn} if drawn else {}) | plain


def cluster_options(cluster: Cluster) -> dict[str, object] | None:
    """Return the options that make a cluster, or None if there are none."""
    if cluster == Cluster(dict(cluster.gpus), cluster.gpus_per_machine):
        return {"cluster": str(cluster), "gpus_per_machine": _by_type(cluster.gpus_per_machine)}
    machines = cluster.machines_per_rack
    if machines is None:
        return None
    shape: dict[str, Any] = {
        "machines_per_rack": machines,
        "gpus_per_machine": cluster.gpus_per_machine,
    }
    racks = {
        name: gpus // (machines * cluster.machine_size(name)) for name, gpus in cluster.gpus.items()
    }
    if not all(racks.values()) or cluster != Cluster.of_racks(racks, **shape):
        return None
    shape["gpus_per_machine"] = _by_type(cluster.gpus_per_machine)
    if len(racks) > 1:
        return {"racks": _by_type(racks), **shape}
    ((accelerator, count),) = racks.items()
    return {"racks": count, **shape, "accelerator": accelerator}


def _by_type(value: Any) -> Any:
    """Write what is told by type as options have it."""
    if not isinstance(value, Mapping):
        return value
    return ",".join(f"{name}={each}" for name, each in value.items())


def _settings(settings: Mapping[str, object]) -> dict[str, Any]:
    """Write settings so that they can be read back."""
    return {name: _setting(value) for name, value in settings.items()}


def _setting(value: object) -> Any:
    """Write a setting so that it can be read back."""
    return INFINITE if isinstance(value, float) and value == math.inf else plain(value)


def plain(value: Any) -> Any:
    """Turn a value into what JSON has: mappings, lists, texts, finite numbers, None."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if hasattr(value, "item"):  # a scalar of numpy
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
