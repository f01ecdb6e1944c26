"""What commands that answer questions are asked about: one workload, a cluster, settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cli.generated import generator_options, generator_source
from apportion.cli.inputs import simulation_settings
from apportion.cli.options import GENERATED
from apportion.cli.racks import cluster_of, policies_of
from apportion.cli.trace_options import fitting_options, reading_options, refuse_reading_options
from apportion.errors import InputError
from apportion.experiments.sources import sources_of

if TYPE_CHECKING:
    import argparse


def workloads_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the arguments of `read_workload` for each trace, or those of a generator.

    Raises
    ------
    InputError
        If options for files and for generated workloads are mixed.
    """
    if args.workload is None:
        refuse_reading_options(args)
        racks = isinstance(args.racks, int)
        source = generator_source(generator_options(args, racks=racks), racks=racks)
        return [{**source, **fitting_options(args)}]
    paths = args.workload if isinstance(args.workload, list) else [args.workload]
    for name in GENERATED:
        if getattr(args, name, None) is None:
            continue
        raise InputError(
            f"--{name.replace('_', '-')} is for generated workloads; it does nothing to the "
            f"trace {paths[0]!r}. Leave out one of the two."
        )
    of_files = {**reading_options(args), **fitting_options(args)}
    return [{"path": path, **of_files} for path in paths]


def asked_about(args: argparse.Namespace) -> dict[str, Any]:
    """Return policies, the workload, the cluster and the settings, as functions take them."""
    (workload,) = workloads_of(args)
    return {
        "policies": policies_of(args),
        "workload": workload,
        "cluster": cluster_of(args, lambda: sources_of(workload)[0].made(1.0, 0)),
        **settings_given(args),
    }


def settings_given(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of simulations that were given."""
    return {name: each for name, each in simulation_settings(args).items() if each is not None}
