"""Groups of options that several commands share."""

from __future__ import annotations

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
    group = group_of(parser, "the cluster")
    add_setting(
        group,
        "cluster",
        "--cluster",
        key="gpus",
        hidden=False,
        metavar="TYPE=GPUS,...",
        help=f"(default: {DEFAULT_CLUSTER}; elastic {DEFAULT_ELASTIC_CLUSTER})",
    )
    add_setting(
        group,
        "cluster",
        "--gpus-per-machine",
        hidden=False,
        type=number_or_by_type,
        metavar="N",
        help=f"or TYPE=N,... (default: {DEFAULT_GPUS_PER_MACHINE}; 8 in racks)",
    )
    add_setting(
        group,
        "cluster",
        "--racks",
        hidden=False,
        type=number_or_by_type,
        metavar="N | TYPE=N,...",
        help="racks of one type or several, for leases",
    )
    add_setting(
        group,
        "cluster",
        "--machines-per-rack",
        hidden=False,
        type=whole(1),
        metavar="N",
        help="(default: 8)",
    )
    add_setting(
        group,
        "cluster",
        "--accelerator",
        hidden=False,
        metavar="TYPE",
        help="of all GPUs (default: the one of the workload)",
    )


def add_backend(parser: argparse.ArgumentParser) -> None:
    """Add where runs are computed."""
    group = group_of(parser, "the computation")
    backends = ("processes", "ray", "dask")
    add_option(
        group,
        "--backend",
        "NAME",
        "processes, ray or dask",
        one_of("backend", backends),
        "processes",
    )
    add_option(group, "--address", "ADDRESS", "of a running cluster (default: start one here)")
    add_option(group, "--jobs", "N", "runs at once (default: one per CPU)", whole(1))


def add_simulation(parser: argparse.ArgumentParser) -> None:
    """Add the mechanisms and their settings, each once; they have no default, to tell them apart.

    What a mechanism does not heed is refused where its value is made.
    """
    MECHANISMS.load()
    group = group_of(parser, "the simulation")
    add_setting(
        group,
        "mechanism",
        "--mechanism",
        key="name",
        hidden=False,
        type=read_by(mechanism_name),
        metavar="NAME",
        help=f"{', '.join(MECHANISMS)}, with settings in brackets: 'leases(lease_seconds=1800)' "
        "(default: by policy)",
    )
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
    speeds = ("told", "estimated", "agnostic")
    add_setting(
        group,
        "speeds",
        "--speeds",
        key="name",
        hidden=False,
        type=one_of("way to know speeds", speeds),
        metavar="NAME",
        help="told (the truth), estimated or agnostic",
    )
    add_setting(
        group,
        "speeds",
        "--references",
        type=whole(0),
        metavar="N",
        help="job types that estimates are made from (default: 12, or all there are; of pairs 16)",
    )
    add_setting(
        group,
        "speeds",
        "--optimism",
        type=number_or("worth"),
        metavar="K",
        help="standard deviations that estimates add where nothing was measured (default: 1), or "
        "worth: by how long the job still runs",
    )
    add_setting(
        group,
        "speeds",
        "--rows",
        type=one_of("rows", ("job", "family", "type")),
        metavar="NAME",
        help="job: no job is recognised; family: by the model's; type: jobs of one type learn "
        "together (default: job)",
    )
    pairs = ("completed", "nearest")
    add_setting(
        group,
        "pair_estimates",
        "--pair-estimates",
        key="name",
        hidden=False,
        type=one_of("way to estimate pairs", pairs),
        metavar="NAME",
        help="of jobs that share: completed or nearest",
    )
    add_setting(
        group,
        "pair_estimates",
        "--learn-pairs",
        **answer("learn_pairs"),
        help="tell the truth of a pair once it has run (default: no)",
    )


def _add_setting(group: argparse._ArgumentGroup, setting: Setting, homes: str) -> None:
    """Add one setting of some mechanisms as an option."""
    kind = setting.kind.removesuffix(" | None")
    how: dict[str, Any]
    if kind == "bool":
        how = answer(setting.name)
    elif "Mapping[str, float]" in kind:
        how = {"type": by_job_type, "metavar": "S|TYPE=S,...|FILE"}
    elif kind == "float":
        how = {"type": real(), "metavar": "S"}
    else:
        how = {"metavar": "NAME"}
    text = f"{homes}: {setting.help}"
    if setting.default is not None:
        text += f" (default: {_in_words(setting.default)})"
    flag = f"--{setting.name.replace('_', '-')}"
    add_setting(group, "mechanism", flag, **how, help=text)


def answer(name: str) -> dict[str, Any]:
    """Return what argparse must know of an option that is answered by yes or no."""
    return {"type": one_of(name.replace("_", " "), ("yes", "no")), "metavar": "yes|no"}


def _in_words(default: object) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default)


def add_seed(parser: argparse._ActionsContainer, text: str) -> None:
    """Add the seed, and what it is of."""
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help=text)
