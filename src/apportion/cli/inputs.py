"""What commands read: workloads from files or drawn, and csv tables of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cli.generated import drawn
from apportion.cli.options import GENERATED
from apportion.cli.racks import meant_by_racks
from apportion.cli.trace_options import fitting_options, reading_options, refuse_reading_options
from apportion.errors import InputError
from apportion.mechanisms import MECHANISMS
from apportion.mechanisms.settings import settings_of
from apportion.sim import ElasticWorkload, Workload, read_elastic_workload, read_workload
from apportion.sim.settings import BELIEFS
from apportion.sim.traces.elastic import is_elastic

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


def read_any(path: str, seed: int, options: Mapping[str, Any]) -> Workload | ElasticWorkload:
    """Read a trace, or elastic jobs.

    Raises
    ------
    InputError
        For an option that does nothing to what the file holds.
    """
    elastic = is_elastic(path)
    for name in options:
        if elastic and name not in ("profiles", "limit"):
            raise InputError(
                f"--{name} does nothing to elastic jobs, which {path!r} holds. Leave it out."
            )
        if not elastic and name == "profiles":
            raise InputError(
                f"--profiles is for elastic jobs; {path!r} has not their columns name, time, "
                f"application, num_replicas and batch_size, or with a csv of speeds arrival_s, "
                f"application and total_steps. Leave it out."
            )
    if elastic:
        return read_elastic_workload(path, **options)
    return read_workload(path, seed=seed, **options)


def workload_and_origin(
    args: argparse.Namespace,
) -> tuple[Workload | ElasticWorkload, dict[str, Any]]:
    """Read or draw the workload that the options of ``compare`` ask for.

    Returns
    -------
    Workload or ElasticWorkload, dict
        The workload, and the options that make it again.

    Raises
    ------
    InputError
        If options for files and for generated workloads are mixed.
    """
    if args.workload is None:
        refuse_reading_options(args)
        made, origin = drawn(args, racks=isinstance(args.racks, int))
        return made, origin | fitting_options(args)
    for name in GENERATED:
        if getattr(args, name) is None:
            continue
        raise InputError(
            f"--{name.replace('_', '-')} is for generated workloads; it does nothing to the "
            f"trace {args.workload!r}. Leave out one of the two."
        )
    options = reading_options(args)
    workload = read_any(args.workload, args.seed, options)
    return workload, {"workload": args.workload, **options, **fitting_options(args)}


def simulation_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `simulate` that the options of the simulation stand for.

    What racks mean is in `meant_by_racks`.
    """
    names = {each.name: each.kind for kind in MECHANISMS.values() for each in settings_of(kind)}
    settings = {name: getattr(args, name) for name in names}
    for name in settings.keys() & {name for name, kind in names.items() if "bool" in kind}:
        settings[name] = _yes(settings[name])
    return settings | {
        "mechanism": args.mechanism,
        **{name: getattr(args, name) for name in BELIEFS},
        "learn_pairs": _yes(args.learn_pairs),
        "record_prices": _yes(getattr(args, "record_prices", None)),
        **meant_by_racks(args),
    }


def _yes(answer: str | None) -> bool | None:
    """Read an answer; None where there is none."""
    return None if answer is None else answer == "yes"
