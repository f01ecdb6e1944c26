"""``apportion workload describe``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.cli.inputs import fitted
from apportion.cli.output import print_table
from apportion.cli.trace_options import reading_options
from apportion.cluster import Cluster
from apportion.report.tables import human_measures
from apportion.sim import read_workload

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(args: argparse.Namespace) -> None:
    """Read a trace and print what it holds."""
    workload = read_workload(args.file, seed=args.seed, **reading_options(args))
    if args.cluster is not None:
        workload = fitted(args, workload, Cluster.parse(args.cluster))
    rows = human_measures(workload.describe(args.cluster))
    print_table([workload.name, "value", "unit"], rows, left=(0, 2))
    for note in workload.notes:
        print(f"Note: {note}")
