"""``apportion requests generate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from apportion.report.files import check_folder, write_text
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

_REQUESTS_PER_S = 0.37
_SECONDS_PER_HOUR = 3600.0


def run(args: argparse.Namespace) -> None:
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
