"""Groups of options that several commands share."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from apportion.cli.commands import (
    add_option,
    by_job_type,
    group_of,
    number_or,
    number_or_by_type,
    one_of,
    read_by,
    real,
    whole,
)
from apportion.cli.sections import add_setting
from apportion.mechanisms import MECHANISMS, mechanism_name
from apportion.mechanisms.settings import settings_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from apportion.mechanisms.settings import Setting


def add_file(parser: argparse.ArgumentParser, text: str, name: str = "file") -> None:
    """Add the file that a command is about."""
    parser.add_argument(name, metavar="FILE", help=text)


CLUSTER_OPTIONS = ("cluster", "racks", "gpus_per_machine", "machines_per_rack", "accelerator")
"""What `add_cluster` adds, by their names among the options."""

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
    shown = partial(add_setting, group_of(parser, "the cluster"), "cluster", hidden=False)
    usual = f"(default: {DEFAULT_CLUSTER}; elastic {DEFAULT_ELASTIC_CLUSTER})"
    shown("--cluster", "TYPE=GPUS,...", usual, key="gpus")
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
    named = partial(add_setting, group, "mechanism", key="name", hidden=False)
    named("--mechanism", "NAME", text, read_by(mechanism_name))
    homes: dict[str, list[str]] = {}
    settings: dict[str, Setting] = {}
    for name, mechanism in MECHANISMS.items():
        for setting in settings_of(mechanism):
            settings.setdefault(setting.name, setting)
            homes.setdefault(setting.name, []).append(name)
    for name, setting in settings.items():
        _add_setting(group, setting, ", ".join(homes[name]))
    _add_beliefs(parser)


def _add_beliefs(parser: argparse.ArgumentParser) -> None:
    """Add what policies are told of speeds."""
    group = group_of(parser, "the simulation")
    named = partial(add_setting, group, key="name", hidden=False)
    speeds = one_of("way to know speeds", ("told", "estimated", "agnostic"))
    named("speeds", "--speeds", "NAME", "told (the truth), estimated or agnostic", speeds)
    text = "job types that estimates are made from (default: 12, or all there are; of pairs 16)"
    add_setting(group, "speeds", "--references", "N", text, whole(0))
    text = "standard deviations that estimates add where nothing was measured (default: 1), or "
    text += "worth: by how long the job still runs"
    add_setting(group, "speeds", "--optimism", "K", text, number_or("worth"))
    text = "job: no job is recognised; family: by the model's; type: jobs of one type learn "
    text += "together (default: job)"
    rows = one_of("rows", ("job", "family", "type"))
    add_setting(group, "speeds", "--rows", "NAME", text, rows)
    pairs, text = ("completed", "nearest"), "of jobs that share: completed or nearest"
    how = one_of("way to estimate pairs", pairs)
    named("pair_estimates", "--pair-estimates", "NAME", text, how)
    text = "tell the truth of a pair once it has run (default: no)"
    add_setting(group, "pair_estimates", "--learn-pairs", YES_OR_NO, text, answer("learn_pairs"))


def _add_setting(group: argparse._ArgumentGroup, setting: Setting, homes: str) -> None:
    """Add one setting of some mechanisms as an option."""
    kind = setting.kind.removesuffix(" | None")
    how: tuple[str, Callable[[str], Any]]
    if kind == "bool":
        how = YES_OR_NO, answer(setting.name)
    elif "Mapping[str, float]" in kind:
        how = "S|TYPE=S,...|FILE", by_job_type
    else:
        how = ("S", real()) if kind == "float" else ("NAME", str)
    text = f"{homes}: {setting.help}"
    if setting.default is not None:
        text += f" (default: {_in_words(setting.default)})"
    metavar, read = how
    add_setting(group, "mechanism", f"--{setting.name.replace('_', '-')}", metavar, text, read)


YES_OR_NO = "yes|no"


def answer(name: str) -> Callable[[str], str]:
    """Return a reader of the answer to what may be or not."""
    return one_of(name.replace("_", " "), ("yes", "no"))


def _in_words(default: object) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default)


def add_seed(parser: argparse._ActionsContainer, text: str) -> None:
    """Add the seed, and what it is of."""
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help=text)
