"""Groups of options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.cli.values import one_of, real, whole

if TYPE_CHECKING:
    import argparse

__all__ = [
    "add_backend",
    "add_cluster",
    "add_file",
    "add_generator",
    "add_kind",
    "add_leases",
    "add_seed",
    "add_simulation",
]

GENERATED = {
    "generate_jobs": 200,
    "arrivals": "poisson",
    "jobs_per_hour": 20.0,
    "days": None,
    "scale_factors": "gavel",
    "durations": "gavel",
}
"""The generated workload where no option says otherwise: long queues at its peak, quickly run."""

GENERATED_FOR_RACKS = {"generate_jobs": 200, "arrivals": "batch", "jobs_per_hour": None}
"""The workload generated for racks where no option says otherwise."""


def add_file(parser: argparse.ArgumentParser, text: str, name: str = "file") -> None:
    """Add the file that a command is about."""
    parser.add_argument(name, metavar="FILE", help=text)


def add_generator(parser: argparse.ArgumentParser) -> None:
    """Add how to draw a workload."""
    group = parser.add_argument_group("a generated workload")
    group.add_argument(
        "--generate-jobs", type=whole(1), metavar="N", help=_default("generate_jobs")
    )
    arrivals = ("poisson", "batch", "diurnal")
    group.add_argument(
        "--arrivals",
        type=one_of("arrivals", arrivals),
        metavar="|".join(arrivals),
        help="at a steady rate, all at once, or more by day than by night and on weekdays than on "
        "weekends (default: poisson; batch for racks, which have no diurnal)",
    )
    group.add_argument(
        "--jobs-per-hour",
        type=real(),
        metavar="X",
        help="(default: 20, for racks as published)",
    )
    group.add_argument(
        "--days",
        type=real(strict=True),
        metavar="X",
        help="of diurnal arrivals, in place of their rate",
    )
    for name, choices in (
        ("scale_factors", ("single", "gavel", "philly")),
        ("durations", ("gavel", "philly")),
    ):
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=one_of(name.replace("_", " "), choices),
            metavar="|".join(choices),
            help=_default(name),
        )


def add_kind(parser: argparse.ArgumentParser) -> None:
    """Add what the generated jobs are for."""
    kinds = ("types", "racks")
    parser.add_argument(
        "--kind",
        type=one_of("kind of workload", kinds),
        default="types",
        metavar="|".join(kinds),
        help="for several types of accelerators, or for racks of one (default: %(default)s)",
    )


DEFAULT_CLUSTER = "v100=36,p100=36,k80=36"
"""The cluster where no option says otherwise."""

DEFAULT_GPUS_PER_MACHINE = 4
"""GPUs of its machines."""


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the cluster to simulate, of types or of racks.

    Options have no default, to tell whether they were given.
    """
    group = parser.add_argument_group("the cluster")
    group.add_argument("--cluster", metavar="TYPE=GPUS,...", help=f"(default: {DEFAULT_CLUSTER})")
    group.add_argument(
        "--gpus-per-machine",
        type=whole(1),
        metavar="N",
        help=f"(default: {DEFAULT_GPUS_PER_MACHINE}; 8 in racks)",
    )
    group = parser.add_argument_group("a cluster of racks, with schedulers by leases")
    group.add_argument("--racks", type=whole(1), metavar="N", help="in place of --cluster")
    group.add_argument("--machines-per-rack", type=whole(1), metavar="N", help="(default: 8)")
    group.add_argument(
        "--accelerator",
        metavar="TYPE",
        help="of all GPUs (default: the one of the workload)",
    )


def add_leases(parser: argparse.ArgumentParser) -> None:
    """Add the settings of the lease-based simulator."""
    group = parser.add_argument_group("the simulation by leases")
    group.add_argument(
        "--network",
        metavar="NAME",
        help="table1, alpha_beta, none, ... (default: table1)",
    )
    seconds = {
        "lease_seconds": "length of a lease (default: 3600)",
        "checkpoint_seconds_per_gpu": "from its end to the return of the GPUs (default: 1)",
    }
    for name, text in seconds.items():
        group.add_argument(f"--{name.replace('_', '-')}", type=real(), metavar="S", help=text)


def add_backend(parser: argparse.ArgumentParser) -> None:
    """Add where runs are computed."""
    group = parser.add_argument_group("where it is computed")
    backends = ("processes", "ray", "dask")
    group.add_argument(
        "--backend",
        type=one_of("backend", backends),
        default="processes",
        metavar="|".join(backends),
        help="processes of this machine, or a cluster (default: %(default)s)",
    )
    group.add_argument(
        "--address",
        metavar="ADDRESS",
        help="of a running cluster (default: start one here)",
    )
    group.add_argument(
        "--jobs", type=whole(1), metavar="N", help="runs at once (default: one per CPU)"
    )


def add_simulation(parser: argparse.ArgumentParser) -> None:
    """Add the settings of the simulator."""
    group = parser.add_argument_group("the simulation")
    mechanisms = ("rounds", "ideal", "leases")
    group.add_argument(
        "--mechanism",
        type=one_of("mechanism", mechanisms),
        metavar="|".join(mechanisms),
        help="in rounds, shares exactly as computed, or by leases on racks (default: rounds; "
        "leases for schedulers)",
    )
    seconds = {
        "round_seconds": (360.0, "length of a round"),
        "resolve_seconds": (0.0, "least time between two solves"),
        "preemption_overhead_seconds": (0.0, "lost when a job starts, resumes or moves"),
    }
    for name, (default, text) in seconds.items():
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=real(),
            metavar="S",
            help=f"{text} (default: {default:g})",
        )
    group.add_argument("--placement", metavar="NAME", help="(default: consolidated)")
    answers = {
        "placement_sensitive": "slow down gangs that are split over machines (default: no)",
        "carry_over": "keep what jobs are owed at a new solve (default: yes, if on every event)",
        "leases": "a job that runs again on the same type keeps its devices (default: yes)",
        "learn_pairs": "tell the policy the truth of a pair once it has run (default: no)",
    }
    for name, text in answers.items():
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=one_of(name.replace("_", " "), ("yes", "no")),
            metavar="yes|no",
            help=text,
        )


def add_seed(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the seed, and what it is of."""
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help=text)


def _default(name: str) -> str:
    return f"(default: {GENERATED[name]})"
