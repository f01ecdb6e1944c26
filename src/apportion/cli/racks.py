"""Clusters of types or of racks, and what follows from them, from options of commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.cli.options import DEFAULT_CLUSTER, DEFAULT_ELASTIC_CLUSTER, DEFAULT_GPUS_PER_MACHINE
from apportion.cli.parser import (
    DEFAULT_ELASTIC,
    DEFAULT_ON_LOGS,
    DEFAULT_ON_RACKS,
    DEFAULT_POLICIES,
)
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.mechanisms import Leases
from apportion.sim.deciders import get_decider, manner_of
from apportion.sim.recorded_types import REFERENCE
from apportion.sim.traces.recorded_times import is_recorded, most_at_once

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from apportion.sim import ElasticWorkload, Workload

_MACHINES_PER_RACK = 8
_GPUS_PER_MACHINE = 8
_ONLY_RACKS = ("machines_per_rack", "accelerator")


def cluster_of(
    args: argparse.Namespace, workload: Callable[[], Workload | ElasticWorkload]
) -> Cluster:
    """Make the cluster that the options describe, of types or of racks.

    Parameters
    ----------
    args
        The options of the command.
    workload
        Makes the workload, whose accelerator is that of the racks if no option names it; elastic
        jobs have another cluster where no option says otherwise.

    Raises
    ------
    InputError
        If both are described, or options of racks are given without ``--racks``.
    """
    if args.racks is None:
        for name in _ONLY_RACKS:
            if getattr(args, name) is not None:
                raise InputError(f"{_option(name)} is for clusters of racks; give --racks N.")
        gpus_per_machine = args.gpus_per_machine or DEFAULT_GPUS_PER_MACHINE
        described = args.cluster
        if described is None:
            described = _usual_cluster(workload())
        return Cluster.parse(described, gpus_per_machine=gpus_per_machine)
    if args.cluster is not None:
        raise InputError(
            "--racks and --cluster both say what the cluster is; give --racks N for whole racks "
            "of one type, --racks TYPE=N,... for racks of several, or --cluster TYPE=GPUS,... "
            "without racks."
        )
    shape = {
        "machines_per_rack": args.machines_per_rack or _MACHINES_PER_RACK,
        "gpus_per_machine": args.gpus_per_machine or _GPUS_PER_MACHINE,
    }
    if isinstance(args.racks, str) or args.accelerator is not None:
        return Cluster.of_racks(args.racks, accelerator=args.accelerator, **shape)
    return Cluster.of_racks(args.racks, accelerator=_only_accelerator(workload()), **shape)


def _usual_cluster(workload: Workload | ElasticWorkload) -> str:
    """Return the cluster where no option says one: GPUs that a log had in use at once, if told."""
    if workload.elastic:
        return DEFAULT_ELASTIC_CLUSTER
    jobs = workload.jobs
    if not is_recorded(jobs):
        return DEFAULT_CLUSTER
    on = jobs.get("recorded_on", pd.Series("", index=jobs.index))
    usual = [*on[on != ""].mode(), REFERENCE][0]
    on = on.where(on != "", usual)
    most = {str(kind): most_at_once(rows) for kind, rows in jobs.groupby(on)}
    return ",".join(f"{kind}={gpus}" for kind, gpus in sorted(most.items()))


def policies_of(
    args: argparse.Namespace, *, elastic: bool = False, recorded: bool = False
) -> list[str]:
    """Return the policies asked for; by default those for types, elastic jobs, racks, or logs.

    Of those for types only the ones that work by the mechanism, where one is named.
    """
    if args.policies is not None:
        return [name.strip() for name in args.policies.split(",") if name.strip()]
    if elastic:
        return list(DEFAULT_ELASTIC)
    if args.racks is not None:
        return list(DEFAULT_ON_RACKS)
    default = DEFAULT_ON_LOGS if recorded else DEFAULT_POLICIES
    if args.mechanism is None:
        return list(default)
    ways = {name: _ways(name) for name in default}
    fit = [name for name, works_by in ways.items() if args.mechanism in works_by]
    return fit or [name for name, works_by in ways.items() if "rounds" in works_by]


def meant_by_racks(args: argparse.Namespace) -> dict[str, Any]:
    """Return what ``--racks`` says of the settings where no mechanism is named.

    Leases; and beside queues, which do not work by them, the network that leases have, under which
    policies work by leases.
    """
    if args.racks is None or args.mechanism is not None:
        return {}
    others = [ways for ways in map(_ways, policies_of(args)) if "leases" not in ways]
    if not others or not all({"queue", "iterations"} & {*ways} for ways in others):
        return {"mechanism": "leases"}
    heeded = any({"queue", "leases"} & {*_ways(name)} for name in policies_of(args))
    return {"network": Leases.network} if heeded and args.network is None else {}


def _ways(name: str) -> tuple[str, ...]:
    """Return the mechanisms by which a decider works."""
    return manner_of(get_decider(name)).works_by


def _only_accelerator(workload: Workload | ElasticWorkload) -> str:
    """Return the accelerator type of a workload that knows but one."""
    if workload.elastic is True:
        raise InputError("Elastic jobs run on clusters without racks; give --cluster t4=64.")
    first, *others = workload.accelerators
    if others:
        raise InputError(
            f"The workload {workload.name!r} has throughputs for several accelerators "
            f"({', '.join(workload.accelerators)}); say which the racks are of: "
            f"--accelerator {first}."
        )
    return first


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
