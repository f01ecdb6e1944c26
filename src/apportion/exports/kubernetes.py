"""Quotas of an allocation as objects of Kubernetes: Kueue, KAI and Volcano; and Kueue's back.

Objects are dictionaries. ``json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})`` is
what ``kubectl apply -f`` takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.errors import InputError, written
from apportion.exports.entity_gpus import check_gpus

if TYPE_CHECKING:
    from collections.abc import Iterable

_GPU = "nvidia.com/gpu"
_CALLED = "apportion/name"
"""Annotation of objects: how a group is called where names of Kubernetes cannot be."""
_SUFFIXES = {"m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6}
_LONGEST = 63
_NO_LIMIT = -1
"""Of KAI: as much as there is."""


def kueue_objects(
    gpus: pd.DataFrame,
    *,
    cohort: str = "apportion",
    namespace: str = "default",
    node_label: str = "accelerator",
    weights: Mapping[str, float] | None = None,
) -> list[dict[str, Any]]:
    """Return Kueue's objects (``kueue.x-k8s.io/v1beta1``) for whole GPUs by group and type.

    A ``ResourceFlavor`` for each type, a ``ClusterQueue`` for each group, whose nominal quota is
    what the group has, in one cohort, so that idle GPUs are borrowed, and a ``LocalQueue`` for it.

    Parameters
    ----------
    gpus
        Whole GPUs, as `apportion.exports.whole_gpus` gives them.
    cohort, namespace
        Name of the cohort, and namespace of the local queues.
    node_label
        Label of nodes that says their type.
    weights
        Weights of fair sharing by group; without them Kueue's own.
    """
    _check_whole(gpus)
    flavors = _names(gpus.columns)
    objects: list[dict[str, Any]] = [
        _object(
            "kueue.x-k8s.io/v1beta1",
            "ResourceFlavor",
            flavor,
            {"nodeLabels": {node_label: str(kind)}},
        )
        for kind, flavor in flavors.items()
    ]
    for group, queue in _names(gpus.index).items():
        quota = {kind: int(each) for kind, each in zip(gpus, gpus.loc[group], strict=True)}
        quotas = [
            {"name": flavors[kind], "resources": [{"name": _GPU, "nominalQuota": quota[kind]}]}
            for kind in flavors
        ]
        spec: dict[str, Any] = {
            "cohort": cohort,
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": [_GPU], "flavors": quotas}],
        }
        if weights is not None:
            spec["fairSharing"] = {"weight": f"{_weight(weights, group):g}"}
        quota_of = _object("kueue.x-k8s.io/v1beta1", "ClusterQueue", queue, spec)
        quota_of["metadata"]["annotations"] = {_CALLED: str(group)}
        objects.append(quota_of)
        local = _object("kueue.x-k8s.io/v1beta1", "LocalQueue", queue, {"clusterQueue": queue})
        local["metadata"]["namespace"] = namespace
        objects.append(local)
    return objects


def kueue_quotas(objects: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return nominal quotas of GPUs by group and type, from Kueue's objects.

    What `kueue_objects` made of a table is that table again. Of objects of others, groups are the
    cluster queues, and types the flavors, by their node label if they have one.

    Parameters
    ----------
    objects
        Objects of any kind, such as ``kubectl get clusterqueues,resourceflavors -o json`` has in
        ``items``; those of other kinds are passed over.

    Raises
    ------
    InputError
        If there is no ``ClusterQueue``, or a quota is no number of GPUs.
    """
    given = [each for each in objects if isinstance(each, Mapping)]
    kinds: dict[str, str] = {}
    for each in given:
        labels = each.get("spec", {}).get("nodeLabels") or {}
        if each.get("kind") == "ResourceFlavor" and len(labels) == 1:
            kinds[_name_of(each)] = str(next(iter(labels.values())))
    rows: dict[str, dict[str, float]] = {}
    for each in _cluster_queues(given):
        quotas = rows.setdefault(_called(each), {})
        for group in each.get("spec", {}).get("resourceGroups", []):
            for flavor in group.get("flavors", []):
                for resource in flavor.get("resources", []):
                    if resource.get("name") == _GPU:
                        quota = _quantity(_name_of(each), resource.get("nominalQuota"))
                        quotas[kinds.get(str(flavor["name"]), str(flavor["name"]))] = quota
    return pd.DataFrame.from_dict(rows, orient="index").fillna(0.0).rename_axis("queue")


def kueue_weights(objects: Iterable[Mapping[str, Any]]) -> pd.Series:
    """Return weights of fair sharing by group, from Kueue's objects; 1 where none is said.

    Raises
    ------
    InputError
        If there is no ``ClusterQueue``, or a weight is no number.
    """
    told = {
        _called(each): _quantity(
            _name_of(each), (each.get("spec", {}).get("fairSharing") or {}).get("weight", 1)
        )
        for each in _cluster_queues([each for each in objects if isinstance(each, Mapping)])
    }
    return pd.Series(told, name="weight", dtype=float).rename_axis("queue")


