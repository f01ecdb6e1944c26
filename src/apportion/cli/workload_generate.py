"""``apportion workload generate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from apportion.cli.generated import drawn, drawn_communicating, drawn_contended, drawn_elastic
from apportion.errors import InputError
from apportion.report.files import check_folder

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> None:
    """Draw a workload and write its jobs and throughputs."""
    check_folder(Path(args.out).parent)
    for name in ("models", "gang_gpus"):
        if args.kind != "communicating" and getattr(args, name) is not None:
            raise InputError(
                f"--{name.replace('_', '-')} is for --kind communicating; it does nothing to "
                f"--kind {args.kind}. Leave it out."
            )
    if args.kind == "elastic":
        elastic = drawn_elastic(args)
        jobs, applications = elastic.save(args.out)
        print(f"{len(elastic):,} elastic jobs: {jobs}; applications: {applications}")
        return
    if args.kind == "contended":
        workload = drawn_contended(args)
    elif args.kind == "communicating":
        workload = drawn_communicating(args)
    else:
        workload, _ = drawn(args, racks=args.kind == "racks")
    jobs, throughputs = workload.save(args.out)
    print(f"{len(workload.jobs):,} jobs: {jobs}; throughputs: {throughputs}")
