"""The state of a session as plain Python values and as JSON, and back.

`to_plain` gives a dict:

===============  ===========================================================================
``format``       ``"apportion.session/2"``
``policy``       ``name``, and ``options``, those that are not the default
``cluster``      ``gpus``, a list of type and number; ``gpus_per_machine``,
                 ``machines_per_rack`` and ``prices_per_gpu_hour``
``second_stage`` as given to `session`
``open``         whether it is open
``options``      label of each option that jobs have speeds under, None before the first jobs
``levels``       names of the levels of those labels
``jobs``         job ids, in the order in which they came
``throughputs``  steps/s of each of the jobs, a list by option
``facts``        what else is known of each of the jobs, by column
===============  ===========================================================================

Labels are written as in `apportion.allocation_files`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any

from apportion.allocation_files import (
    Kinds,
    check_kinds,
    finite,
    index_of,
    infinite,
    label_of,
    plain_value,
    read_object,
)
from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import JOB_COLUMNS
from apportion.policies.registry import get_policy
from apportion.table_checks import check_unique

if TYPE_CHECKING:
    from dataclasses import Field
    from pathlib import Path

    from apportion.policies.base import Policy

FORMAT = "apportion.session/2"
_FORMATS = ("apportion.session/1", FORMAT)
"""Those that are read; the first had a route as well, which made no difference to results."""
_AS_THEY_ARE = ("second_stage", "open")
_KINDS: Kinds = {
    "format": (str,),
    **dict.fromkeys(("policy", "cluster"), (Mapping,)),
    **dict.fromkeys(("second_stage", "open"), (bool,)),
    **dict.fromkeys(("options", "levels"), (list, NoneType)),
    **dict.fromkeys(("jobs", "throughputs", "facts"), (list,)),
}
_OF_POLICY: Kinds = {"name": (str,), "options": (Mapping,)}
_OF_CLUSTER: Kinds = {
    "gpus": (list,),
    "gpus_per_machine": (int, Mapping),
    "machines_per_rack": (int, NoneType),
    "prices_per_gpu_hour": (Mapping,),
}


def to_plain(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a session as dicts, lists, texts and numbers.

    Raises
    ------
    InputError
        If the policy is not known by a name, or something has no form in plain values.
    """
    told, said, cluster = state["told"], state["said"], state["cluster"]
    return {
        "format": FORMAT,
        "policy": _plain_policy(state["policy"]),
        "cluster": plain_cluster(cluster),
        **{name: state[name] for name in _AS_THEY_ARE},
        "options": None if told is None else [label_of(option) for option in told],
        "levels": None if told is None else [_name(name) for name in told.names],
        "jobs": [label_of(job) for job in said],
        "throughputs": [
            [speeds.get(option, 0.0) for option in told] for speeds, _ in said.values()
        ],
        "facts": [
            {name: finite(plain_value(value)) for name, value in facts.items()}
            for _, facts in said.values()
        ],
    }


def plain_cluster(cluster: Cluster) -> dict[str, Any]:
    """Return a cluster as lists, texts and numbers; `cluster_of` is the way back."""
    return {
        "gpus": [list(each) for each in cluster.gpus.items()],
        "gpus_per_machine": plain_value(cluster.gpus_per_machine),
        "machines_per_rack": cluster.machines_per_rack,
        "prices_per_gpu_hour": dict(cluster.prices_per_gpu_hour),
    }


def cluster_of(content: Mapping[str, Any]) -> Cluster:
    """Return the cluster of which `plain_cluster` told."""
    return Cluster(**{**content, "gpus": dict(content["gpus"])})


def _name(name: Any) -> str | None:
    return None if name is None else str(name)


def _plain_policy(policy: Policy) -> dict[str, Any]:
    """Return a policy by its name and the options that differ from those of the name."""
    known = get_policy(policy.name)
    if type(known) is not type(policy):
        raise InputError(
            f"{policy!r} is written down by its name, and {policy.name!r} is {known!r}; give it a "
            f"name of its own (apportion.policies.register), or pickle the session."
        )
    own: tuple[Field[Any], ...] = fields(policy) if is_dataclass(policy) else ()
    changed: dict[str, Any] = {
        each.name: getattr(policy, each.name)
        for each in own
        if getattr(policy, each.name) != getattr(known, each.name)
    }
    options = {name: plain_value(value) for name, value in changed.items()}
    if get_policy(policy.name, **_tuples(options)) != policy:
        raise InputError(f"{policy!r} has options that are no texts, numbers or lists of them.")
    return {"name": policy.name, "options": options}


def state_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a session from what `to_plain` gave.

    Raises
    ------
    InputError
        If it is not of that format, or parts of it are missing or do not fit together.
    """
    found = content.get("format") if isinstance(content, Mapping) else type(content).__name__
    if found not in _FORMATS:
        raise InputError(f"A session has the format {FORMAT!r}, not {written(found)}.")
    if found != FORMAT:
        content = {name: value for name, value in content.items() if name != "route"}
    check_kinds("session", content, _KINDS)
    policy, told = content["policy"], content.get("options")
    check_kinds("policy of the session", policy, _OF_POLICY)
    check_kinds("cluster of the session", content["cluster"], _OF_CLUSTER)
    try:
        cluster = cluster_of(content["cluster"])
        if told is not None:
            told = index_of(told, levels=True).set_names(content.get("levels"))
            check_unique("option of the session", told)
            for name in cluster.accelerators:
                if told.nlevels == 1 and name not in map(str, told):
                    kind = "accelerator of the cluster (not in the options of the session)"
                    raise unknown_name(kind, name, told)
        options = [] if told is None else told.tolist()
        if any(len(speeds) > len(options) for speeds in content["throughputs"]):
            raise InputError("The session has more throughputs of a job than options.")
        if content["jobs"] and not options:
            raise InputError("The session has jobs and no options.")
        said = {
            job: (dict(zip(options, map(float, speeds), strict=False)), _facts(facts))
            for job, speeds, facts in zip(
                index_of(content["jobs"]), content["throughputs"], content["facts"], strict=True
            )
        }
        if len(said) < len(content["jobs"]):
            raise InputError("A job stands twice in the session.")
        return {
            "policy": get_policy(policy["name"], **_tuples(policy["options"])),
            "cluster": cluster,
            **{name: content[name] for name in _AS_THEY_ARE},
            "told": told,
            "said": said,
        }
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"The parts of the session do not fit together: {error}") from error


def from_json(text: str | Path) -> dict[str, Any]:
    """Read what `Session.to_json` wrote, as the dict that `to_plain` gave."""
    return read_object(text, "session")


def _facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known of a job as a session keeps it."""
    json.dumps(facts, ensure_ascii=False).encode()  # half of a pair of surrogates is no text
    return {name: _fact(name, value) for name, value in sorted(facts.items())}


def _fact(name: str, value: Any) -> Any:
    number = name in JOB_COLUMNS and JOB_COLUMNS[name].kind == "number"
    return _tuples(infinite(value) if number else value)


def _tuples(value: Any) -> Any:
    """Return lists as tuples, which have a hash; in the values of a mapping as well."""
    if isinstance(value, Mapping):
        return {name: _tuples(each) for name, each in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
