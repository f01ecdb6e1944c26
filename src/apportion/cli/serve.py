"""``apportion serve``, with what idle GPUs would be worth to training."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import file_path, is_whole, number, read_number
from apportion.cli.output import print_table
from apportion.cluster import Cluster
from apportion.errors import InputError, written
from apportion.report import day_figure
from apportion.report.built_in import NO_PLOTS
from apportion.report.files import check_folder, write_png, write_table
from apportion.sim import generate_elastic_workload
from apportion.sim.elastic.lending import lending_value
from apportion.sim.inference import (
    ServedModel,
    cheapest_gpus,
    fewest_gpus,
    read_requests,
    serve,
    serve_replicas,
)
from apportion.sim.traces.elastic import read_elastic_workload

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    import pandas as pd

    from apportion.sim import ElasticWorkload
    from apportion.sim.inference import ServingRun

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


_ATTAINMENT = 0.99

_SHOWN = (
    ("requests", "requests", "", 1.0, 0),
    ("slo_attainment", "SLO attainment", "%", 0.01, 2),
    ("p50_delay_s", "P50 delay", "s", 1.0, 3),
    ("p95_delay_s", "P95 delay", "s", 1.0, 3),
    ("p99_delay_s", "P99 delay", "s", 1.0, 3),
    ("mean_request_s", "mean from arrival to end", "s", 1.0, 3),
    ("p99_request_s", "P99 from arrival to end", "s", 1.0, 3),
    ("p50_ttft_s", "P50 time to first token", "s", 1.0, 3),
    ("p95_ttft_s", "P95 time to first token", "s", 1.0, 3),
    ("p99_ttft_s", "P99 time to first token", "s", 1.0, 3),
    ("p50_tpot_s", "P50 time per token", "s", 1.0, 4),
    ("p95_tpot_s", "P95 time per token", "s", 1.0, 4),
    ("p99_tpot_s", "P99 time per token", "s", 1.0, 4),
    ("cold_starts", "cold starts", "", 1.0, 0),
    ("nominal_use", "nominal use of GPUs", "%", 0.01, 1),
    ("computing", "computing", "%", 0.01, 1),
    ("running_gpu_hours", "running", "GPU-hours", 1.0, 1),
    ("protected_gpu_hours", "protected", "GPU-hours", 1.0, 1),
    ("warm_gpu_hours", "warm", "GPU-hours", 1.0, 1),
    ("free_gpu_hours", "free", "GPU-hours", 1.0, 1),
)
"""Figure, its name and unit for people, what it is divided by, and decimals."""


def run(args: argparse.Namespace) -> None:
    """Serve requests, print the figures, and write the tables if asked."""
    out = None if args.out is None else file_path("--out", args.out)
    if out is not None:
        check_folder(out)
    lends = check_training(args)
    check_model(args)
    if args.model is not None:
        served = serve_model(args)
    elif args.fewest:
        served = _fewest(args)
    elif args.attainment is not None:
        raise InputError("--attainment is for --fewest; give that too, or leave it out.")
    elif args.gpus is None:
        raise InputError("Say how many GPUs serve, --gpus N, or ask for the --fewest that do.")
    else:
        served = serve(requests_of(args), args.gpus, **serving_options(args))
    print(f"{args.file} on {served.gpus} GPUs, {served.length_s / 3600:.2f} h")
    show(served)
    tables = {
        "requests": served.requests.reset_index(),
        "gpu_states": served.gpu_states.drop(columns="job"),
    }
    if lends:
        tables["lending"] = lending(args, served)
    if out is not None:
        for name, table in tables.items():
            print(f"Written: {write_table(out / f'{name}.csv', table)}")
        _draw(served, out)


def _draw(served: ServingRun, out: Path) -> None:
    """Write the picture of the run, or say what to install."""
    if find_spec("matplotlib") is None:
        print(NO_PLOTS)
        return
    tables = {"requests": served.requests, "gpu_states": served.gpu_states}
    print(f"Written: {write_png(out / 'day.png', day_figure({'': tables}))}")


def serving_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `apportion.serve` that the options stand for."""
    return {
        "cold_start_s": args.cold_start,
        "protect": args.protect,
        "services_per_gpu": args.services_per_gpu,
        "slo_factor": args.slo_factor,
        "gpus_per_node": args.gpus_per_node,
    }


