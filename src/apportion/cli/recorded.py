"""``--config run.json``: a comparison of before, with the options beside it in place of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.checks import as_word
from apportion.cli.inputs import simulation_settings
from apportion.cli.options import CLUSTER_OPTIONS, GENERATED
from apportion.cli.parser import parse
from apportion.cli.trace_options import FITTING_OPTIONS, READING_OPTIONS
from apportion.errors import InputError, unknown_name
from apportion.experiments.provenance import cluster_options
from apportion.experiments.recorded import read_recorded

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from apportion.cluster import Cluster
    from apportion.experiments.recorded import Recorded

_WORKLOAD = ("workload", *READING_OPTIONS, *FITTING_OPTIONS, *GENERATED)
# What an option of a generated workload stands in place of, beside itself.
_REPLACED = {
    "arrivals": ("jobs_per_hour", "days"),
    "jobs_per_hour": ("days",),
    "days": ("jobs_per_hour",),
}


def recorded_of(args: argparse.Namespace) -> Recorded | None:
    """Read the file of ``--config``, if that is given.

    Raises
    ------
    InputError
        If it cannot be repeated with the options beside it.
    """
    if args.config is None:
        return None
    recorded = read_recorded(Path(args.config))
    for name in sorted(recorded.own):
        if getattr(args, name, None) is None:
            instead = f"give {_option(name)}" if hasattr(args, name) else "repeat it in Python"
            raise InputError(
                f"{args.config}: {name} was an object of the caller's own, which a file does not "
                f"hold; {instead}."
            )
    if args.mechanism not in (None, recorded.mechanism):
        of = "several" if recorded.mechanism is None else repr(recorded.mechanism)
        raise InputError(
            f"--mechanism {args.mechanism} does not go with {args.config}, whose settings are "
            f"those of {of}. Leave out one of the two."
        )
    of_racks = "racks" in (cluster_options(recorded.cluster) or {})
    other, kind = ("cluster", "racks") if of_racks else ("racks", "types")
    if getattr(args, other) is not None:
        raise InputError(
            f"{_option(other)} does not go with {args.config}, whose cluster and workload are of "
            f"{kind}. Leave out one of the two."
        )
    return recorded


def workload_is_changed(args: argparse.Namespace) -> bool:
    """Whether options that make the workload or choose among its jobs are given."""
    return any(getattr(args, name) is not None for name in (*_WORKLOAD, *CLUSTER_OPTIONS, "seed"))


def settings_of(args: argparse.Namespace, recorded: Recorded) -> dict[str, Any]:
    """Return the settings of before, those that are given in their place."""
    own = {name: getattr(args, name) for name in ("seed", "mechanism", "network")}
    given = simulation_settings(args) | own
    return recorded.settings | {name: each for name, each in given.items() if each is not None}


def fill_in(args: argparse.Namespace, recorded: Recorded) -> Cluster | None:
    """Fill in the options that make policies, cluster and workload, where they are not given.

    Returns
    -------
    Cluster or None
        The cluster of before, where no option changes it.

    Raises
    ------
    InputError
        If the file does not tell them.
    """
    if args.policies is None:
        args.policies = ",".join(recorded.policies)
    _fill_workload(args, recorded)
    given = [name for name in CLUSTER_OPTIONS if getattr(args, name) is not None]
    before = cluster_options(recorded.cluster)
    if not given:
        args.racks = (before or {}).get("racks")
        return recorded.cluster
    if before is None and args.cluster is None:
        raise InputError(
            f"{_option(given[0])} cannot change the cluster of {args.config}, which has prices or "
            f"racks that no option describes; give --cluster too."
        )
    _fill(args, before or {})
    return None


def _fill_workload(args: argparse.Namespace, recorded: Recorded) -> None:
    given = {name for name in _WORKLOAD if getattr(args, name) is not None}
    if "workload" in given:
        return
    if recorded.origin is None:
        if given & {"generate_jobs"}:
            return
        raise InputError(
            f"{args.config} does not tell how its workload was made, as it was given in Python "
            f"without origin=; give --workload FILE, or --generate-jobs N."
        )
    seed = recorded.settings["seed"]
    if args.seed is None and recorded.origin.get("seed", seed) != seed:
        raise InputError(
            f"{args.config}: its workload was made with the seed {recorded.origin['seed']}, and "
            f"simulated with {seed}, for which there is no option; give --seed, for both."
        )
    origin = {name: value for name, value in recorded.origin.items() if name != "seed"}
    for name in origin:
        if name not in _WORKLOAD:
            raise unknown_name(f"option for the workload of {args.config}", name, _WORKLOAD)
    replaced = {other for name in given for other in _REPLACED.get(name, ())}
    kept = {name: value for name, value in origin.items() if name not in replaced}
    _fill(args, _read_as_options(kept, args.config))


def _read_as_options(values: Mapping[str, Any], config: str) -> dict[str, Any]:
    """Let values of a file pass the checks of the command line."""
    told = {name: value for name, value in values.items() if value is not None}
    words = [f"{_option(name)}={as_word(value)}" for name, value in told.items()]
    try:
        parsed = parse(["compare", *words])
    except InputError as error:
        raise InputError(f"{config}, origin of the workload: {error}") from error
    return {name: getattr(parsed, name) for name in told}


def _fill(args: argparse.Namespace, options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if getattr(args, name) is None:
            setattr(args, name, value)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
