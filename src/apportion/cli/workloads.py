"""``apportion workload generate`` and ``describe``, ``apportion requests generate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from apportion.cli.inputs import drawn_of_kind, read_any
from apportion.cli.output import print_table
from apportion.cli.workload_options import fitting_options, reading_options
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.experiments.fitted_jobs import fitted
from apportion.report.files import check_folder, write_text
from apportion.report.tables import human_measures
from apportion.sim.inference import (
    Bursts,
    DiurnalRate,
    generate_requests,
    offered_load,
    peak_gpus,
    read_request_rate,
)
from apportion.whole_files import to_csv

if TYPE_CHECKING:
    import argparse

    from apportion.sim.inference import RequestRate


def generate_workload(args: argparse.Namespace) -> None:
    """Draw a workload and write its jobs and throughputs."""
    check_folder(Path(args.out).parent)
    workload = drawn_of_kind(args)
    jobs, others = workload.save(args.out)
    elastic = workload.elastic is True
    what = ("elastic jobs", "applications") if elastic else ("jobs", "throughputs")
    print(f"{len(workload):,} {what[0]}: {jobs}; {what[1]}: {others}")


def describe_workload(args: argparse.Namespace) -> None:
    """Read a trace and print what it holds."""
    if args.speed is not None and args.cluster is None:
        raise InputError("--speed is of types of a cluster; give --cluster, too.")
    workload = read_any(args.file, args.seed, reading_options(args))
    if args.cluster is not None:
        workload = fitted(workload, Cluster.parse(args.cluster), **fitting_options(args))
    rows = human_measures(workload.describe(args.cluster))
    print_table([workload.name, "value", "unit"], rows, left=(0, 2))
    for note in workload.notes:
        print(f"Note: {note}")


_REQUESTS_PER_S = 0.37
_SECONDS_PER_HOUR = 3600.0


def draw_requests(args: argparse.Namespace) -> None:
    """Draw requests, write them, and say what load they are."""
    check_folder(Path(args.out).parent)
    requests = generate_requests(
        _rate(args),
        length_s=args.hours * _SECONDS_PER_HOUR,
        services=args.services,
        zipf=args.zipf,
        mean_duration_s=args.mean_duration,
        durations=args.durations,
        spread=args.spread,
        slo_factor=args.slo_factor,
        bursts=Bursts(noise=args.noise, spikes_per_day=args.spikes_per_day),
        seed=args.seed,
    )
    path = write_text(Path(args.out), to_csv(requests))
    load = offered_load(requests)
    mean = requests["duration_s"].sum() / (args.hours * _SECONDS_PER_HOUR)
    print(
        f"{len(requests):,} requests of {requests['service'].nunique()} services: {path}\n"
        f"Load: {mean:.3g} Erlangs on average, {load.max() if len(load) else 0:.3g} in the busiest "
        f"hour; about {peak_gpus(requests)} GPUs."
    )


def _rate(args: argparse.Namespace) -> RequestRate:
    if args.rate_file is None:
        return DiurnalRate(_REQUESTS_PER_S if args.rate is None else args.rate)
    measured = read_request_rate(args.rate_file)
    return measured if args.rate is None else measured.scaled(args.rate)
