"""``apportion workload generate`` and ``describe``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from apportion.cli.inputs import drawn_of_kind, read_any
from apportion.cli.output import print_table
from apportion.cli.workload_options import fitting_options, reading_options
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.experiments.fitted_jobs import fitted
from apportion.report.files import check_folder
from apportion.report.tables import human_measures

if TYPE_CHECKING:
    import argparse


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
