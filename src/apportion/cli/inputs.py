"""What commands read: workloads, drawn or from files, and csv tables of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cli.racks import meant_by_racks
from apportion.cli.sections import called
from apportion.cli.workload_options import (
    GENERATED,
    GENERATED_FOR_RACKS,
    fitting_options,
    reading_options,
    refuse_reading_options,
)
from apportion.errors import InputError
from apportion.experiments.sources import sources_of
from apportion.mechanisms import MECHANISMS
from apportion.mechanisms.settings import settings_of
from apportion.sim import (
    ElasticWorkload,
    Workload,
    read_elastic_workload,
    read_workload,
)
from apportion.sim.generators.presets import RACK_DEMANDS, WEEK_S
from apportion.sim.settings import BELIEFS
from apportion.sim.traces.elastic import is_elastic

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


_SECONDS_PER_HOUR = 3600.0
_ELASTIC_JOBS, _ELASTIC_JOBS_PER_HOUR = 40, 10.0


def generator_options(args: argparse.Namespace, *, racks: bool) -> dict[str, Any]:
    """Return the options of a workload to be generated, with defaults where they are left out.

    Parameters
    ----------
    args
        The options of the command.
    racks
        Whether the jobs are for racks, which have a generator of their own.

    Raises
    ------
    InputError
        For options that would do nothing.
    """
    defaults = GENERATED_FOR_RACKS if racks else GENERATED
    asked = {name: getattr(args, name) for name in GENERATED if getattr(args, name) is not None}
    for name in asked:
        if name not in defaults:
            raise InputError(
                f"{called(args, name)} is for workloads on several types of accelerators; "
                f"jobs generated for racks have sizes, lengths and arrivals of their own. Leave it "
                f"out."
            )
    options: dict[str, Any] = {**defaults, **asked}
    if options["arrivals"] == "batch" and "jobs_per_hour" in asked:
        raise InputError(
            f"{called(args, 'jobs_per_hour')} is for arrivals over time, and not for "
            f"{called(args, 'arrivals', 'batch')}; give {called(args, 'arrivals', 'poisson')}."
        )
    if options["arrivals"] == "batch" or ("days" in asked and "jobs_per_hour" not in asked):
        options["jobs_per_hour"] = None
    return options


def generator_source(options: dict[str, Any], *, racks: bool) -> dict[str, Any]:
    """Turn options of `generator_options` into a workload as `apportion.sweep` takes it.

    Raises
    ------
    InputError
        For a rate or arrivals that cannot be.
    """
    jobs, arrivals, rate = options["generate_jobs"], options["arrivals"], options["jobs_per_hour"]
    if not racks:
        given = {name: value for name, value in options.items() if name != "generate_jobs"}
        return {"jobs": jobs, **given, "arrivals": "poisson" if arrivals == "batch" else arrivals}
    if rate is not None and not rate > 0:
        raise InputError(f"jobs_per_hour is {rate:g}; with arrivals=poisson it must be > 0.")
    published = sum(RACK_DEMANDS["poisson"].values()) / WEEK_S
    span_s = jobs / (published if rate is None else rate / _SECONDS_PER_HOUR)
    return {"kind": "racks", "jobs": jobs, "arrivals": arrivals, "span_s": span_s}


_HEEDED: Mapping[str, Mapping[str, str]] = {
    "types": dict.fromkeys(GENERATED, ""),
    "racks": dict.fromkeys(GENERATED, ""),
    "contended": {},
    "communicating": {
        **{"generate_jobs": "jobs", "jobs_per_hour": "jobs_per_hour"},
        **{"models": "models", "gang_gpus": "gpus"},
    },
    "elastic": {"generate_jobs": "jobs", "jobs_per_hour": "hours"},
}
"""What kinds of drawn workloads heed, and what their generators call it."""


def drawn_of_kind(args: argparse.Namespace) -> Workload | ElasticWorkload:
    """Draw the workload of a kind that ``workload generate`` asks for.

    Raises
    ------
    InputError
        For options that would do nothing, and a rate that is not above 0.
    """
    kind, names = args.kind, (*GENERATED, "models", "gang_gpus")
    asked = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    for name in asked:
        if name not in _HEEDED[kind]:
            homes = " or ".join(home for home, heeded in _HEEDED.items() if name in heeded)
            raise InputError(
                f"{called(args, name)} is for --kind {homes}; it does nothing to --kind {kind}. "
                f"Leave it out."
            )
    if kind in ("types", "racks"):
        return drawn(args, racks=kind == "racks")[0]
    rate = asked.get("jobs_per_hour", _ELASTIC_JOBS_PER_HOUR)
    if not rate > 0:
        raise InputError(f"--jobs-per-hour is {rate:g}; with --kind {kind} it must be > 0.")
    given = {_HEEDED[kind][name]: value for name, value in asked.items()}
    if "models" in given:
        given["models"] = [each.strip() for each in given["models"].split(",")]
    if "gpus" in given:
        given["gpus"] = [given["gpus"]]
    if kind == "elastic":
        given["jobs"] = given.get("jobs", _ELASTIC_JOBS)
        given["hours"] = given["jobs"] / rate
    (source,) = sources_of({"kind": kind, **given})
    return source.made(1.0, args.seed)


def drawn(
    args: argparse.Namespace, *, racks: bool
) -> tuple[Workload | ElasticWorkload, dict[str, Any]]:
    """Draw the workload that options ask for, and return it with the options that draw it again."""
    options = generator_options(args, racks=racks)
    (source,) = sources_of(generator_source(options, racks=racks))
    return source.made(1.0, args.seed), options


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
                f"{name} does nothing to elastic jobs, which {path!r} holds. Leave it out."
            )
        if not elastic and name == "profiles":
            raise InputError(
                f"profiles is for elastic jobs; {path!r} has not their columns name, time, "
                f"application, num_replicas and batch_size, or with a csv of speeds arrival_s, "
                f"application and total_steps. Leave it out."
            )
    if elastic:
        return read_elastic_workload(path, **options)
    return read_workload(path, seed=seed, **options)


def refuse_generating(args: argparse.Namespace, trace: str) -> None:
    """Refuse options of generated workloads where there is a trace."""
    for name in GENERATED:
        if getattr(args, name, None) is not None:
            raise InputError(
                f"{called(args, name)} is for generated workloads; it does nothing to the "
                f"trace {trace!r}. Leave out one of the two."
            )


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
    refuse_generating(args, args.workload)
    options = reading_options(args)
    workload = read_any(args.workload, args.seed, options)
    return workload, {"workload": args.workload, **options, **fitting_options(args)}


def simulation_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `simulate` that the options of the simulation stand for.

    What racks mean is in `meant_by_racks`.
    """
    names = [each.name for kind in MECHANISMS.values() for each in settings_of(kind)]
    names += [each for each in BELIEFS if hasattr(args, each)]  # but of pairs
    settings = {name: getattr(args, name) for name in ("mechanism", *names)}
    return settings | {
        "record_prices": getattr(args, "record_prices", None),
        **meant_by_racks(args),
    }
