"""Short texts that are equal only for equal inputs, to know what a stored run belongs to."""

from __future__ import annotations

import hashlib
import inspect
import json
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion._version import __version__
from apportion.errors import written
from apportion.pairs import PairThroughputs
from apportion.sim.elastic_workload import ElasticWorkload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.cluster import Cluster
    from apportion.sim import Workload
    from apportion.sim.deciders import Decider

__all__ = [
    "changed_settings",
    "policy_text",
    "run_fingerprint",
    "settings_text",
    "workload_fingerprint",
]


def workload_fingerprint(workload: Workload | ElasticWorkload) -> str:
    """Return a digest of the jobs and all throughputs, 16 hexadecimal digits.

    The name and the notes do not count: they change no result.
    """
    digest = hashlib.sha256()
    if isinstance(workload, ElasticWorkload):
        return _of_elastic(workload)
    tables = [workload.jobs, workload.throughputs]
    if workload.unconsolidated is not None:
        tables.append(workload.unconsolidated)
    if workload.pairs is not None:
        digest.update(repr([*workload.pairs.keys, *workload.pairs.accelerators]).encode())
        digest.update(workload.pairs.own.tobytes())
    for table in tables:
        digest.update(repr([*map(str, table.columns), len(table)]).encode())
        digest.update(pd.util.hash_pandas_object(table, index=True).to_numpy().tobytes())
    return digest.hexdigest()[:16]


def _of_elastic(workload: ElasticWorkload) -> str:
    """Return a digest of elastic jobs and of what was measured of their applications."""
    own = (dict(workload.relative_speed), dict(workload.restart_s), list(workload.jobs.columns))
    digest = hashlib.sha256(repr(own).encode())
    digest.update(pd.util.hash_pandas_object(workload.jobs, index=True).to_numpy().tobytes())
    for name in sorted(set(workload.jobs["application"])):
        application = workload.applications[name]
        digest.update(repr((name, application.limits)).encode())
        training, steps = application.training, application.steps.observations()
        for batch in training.batches.tolist():
            digest.update(training.noises(batch).tobytes())
        for values in (training.progress, steps.gpus, steps.local_batch, steps.step_s):
            digest.update(np.asarray(values, dtype=float).tobytes())
    return digest.hexdigest()[:16]


def run_fingerprint(
    policy: Decider, workload: str, cluster: Cluster, settings: Mapping[str, object]
) -> str:
    """Return a digest of everything that one run depends on, 16 hexadecimal digits.

    Parameters
    ----------
    policy
        The policy or scheduler; its parameters (as its repr shows them) and the code of its class
        count.
    workload
        Fingerprint of the workload.
    cluster, settings
        What else `apportion.simulate` is given.
    """
    parts = [__version__, policy_text(policy), workload, repr(cluster), settings_text(settings)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def policy_text(policy: Decider) -> str:
    """Write a policy or scheduler: its class, its parameters and the code of the class."""
    kind = type(policy)
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):  # a class typed into an interpreter has no file
        source = ""
    return f"{kind.__module__}.{kind.__qualname__}\n{policy!r}\n{source}"


def settings_text(settings: Mapping[str, object]) -> str:
    """Write settings, in one order of names."""
    return json.dumps(dict(settings), sort_keys=True, default=_mark)


def changed_settings(before: str, now: str) -> list[str]:
    """Say which settings differ in two texts of `settings_text`, with what they were and are."""
    old, new = json.loads(before), json.loads(now)
    return [
        f"{name} was {_shown(old, name)} and is {_shown(new, name)} now"
        for name in sorted({*old, *new})
        if (name in old) != (name in new) or old.get(name) != new.get(name)
    ]


def _shown(settings: Mapping[str, object], name: str) -> str:
    """Write the value of a setting that may not be among them."""
    return written(settings[name]) if name in settings else "not there"


def _mark(value: object) -> str:
    """Write an object among the settings so that others read differently."""
    if not isinstance(value, PairThroughputs):
        return repr(value)
    digest = hashlib.sha256(repr([*value.keys, *value.accelerators]).encode())
    digest.update(value.own.tobytes() + value.alone.tobytes())
    return digest.hexdigest()
