"""``apportion serve``."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import file_path
from apportion.cli.output import print_table
from apportion.errors import InputError
from apportion.report import day_figure
from apportion.report.built_in import NO_PLOTS
from apportion.report.files import check_folder, write_png, write_table
from apportion.sim.inference import (
    fewest_gpus,
    read_requests,
    serve,
)

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from apportion.sim.inference import ServingRun

_ATTAINMENT = 0.99

_SHOWN = (
    ("requests", "requests", "", 1.0, 0),
    ("slo_attainment", "SLO attainment", "%", 0.01, 2),
    ("p50_delay_s", "P50 delay", "s", 1.0, 3),
    ("p95_delay_s", "P95 delay", "s", 1.0, 3),
    ("p99_delay_s", "P99 delay", "s", 1.0, 3),
    ("mean_request_s", "mean from arrival to end", "s", 1.0, 3),
    ("p99_request_s", "P99 from arrival to end", "s", 1.0, 3),
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
    if args.fewest:
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
        "gpus_per_node": args.gpus_per_machine,
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


def requests_of(args: argparse.Namespace) -> Any:
    """Return the requests: the file, or its table if columns are named."""
    if args.columns is None:
        return args.file
    return read_requests(file_path("requests", args.file), args.columns)
