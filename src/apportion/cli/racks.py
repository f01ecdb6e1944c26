"""Clusters of racks and their workloads, from the options of ``apportion compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cli.options import DEFAULT_CLUSTER, DEFAULT_GPUS_PER_MACHINE, GENERATED_FOR_RACKS
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.sim.rack_workloads import RACK_DEMANDS, WEEK_S, generate_rack_workload

if TYPE_CHECKING:
    import argparse

    from apportion.sim import Workload

__all__ = ["cluster_of", "generated_for_racks", "lease_settings"]

_MACHINES_PER_RACK = 8
_GPUS_PER_MACHINE = 8
_ONLY_RACKS = ("machines_per_rack", "accelerator", "arrivals")
_ONLY_TYPES = ("scale_factors", "durations")
_SECONDS_PER_HOUR = 3600.0


def cluster_of(args: argparse.Namespace, workload: Workload) -> Cluster:
    """Make the cluster that the options describe, of types or of racks.

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
        return Cluster.parse(args.cluster or DEFAULT_CLUSTER, gpus_per_machine=gpus_per_machine)
    if args.cluster is not None:
        raise InputError(
            "--racks and --cluster both say what the cluster is; give --racks N for whole racks "
            "of one type, or --cluster TYPE=GPUS,... for several types."
        )
    return Cluster.of_racks(
        args.racks,
        machines_per_rack=args.machines_per_rack or _MACHINES_PER_RACK,
        gpus_per_machine=args.gpus_per_machine or _GPUS_PER_MACHINE,
        accelerator=args.accelerator or _only_accelerator(workload),
    )


def generated_for_racks(args: argparse.Namespace) -> tuple[Workload, dict[str, Any]]:
    """Draw a workload for racks, and return it with the options that draw it again.

    Raises
    ------
    InputError
        For options of workloads that are generated for types of accelerators.
    """
    for name in _ONLY_TYPES:
        if getattr(args, name) is not None:
            raise InputError(
                f"{_option(name)} is for workloads on several types of accelerators; jobs "
                f"generated for racks have sizes and lengths of their own. Leave it out."
            )
    options = {name: getattr(args, name) for name in GENERATED_FOR_RACKS}
    origin: dict[str, Any] = {
        name: GENERATED_FOR_RACKS[name] if value is None else value
        for name, value in options.items()
    }
    jobs, arrivals, rate = origin["generate_jobs"], origin["arrivals"], origin["jobs_per_hour"]
    if rate is not None and arrivals == "batch":
        raise InputError(
            "--jobs-per-hour is for arrivals over time; with racks, give --arrivals poisson."
        )
    published = sum(RACK_DEMANDS["poisson"].values()) / WEEK_S
    if rate is not None and not rate > 0:
        raise InputError(f"--jobs-per-hour is {rate:g}; with --arrivals poisson it must be > 0.")
    span_s = jobs / (published if rate is None else rate / _SECONDS_PER_HOUR)
    workload = generate_rack_workload(arrivals=arrivals, jobs=jobs, seed=args.seed, span_s=span_s)
    return workload, origin | {"too_large": args.too_large}


def lease_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `compare` that the options of leases stand for."""
    names = ("network", "lease_seconds", "checkpoint_seconds_per_gpu")
    settings = {name: getattr(args, name) for name in names}
    if args.racks is not None and args.mechanism is None:
        settings["mechanism"] = "leases"
    return settings


def _only_accelerator(workload: Workload) -> str:
    """Return the accelerator type of a workload that knows but one."""
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
