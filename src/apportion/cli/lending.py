"""What idle GPUs would be worth to training, as ``apportion serve`` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.cli.output import print_table
from apportion.errors import InputError
from apportion.sim import generate_elastic_workload
from apportion.sim.elastic.lending import lending_value
from apportion.sim.traces.elastic import read_elastic_workload

if TYPE_CHECKING:
    import argparse

    import pandas as pd

    from apportion.sim import ElasticWorkload
    from apportion.sim.inference import ServingRun

__all__ = ["check_training", "lending"]

_HEADER = (
    *("from (h)", "Erlangs", "idle GPUs", "jobs", "price", "lent", "gain", "last price"),
    "job-hours",
)
_SECONDS_PER_HOUR = 3600.0


def check_training(args: argparse.Namespace) -> bool:
    """Tell whether there is training to lend to.

    Raises
    ------
    InputError
        For options that lack others, or exclude them.
    """
    kinds = [name for name in ("training", "training_jobs") if getattr(args, name) is not None]
    if len(kinds) == 2:
        raise InputError("--training reads jobs and --training-jobs draws them; leave out one.")
    if bool(kinds) != (args.training_gpus is not None):
        raise InputError(
            "Training needs both GPUs of its own, --training-gpus N, and jobs: --training-jobs N, "
            "or --training FILE."
        )
    if args.training is None and args.profiles is not None:
        raise InputError("--profiles are of the applications of --training; give that too.")
    return bool(kinds)


def lending(args: argparse.Namespace, served: ServingRun) -> pd.DataFrame:
    """Print what lending idle GPUs is worth, hour by hour, and return it."""
    workload = _workload(args, served)
    table = lending_value(served, workload, args.training_gpus, gpus_per_node=args.gpus_per_node)
    numbers = table.to_numpy(dtype=float)
    rows = [
        [
            *(f"{start_s / _SECONDS_PER_HOUR:g}", f"{load:.2f}", f"{idle:.1f}", f"{jobs:.0f}"),
            *(f"{price:.3f}", f"{gpus:.0f}", f"{gain:.3f}", f"{last:.3f}", f"{hours:.3f}"),
        ]
        for start_s, load, idle, jobs, price, gpus, gain, last, hours in numbers
    ]
    print(
        f"\nWhat idle GPUs are worth to {len(workload)} elastic jobs on {args.training_gpus} GPUs "
        f"of their own,\nin speed-ups: 1 is the speed of a job at a fair share of those GPUs"
    )
    print_table(_HEADER, rows, left=())
    print(
        f"price: of one more GPU, dual of the relaxation; gain: of the GPUs lent\n"
        f"All in all: {table['job_hours'].sum():.2f} hours of training at a fair share."
    )
    return table


def _workload(args: argparse.Namespace, served: ServingRun) -> ElasticWorkload:
    if args.training is not None:
        return read_elastic_workload(args.training, args.profiles)
    hours = float(served.asked["arrival_s"].max()) / _SECONDS_PER_HOUR
    return generate_elastic_workload(args.training_jobs, hours=max(hours, 1e-3), seed=args.seed)
