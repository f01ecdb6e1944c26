"""Workloads of Kueue, the queue of Kubernetes: ``kubectl get workloads -A -o json``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.cluster import ACCELERATORS
from apportion.errors import InputError, written
from apportion.sim.traces.assemble import accelerator_of
from apportion.sim.traces.log import from_log, items_of, objects_of, read_items

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.traces.log import Log
    from apportion.sim.workload import Workload
    from apportion.text_files import TextFile

_GROUP = b'"kueue.x-k8s.io/'
_TEXTS = ("namespace", "queue", "cluster_queue", "state")
_COLUMNS = (
    *("job", "created", "admitted", "finished", "evicted", "gpus", "on", "by_type"),
    *("limit_s", "priority", *_TEXTS),
)
_KEYS_OF_TYPES = re.compile(r"gpu|accelerator")
"""What the names of node labels hold that say which GPUs a node has."""


def is_kueue(file: TextFile) -> bool:
    """Tell a list of workloads by its group of the API."""
    return file.body.startswith(b"{") and b'"items"' in file.body and _GROUP in file.body


def read_kueue(file: TextFile, options: ReadOptions) -> Workload:
    """Read workloads; models are unknown, so job types are drawn.

    A workload runs from the time at which its condition ``Admitted`` became true, of several
    admissions the last, to that of ``Finished``, and arrives when it was created; one that is still
    admitted is taken to end when the list was made. Its GPUs are those that the containers of
    its pods ask for (resources that end in ``/gpu``), times the pods of each set: those admitted,
    where the admission tells how many. The flavor of the resource is the type of GPU
    (``recorded_on``); where a selector of nodes names a type that is known and the flavor does not,
    that does. The cluster queue, else the queue, is the entity; namespace, queue, cluster queue,
    priority and the reason of the end (``state``) are kept, and ``maximumExecutionTimeSeconds`` is
    the time limit.

    Workloads without GPUs and those never admitted are left out, as are malformed ones; a note
    counts each.

    Raises
    ------
    InputError
        For a file that is no JSON, and a list without a workload that ran on a GPU.
    """
    log = read_items(file, items_of(file, "items"), _COLUMNS, _cells)
    gpus = log.table.numbers("gpus", "a whole number >= 0 (GPUs)", whole=True)
    log.leave_out(gpus == 0, "they asked for no GPU")
    log.leave_out(log.table.rows["admitted"].isna(), "they are not admitted")
    jobs = _times(log).assign(
        scale_factor=gpus, recorded_on=log.table.texts("on", optional=True), **_kept(log)
    )
    if options.throughputs is None:
        log.leave_out_gangs_on_slices(jobs["scale_factor"], jobs["recorded_on"])
    jobs = log.readable(jobs)
    evicted = log.table.rows["evicted"][jobs.index] == "true"
    log.say(evicted, "evicted before; the list does not tell earlier runs, which do not count")
    log.say_types(jobs, log.table.rows["by_type"].map(json.loads))
    for name in ("cluster_queue", "queue"):
        if (jobs[name] != "").all():
            jobs["entity"] = jobs[name]
            break
    jobs = jobs.loc[:, jobs.notna().any() & (jobs != "").any()]
    return from_log(log, jobs, options)


def _times(log: Log) -> pd.DataFrame:
    """Return ids, arrival, start, end and length; leave out those that never ran."""
    table = log.table
    created_s, start_s = table.times("created"), table.times("admitted")
    end_s = table.times("finished", unknown=())
    running = table.rows["finished"].isna()
    seen_s = np.fmax.reduce([created_s.max(), start_s.max(), end_s.max()])
    log.say(running, "still running, taken to end when the log was made")
    end_s = end_s.mask(running, seen_s)
    jobs = log.runs(("created", "admitted", "finished"), (created_s, start_s, end_s))
    return jobs.assign(job=log.ids("job"))


def _kept(log: Log) -> dict[str, pd.Series]:
    """Return what jobs keep as columns of their own, and the time limit."""
    table = log.table
    kept = {name: table.texts(name, optional=True) for name in _TEXTS}
    priority = table.numbers("priority", "a whole number", least=-(2**31), optional=True)
    limit_s = table.numbers("limit_s", "a number > 0 (seconds)", strict=True, optional=True)
    return {**kept, "priority": priority.fillna(0), "time_limit_s": limit_s}


def _cells(item: Mapping[str, Any]) -> dict[str, Any]:
    meta, spec, status = (_object(item, key) for key in ("metadata", "spec", "status"))
    conditions = objects_of(status, "conditions")
    true = {str(each.get("type")): each for each in conditions if each.get("status") == "True"}
    admitted, finished = (true.get(each, {}) for each in ("Admitted", "Finished"))
    admission = _object(status, "admission")
    given = {str(each.get("name")): each for each in objects_of(admission, "podSetAssignments")}
    pod_sets = objects_of(spec, "podSets")
    held = [_gpus(each, given.get(str(each.get("name")), {})) for each in pod_sets]
    types = [_type(each, given.get(str(each.get("name")), {})) for each in pod_sets]
    by_type: dict[str, int] = {}
    for kind, gpus in zip(types, held, strict=True):
        if gpus:
            by_type[kind] = by_type.get(kind, 0) + gpus
    name = "/".join(str(meta[key]) for key in ("namespace", "name") if meta.get(key))
    return {
        "job": name,
        "created": meta.get("creationTimestamp"),
        "admitted": admitted.get("lastTransitionTime"),
        "finished": finished.get("lastTransitionTime"),
        "evicted": any(each.get("type") == "Evicted" for each in conditions),
        "gpus": sum(held),
        "on": max(by_type, key=lambda kind: by_type[kind], default=""),
        "by_type": by_type,
        "limit_s": spec.get("maximumExecutionTimeSeconds"),
        "priority": spec.get("priority"),
        "namespace": meta.get("namespace"),
        "queue": spec.get("queueName"),
        "cluster_queue": admission.get("clusterQueue"),
        "state": finished.get("reason"),
    }


def _gpus(pod_set: Mapping[str, Any], assigned: Mapping[str, Any]) -> int:
    """Return the GPUs of a set of pods: of each as many as its containers have at once."""
    pods = _whole("count", assigned.get("count", pod_set.get("count", 1)))
    spec = _object(_object(pod_set, "template"), "spec")
    together = sum(map(_asked, objects_of(spec, "containers")))
    before = max(map(_asked, objects_of(spec, "initContainers")), default=0)
    return pods * max(together, before)


def _asked(container: Mapping[str, Any]) -> int:
    """Return the GPUs that a container asks for; what is not requested is limited alone."""
    resources = _object(container, "resources")
    asked = {**_object(resources, "limits"), **_object(resources, "requests")}
    return sum(_whole(name, each) for name, each in asked.items() if name.endswith("/gpu"))


def _type(pod_set: Mapping[str, Any], assigned: Mapping[str, Any]) -> str:
    """Return the name of a set's GPUs: its flavor, or what is known and a selector says."""
    flavors = _object(assigned, "flavors")
    spec = _object(_object(pod_set, "template"), "spec")
    selector = _object(spec, "nodeSelector")
    named = [str(each) for name, each in flavors.items() if name.endswith("/gpu")]
    named += [str(each) for name, each in selector.items() if _KEYS_OF_TYPES.search(name)]
    return _first_known(named)


def _first_known(names: Sequence[str]) -> str:
    known = [each for each in names if accelerator_of(each) in ACCELERATORS]
    return next(iter([*known, *names]), "")


def _object(parent: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object under a key, an empty one where there is none."""
    found = parent.get(key)
    if not isinstance(found, dict | None):
        raise InputError(f"{key} is {written(found)}; it must be an object.")
    return found or {}


def _whole(name: str, value: Any) -> int:
    """Read a count, which Kubernetes writes as a text or a number."""
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,9}", str(value)):
        raise InputError(f"{name} is {written(value)}; it must be a whole number >= 0.")
    return int(value)