def _cluster_queues(objects: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found = [each for each in objects if each.get("kind") == "ClusterQueue"]
    if not found:
        raise InputError("There is no ClusterQueue among the objects.")
    return found


def _name_of(each: Mapping[str, Any]) -> str:
    return str(each.get("metadata", {}).get("name", ""))


def _called(each: Mapping[str, Any]) -> str:
    """Return how the group of a queue is called."""
    annotations = each.get("metadata", {}).get("annotations") or {}
    return str(annotations.get(_CALLED, _name_of(each)))


def kai_queues(
    gpus: pd.DataFrame,
    *,
    parent: str = "apportion",
    weights: Mapping[str, float] | None = None,
    limit: bool = False,
) -> list[dict[str, Any]]:
    """Return queues of the KAI scheduler (``scheduling.run.ai/v2``): a parent, and one for a group.

    The quota is what a group has of all types together, as KAI's queues know one kind of GPU; what
    others leave idle is divided by `weights` (1 each if left out).

    Parameters
    ----------
    gpus
        GPUs by group and type, whole or not.
    parent
        Name of the parent, which has no limit.
    weights
        Weights over quota by group.
    limit
        Whether a group may never have more than its quota.
    """
    free = {"quota": _NO_LIMIT, "limit": _NO_LIMIT, "overQuotaWeight": 1}
    everything = {"cpu": free, "memory": free}
    queues = [
        _object("scheduling.run.ai/v2", "Queue", parent, {"resources": {**everything, "gpu": free}})
    ]
    for group, name in _names(gpus.index, parent).items():
        quota = round(float(gpus.loc[group].sum()), 6)
        gpu = {
            "quota": quota,
            "limit": quota if limit else _NO_LIMIT,
            "overQuotaWeight": 1.0 if weights is None else _weight(weights, group),
        }
        resources = {**everything, "gpu": gpu}
        spec = {"parentQueue": parent, "displayName": str(group), "resources": resources}
        queues.append(_object("scheduling.run.ai/v2", "Queue", name, spec))
    return queues


def volcano_queues(
    gpus: pd.DataFrame, *, weights: Mapping[str, float] | None = None
) -> list[dict[str, Any]]:
    """Return queues of Volcano (``scheduling.volcano.sh/v1beta1``): what a group deserves.

    Parameters
    ----------
    gpus
        Whole GPUs by group and type.
    weights
        Weights by group, whole numbers of 1 and more; 1 each if left out.
    """
    _check_whole(gpus)
    queues = []
    for group, name in _names(gpus.index).items():
        weight = 1.0 if weights is None else _weight(weights, group)
        if weight != int(weight) or weight < 1:
            raise InputError(f"Volcano's weight of {written(group)} is whole and >= 1: {weight:g}.")
        deserved = {_GPU: str(int(gpus.loc[group].sum()))}
        spec = {"weight": int(weight), "reclaimable": True, "deserved": deserved}
        queues.append(_object("scheduling.volcano.sh/v1beta1", "Queue", name, spec))
    return queues


def _object(version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _names(labels: Iterable[Any], *taken: str) -> dict[Any, str]:
    """Return labels as Kubernetes names things, each another.

    Raises
    ------
    InputError
        If a label leaves no name, or two leave the same.
    """
    names: dict[Any, str] = {}
    for label in labels:
        name = re.sub("[^a-z0-9]+", "-", str(label).lower()).strip("-")[:_LONGEST].strip("-")
        if not name:
            raise InputError(f"{written(label)} leaves no name for Kubernetes: letters or digits.")
        if name in names.values() or name in taken:
            raise InputError(f"{written(label)} and another are both {name!r} to Kubernetes.")
        names[label] = name
    return names


def _check_whole(gpus: pd.DataFrame) -> None:
    check_gpus(gpus)
    if not (gpus.to_numpy(float) == gpus.to_numpy(float).round()).all():
        raise InputError("Quotas are whole GPUs; see apportion.exports.whole_gpus.")


def _weight(weights: Mapping[str, float], group: Any) -> float:
    if group not in weights:
        raise InputError(f"There is no weight of {written(group)}.")
    return float(weights[group])


def _quantity(queue: str, value: Any) -> float:
    """Read a quantity of Kubernetes: a number, or one with m, k or M behind it."""
    found = re.fullmatch(r"(\d+(?:\.\d*)?)([mkM]?)", str(value))
    if found is None:
        raise InputError(f"Queue {queue!r} has {written(value)}; a number such as 4 is valid.")
    return float(found[1]) * _SUFFIXES[found[2]]
