"""``apportion serve --model``: replicas that serve in batches, and the cheapest of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.checks import file_path, is_whole, number, read_number
from apportion.cli.output import print_table
from apportion.cluster import Cluster
from apportion.errors import InputError, written
from apportion.sim.inference import ServedModel, cheapest_gpus, read_requests, serve_replicas

if TYPE_CHECKING:
    import argparse

    from apportion.sim.inference import ServingRun

_WITH_MODEL = ("slo", "prices", "batch")


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
        raise InputError(f"--{given[0]} is of a model that serves in batches; give --model FILE.")
    if args.gpus is not None and not is_whole(args.gpus):
        raise InputError(f"--gpus is {written(args.gpus)}; only --model tells types apart.")


def serve_model(args: argparse.Namespace) -> ServingRun:
    """Serve requests by replicas, on the GPUs given or the cheapest of them."""
    gpus = args.gpus_per_replica
    each = Cluster.parse(gpus).gpus if isinstance(gpus, str) else gpus
    model = ServedModel.from_table(args.model, gpus=each, batch=args.batch)
    if args.gpus is None or is_whole(args.gpus):
        raise InputError("With --model say how many GPUs of which type there are: --gpus a100=8.")
    cluster = Cluster.parse(
        args.gpus,
        gpus_per_machine=args.gpus_per_node,
        prices_per_gpu_hour=args.prices or {},
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
