"""Short texts that are equal only for equal inputs, to know what a stored run belongs to."""

from __future__ import annotations

import hashlib
import logging
from itertools import chain
from typing import TYPE_CHECKING
from uuid import uuid4

import pandas as pd

from apportion.sim.fingerprint.installed import program, versions
from apportion.sim.fingerprint.walk import Walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apportion.sim import Workload
    from apportion.sim.elastic_workload import ElasticWorkload

__all__ = [
    "content",
    "fingerprint",
    "program",
    "texts_of",
    "versions",
    "workload_fingerprint",
]


logger = logging.getLogger(__name__)

_SAID: set[str] = set()
"""What has been said to be unknowable, so that it is said once."""


def workload_fingerprint(workload: Workload | ElasticWorkload) -> str:
    """Return a digest of the jobs and all throughputs, 16 hexadecimal digits.

    The name and the notes do not count: they change no result.
    """
    digest = hashlib.sha256()
    if workload.elastic is True:
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
    told = (dict(workload.relative_speed), dict(workload.restart_s), workload.measured_on)
    own = (*told, list(workload.jobs.columns))
    digest = hashlib.sha256(repr(own).encode())
    digest.update(pd.util.hash_pandas_object(workload.jobs, index=True).to_numpy().tobytes())
    for name in sorted(set(workload.jobs["application"])):
        first = workload.applications[name]
        for kind, application in (("", first), *sorted(first.on_types.items())):
            digest.update(repr((name, kind, application.limits)).encode())
            training = application.training
            for batch in training.batches.tolist():
                digest.update(training.noises(batch).tobytes())
            digest.update(training.progress.tobytes())
            digest.update(content(application.steps).encode())
    return digest.hexdigest()[:16]


def fingerprint(*parts: object, names: Iterable[str] = ()) -> str:
    """Return a digest of everything that one result depends on, 16 hexadecimal digits.

    This package, byte for byte, Python and the solvers (`program`) always count.

    Parameters
    ----------
    parts
        What the result is made of: values, objects, functions, with all code that they reach
        (`content`).
    names
        More texts that may be names of registered parts, such as types of jobs.
    """
    return hashlib.sha256(f"{program()} {content(*parts, names=names)}".encode()).hexdigest()[:16]


def content(*values: object, names: Iterable[str] = ()) -> str:
    """Return a digest of values and of the code that they reach, 64 hexadecimal digits.

    Any text among them that is the name of a policy or of another registered part stands for that
    part as well, and any that names a file, as ``"requests.csv(gpus=8)"`` does, for what the file
    holds. Where code or state cannot be told, as that of an open file, a digest is returned
    that no other call returns, and a line in the log says why.

    Parameters
    ----------
    values
        What to go through, in this order.
    names
        More texts that may be names of parts; of files that they name only the names count.
    """
    walk = Walk({})
    for value in values:
        walk.add(value)
    walk.look_up(names)
    digest = walk.digest(with_packages=True)
    for place, reason in walk.untold.items():
        if place not in _SAID:
            _SAID.add(place)
            logger.warning(
                "Nobody can tell whether %s is as it was (%s): what depends on it runs anew.",
                *(place, reason),
            )
        digest = hashlib.sha256(f"{digest} {uuid4().hex}".encode()).hexdigest()
    return digest


def texts_of(workload: Workload | ElasticWorkload, facts: Mapping[str, object]) -> list[str]:
    """Return the texts in the jobs of a workload, and in what is told of it: some may be names."""
    columns = [
        workload.jobs[each] for each in workload.jobs if workload.jobs[each].dtype.kind == "O"
    ]
    lists = [each if isinstance(each, list | tuple) else [each] for each in facts.values()]
    found = chain.from_iterable([*lists, *(column.unique() for column in columns)])
    return sorted({each for each in found if isinstance(each, str)})