def _fewest(args: argparse.Namespace) -> ServingRun:
    """Find the fewest GPUs, and print how that is known."""
    if args.gpus is not None:
        raise InputError("--gpus says how many serve, and --fewest asks; leave one of them out.")
    share = _ATTAINMENT if args.attainment is None else args.attainment
    found = fewest_gpus(requests_of(args), share, **serving_options(args))
    columns = ["gpus", "slo_attainment", "p99_delay_s"]
    rows = [
        [f"{int(gpus)}", f"{100 * attained:.3f}", f"{p99_s:,.3f}"]
        for gpus, attained, p99_s in found.tried[columns].to_numpy(dtype=float)
    ]
    print_table(["GPUs", "SLO attainment (%)", "P99 delay (s)"], rows)
    print(
        f"\nFewest GPUs for {100 * share:g} %: {found.gpus}. At least {found.least} by the load; "
        f"E + 2 sqrt(E) says {found.square_root_rule} for {found.busiest_erlangs:.3g} Erlangs; "
        f"{found.enough} are never all in use."
    )
    if not found.more_is_as_good:
        print("Note: some larger number that was tried does not reach it.")
    print()
    return found.run


def show(served: ServingRun) -> None:
    """Print the figures."""
    figures = served.summary()
    rows = []
    for figure, name, unit, scale, decimals in _SHOWN:
        if figure not in figures:
            continue
        value = figures[figure] / scale
        rows.append([name, f"{value:,.{decimals}f}" if np.isfinite(value) else "-", unit])
    print_table(["figure", "value", "unit"], rows, left=(0, 2))


_WITH_MODEL = ("slo", "prices", "batch", "cache_tokens")


def requests_of(args: argparse.Namespace) -> Any:
    """Return the requests: the file, or its table if columns are named."""
    if args.columns is None:
        return args.file
    return read_requests(file_path("requests", args.file), args.columns)


def check_model(args: argparse.Namespace) -> None:
    """Refuse options that lack --model, or need it.

    Raises
    ------
    InputError
        Naming the option.
    """
    if args.model is not None:
        if args.attainment is not None:
            raise InputError("--attainment is of SLOs in the file; --model has --slo.")
        if args.fewest != (args.slo is not None):
            raise InputError(
                "--fewest with --model needs --slo, such as p99_ttft_s=2, and --slo needs --fewest."
            )
        return
    given = [name for name in _WITH_MODEL if getattr(args, name) is not None]
    if args.gpus_per_replica != 1:
        given.append("gpus-per-replica")
    if given:
        option = given[0].replace("_", "-")
        raise InputError(f"--{option} is of a model that serves in batches; give --model FILE.")
    if args.gpus is not None and not is_whole(args.gpus):
        raise InputError(f"--gpus is {written(args.gpus)}; only --model tells types apart.")


def serve_model(args: argparse.Namespace) -> ServingRun:
    """Serve requests by replicas, on the GPUs given or the cheapest of them."""
    gpus, cache = (
        Cluster.parse(given).gpus if isinstance(given, str) else given
        for given in (args.gpus_per_replica, args.cache_tokens)
    )
    model = ServedModel.from_table(args.model, gpus=gpus, batch=args.batch, cache_tokens=cache)
    if args.gpus is None or is_whole(args.gpus):
        raise InputError("With --model say how many GPUs of which type there are: --gpus a100=8.")
    cluster = Cluster.parse(
        args.gpus, gpus_per_machine=args.gpus_per_node, prices_per_gpu_hour=args.prices or {}
    )
    if not args.fewest:
        return serve_replicas(requests_of(args), model, cluster)
    slo = {
        name: number(f"The SLO {name}", read_number(value), strict=True)
        for name, value in args.slo.items()
    }
    found = cheapest_gpus(requests_of(args), model, slo, cluster)
    rows = [
        [name, f"{limit_s:g}", f"{reached_s:.4g}", "yes" if met else "no"]
        for name, limit_s, reached_s, met in found.slo.reset_index().itertuples(index=False)
    ]
    print_table(["SLO", "limit (s)", "reached (s)", "met"], rows)
    print(f"\nCheapest: {found}. {len(found.tried)} fleets were simulated.\n")
    return found.run
