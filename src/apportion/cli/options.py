"""Groups of options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cli.commands import (
    add_option,
    by_job_type,
    group_of,
    number_or_by_type,
    one_of,
    read_by,
    real,
    whole,
)
from apportion.cli.sections import add_named, add_setting
from apportion.mechanisms import MECHANISMS, mechanism_name
from apportion.mechanisms.settings import settings_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def add_file(parser: argparse.ArgumentParser, text: str, name: str = "file") -> None:
    """Add the file that a command is about."""
    parser.add_argument(name, metavar="FILE", help=text)


DEFAULT_CLUSTER = "v100=36,p100=36,k80=36"
"""The cluster where no option says otherwise."""

DEFAULT_ELASTIC_CLUSTER = "t4=64"
"""The cluster of elastic jobs, as in the papers on them."""

DEFAULT_GPUS_PER_MACHINE = 4
"""GPUs of its machines."""


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the cluster to simulate, of types or of racks.

    Options have no default, to tell whether they were given.
    """
    group = group_of(parser, "the cluster")

    def shown(flag: str, metavar: str, text: str, read: Callable[[str], Any] = str) -> None:
        key = "gpus" if flag == "--cluster" else flag.removeprefix("--").replace("-", "_")
        add_named(group, "cluster", key, flag, metavar, text, read)

    usual = f"(default: {DEFAULT_CLUSTER}; elastic {DEFAULT_ELASTIC_CLUSTER})"
    shown("--cluster", "TYPE=GPUS,...", usual)
    usual = f"or TYPE=N,... (default: {DEFAULT_GPUS_PER_MACHINE}; 8 in racks)"
    shown("--gpus-per-machine", "N", usual, number_or_by_type)
    text = "racks of one type or several, for leases"
    shown("--racks", "N | TYPE=N,...", text, number_or_by_type)
    shown("--machines-per-rack", "N", "(default: 8)", whole(1))
    shown("--accelerator", "TYPE", "of all GPUs (default: the one of the workload)")


def add_backend(parser: argparse.ArgumentParser) -> None:
    """Add where runs are computed."""
    group = group_of(parser, "the computation")
    backend = one_of("backend", ("processes", "ray", "dask"))
    add_option(group, "--backend", "NAME", "processes, ray or dask", backend, "processes")
    add_option(group, "--address", "ADDRESS", "of a running cluster (default: start one here)")
    add_option(group, "--jobs", "N", "runs at once (default: one per CPU)", whole(1))


def add_simulation(parser: argparse.ArgumentParser) -> None:
    """Add the mechanisms and their settings, each once; they have no default, to tell them apart.

    What a mechanism does not heed is refused where its value is made.
    """
    MECHANISMS.load()
    group = group_of(parser, "the simulation")
    text = f"{', '.join(MECHANISMS)}, with settings in brackets: 'leases(lease_seconds=1800)' "
    text += "(default: by policy)"
    add_named(group, "mechanism", "name", "--mechanism", "NAME", text, read_by(mechanism_name))
    homes: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    for name, mechanism in MECHANISMS.items():
        for setting in settings_of(mechanism):
            homes.setdefault(setting.name, []).append(name)
            kinds.setdefault(setting.name, setting.kind.removesuffix(" | None"))
    for key, kind in kinds.items():
        add_setting(group, "mechanism", key, _reader(key, kind), *homes[key])
    _add_beliefs(group)


def _add_beliefs(group: Any) -> None:
    """Add what policies are told of speeds."""
    speeds, text = ("told", "estimated", "agnostic"), "told (the truth), estimated or agnostic"
    read = one_of("way to know speeds", speeds)
    add_named(group, "speeds", "name", "--speeds", "NAME", text, read)
    add_setting(group, "speeds", "references", whole(0), "estimated")
    add_setting(group, "speeds", "optimism", real(), "estimated")
    rows = one_of("rows", ("job", "type"))
    add_setting(group, "speeds", "rows", rows, "estimated")


def _reader(name: str, kind: str) -> Callable[[str], Any]:
    """Return what reads a setting of a mechanism of a kind."""
    if kind == "bool":
        return answer(name)
    if "Mapping[str, float]" in kind:
        return by_job_type
    return real() if kind == "float" else str


def answer(name: str) -> Callable[[str], bool]:
    """Return a reader of the answer to what may be or not."""
    word = one_of(name.replace("_", " "), ("yes", "no"))
    return lambda given: word(given) == "yes"


def add_seed(parser: argparse._ActionsContainer, text: str) -> None:
    """Add the seed, and what it is of."""
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help=text)
