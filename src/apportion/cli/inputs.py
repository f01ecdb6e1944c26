"""What commands read: workloads, drawn or from files, and csv tables of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cli.racks import meant_by_racks
from apportion.cli.sections import called
from apportion.cli.workload_options import (
    GENERATED,
    GENERATED_COMMUNICATING,
    GENERATED_ELASTIC,
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
    generate_elastic_workload,
    read_elastic_workload,
    read_workload,
)
from apportion.sim.drawn.rack_workloads import RACK_DEMANDS, WEEK_S
from apportion.sim.settings import BELIEFS
from apportion.sim.traces.elastic import is_elastic

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


_SECONDS_PER_HOUR = 3600.0


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


def drawn_contended(args: argparse.Namespace) -> Workload | ElasticWorkload:
    """Draw the workload of gangs that share links; nothing of it is an option but the seed.

    Raises
    ------
    InputError
        For options that would do nothing.
    """
    for name in GENERATED:
        if getattr(args, name) is not None:
            raise InputError(
                f"{called(args, name)} is not for --kind contended, whose 160 jobs are drawn "
                f"as published. Leave it out."
            )
    (source,) = sources_of({"kind": "contended"})
    return source.made(1.0, args.seed)


def drawn_communicating(args: argparse.Namespace) -> Workload | ElasticWorkload:
    """Draw jobs of models with communication profiles.

    Raises
    ------
    InputError
        For options that would do nothing, and a rate that is not above 0.
    """
    jobs, rate = _jobs_at_rate(
        args, "communicating", GENERATED_COMMUNICATING, "have sizes and lengths of their own"
    )
    given: dict[str, Any] = {"jobs": jobs, "jobs_per_hour": rate}
    if args.models is not None:
        given["models"] = [each.strip() for each in args.models.split(",")]
    if args.gang_gpus is not None:
        given["gpus"] = [args.gang_gpus]
    (source,) = sources_of({"kind": "communicating", **given})
    return source.made(1.0, args.seed)


def drawn_elastic(args: argparse.Namespace) -> ElasticWorkload:
    """Draw elastic jobs of synthetic applications.

    Raises
    ------
    InputError
        For options that would do nothing, and a rate that is not above 0.
    """
    arrive = "arrive at uniform times, --jobs-per-hour of them"
    jobs, rate = _jobs_at_rate(args, "elastic", GENERATED_ELASTIC, arrive)
    return generate_elastic_workload(jobs, hours=jobs / rate, seed=args.seed)


def _jobs_at_rate(
    args: argparse.Namespace, kind: str, defaults: dict[str, Any], how: str
) -> tuple[int, float]:
    """Return how many jobs are drawn and how many arrive in an hour; refuse other options."""
    for name in GENERATED:
        if name not in defaults and getattr(args, name) is not None:
            raise InputError(
                f"{called(args, name)} is not for --kind {kind}, whose jobs {how}. Leave it out."
            )
    jobs, rate = (
        default if getattr(args, name) is None else getattr(args, name)
        for name, default in defaults.items()
    )
    if not rate > 0:
        raise InputError(f"jobs_per_hour is {rate:g}; with --kind {kind} it must be > 0.")
    return int(jobs), float(rate)


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
    settings = {name: getattr(args, name) for name in ("mechanism", *names, *BELIEFS)}
    return settings | {
        "record_prices": getattr(args, "record_prices", None),
        **meant_by_racks(args),
    }
