"""``apportion what-if``, ``recommend``, ``forecast``, ``advise``, and what they are about."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.answers.advising import advise
from apportion.answers.futures import forecast
from apportion.answers.other_clusters import what_if
from apportion.answers.recommendation import recommend
from apportion.cli.inputs import (
    generator_options,
    generator_source,
    read_any,
    refuse_generating,
    simulation_settings,
)
from apportion.cli.output import say
from apportion.cli.racks import cluster_of, policies_of
from apportion.cli.sections import as_words
from apportion.cli.workload_options import (
    fitting_options,
    reading_options,
    refuse_reading_options,
)
from apportion.errors import InputError
from apportion.experiments.sources import sources_of
from apportion.report.files import check_format, write_page, write_table

if TYPE_CHECKING:
    import argparse

_OWN = {"policies", "add", "by", "draws", "jobs", "seed"}
"""Options of ``advise`` that other commands are not given."""


def workloads_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the arguments of `read_workload` for each trace, or those of a generator.

    Raises
    ------
    InputError
        If options for files and for generated workloads are mixed.
    """
    if args.workload is None:
        refuse_reading_options(args)
        racks = isinstance(args.racks, int)
        source = generator_source(generator_options(args, racks=racks), racks=racks)
        return [{**source, **fitting_options(args)}]
    paths = args.workload if isinstance(args.workload, list) else [args.workload]
    refuse_generating(args, paths[0])
    of_files = {**reading_options(args), **fitting_options(args)}
    return [{"path": path, **of_files} for path in paths]


def asked_about(args: argparse.Namespace) -> dict[str, Any]:
    """Return policies, the workload, the cluster and the settings, as functions take them."""
    (workload,) = workloads_of(args)
    return {
        "policies": policies_of(args),
        "workload": workload,
        "cluster": cluster_of(args, lambda: sources_of(workload)[0].made(1.0, 0)),
        **settings_given(args),
    }


def settings_given(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of simulations that were given."""
    return {name: each for name, each in simulation_settings(args).items() if each is not None}


def run_whatif(args: argparse.Namespace) -> None:
    """Simulate the changes, and say what each does."""
    answer = what_if(
        **asked_about(args),
        add=args.add,
        remove=args.remove,
        rates=args.rate,
        seeds=range(args.first_seed, args.first_seed + args.draws),
        out=args.out,
        n_jobs=args.jobs,
    )
    write_table(Path(args.out) / "whatif.csv", answer.table(args.level))
    for line in [*answer.sentences(args.level), *answer.dollars(), f"({answer.rests_on}.)"]:
        say(line)
    files = "whatif.csv, runs.csv, summary.csv, sweep.json, runs.jsonl"
    page = write_page(Path(args.out) / "whatif.html", lambda: answer.to_html(level=args.level))
    say(f"Report: {page[0]} (and {files})" if page else f"Files: {files} in {args.out}")


def run_recommend(args: argparse.Namespace) -> None:
    """Compare policies, and say what was found."""
    what = asked_about(args)
    answer = recommend(**what, figure=args.figure, draws=args.draws, out=args.out, n_jobs=args.jobs)
    write_table(Path(args.out) / "recommend.csv", answer.table().reset_index())
    for line in answer.sentences():
        say(line)
    print(f"Files: recommend.csv, runs.jsonl in {args.out}")


def run_forecast(args: argparse.Namespace) -> None:
    """Foretell, and say by when each job starts and ends."""
    if args.log is None:
        raise InputError("Give the log that durations are learnt from: --log FILE.")
    if args.out is not None:  # before the work is done
        check_format(Path(args.out).suffix.removeprefix("."))
    log = read_any(args.log, args.seed, reading_options(args))
    if log.elastic is True:
        raise InputError("A forecast is of jobs whose gangs have one size; this log is of others.")
    found = forecast(
        *(args.policy, args.state, log, cluster_of(args, lambda: log)),
        now_s=args.now,
        futures=args.futures,
        moments=args.moments,
        seed=args.seed,
        **settings_given(args),
    )
    for line in found.sentences():
        say(line)
    if args.out is not None:
        write_table(Path(args.out), found.table().reset_index())


def run_advise(args: argparse.Namespace) -> None:
    """Write the page, and print it."""
    log: dict[str, Any] = {"path": args.log, **reading_options(args), **fitting_options(args)}
    cluster = cluster_of(args, lambda: sources_of(log)[0].made(1.0, args.seed))
    advice = advise(
        *(log, cluster, [name.strip() for name in args.policies.split(",") if name.strip()]),
        add=args.add,
        by=args.by,
        draws=args.draws,
        seed=args.seed,
        out=args.out,
        n_jobs=args.jobs,
        command=as_words(args, args.log, _OWN),
        **settings_given(args),
    )
    for line in str(advice).splitlines():
        if line.startswith("  $ "):
            print(line)  # to be copied as it is
        else:
            say(line) if line else print()
    print(f"\nReport: {args.out}/advice.html (and advice.txt)")
