"""Options of the commands that answer questions or list what there is, and what they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cli.commands import (
    add_command,
    add_option,
    comma_separated,
    finish,
    one_of,
    real,
    whole,
)
from apportion.cli.options import add_cluster, add_file, add_seed, add_simulation
from apportion.cli.workload_options import add_generator, add_trace

if TYPE_CHECKING:
    import argparse


def add_what_if(commands: Any) -> None:
    """Add ``apportion what-if``."""
    text = "what other GPUs, or more jobs, would do, with intervals"
    parser = add_command(commands, "what-if", "answers.asked:run_whatif", text)
    _add_policies(parser, "shortest_job_first")
    for name, verb in (("add", "more"), ("remove", "less")):
        parser.add_argument(
            f"--{name}", metavar="TYPE=N,M,...", help=f"so many {verb}, each number by itself"
        )
    text, rates = "times as many arrivals, with each cluster", comma_separated(real(strict=True))
    add_option(parser, "--rate", "X,Y,...", text, rates)
    parser.set_defaults(rate=[])
    _add_draws(parser, 16)
    add_option(parser, "--first-seed", "N", "of the draws", whole(0), 0)
    add_option(parser, "--level", "L", "of each interval", real(strict=True), 0.95)
    _add_workload(parser, "out/what-if")


def add_recommend(commands: Any) -> None:
    """Add ``apportion recommend``."""
    text = "which policy, by paired intervals"
    parser = add_command(commands, "recommend", "answers.asked:run_recommend", text)
    _add_policies(parser, "shortest_job_first,max_min_fairness,fcfs,easy,minimum_completion_time")
    text = "that is to be least: mean_jct_s, p95_jct_s, makespan_s, cost, ..."
    add_option(parser, "--figure", "NAME", text, usual="mean_jct_s")
    _add_draws(parser, 16)
    _add_workload(parser, "out/recommend")


def add_forecast(commands: Any) -> None:
    """Add ``apportion forecast``."""
    text = "when jobs that run and wait now will start and end"
    parser = add_command(commands, "forecast", "answers.asked:run_forecast", text)
    add_file(parser, "what `squeue --json` prints: who runs, and who waits", "state")
    add_option(parser, "--policy", "NAME", "of the cluster", usual="easy")
    add_option(parser, "--now", "S", "the time (default: that of the state)", real())
    add_option(parser, "--futures", "N", "", whole(2), 100)
    text = "earlier moments of the log that are foretold, too, at most (default: 200 under fcfs, "
    text += "easy and conservative, 0 where futures are simulated whole: no quantiles)"
    add_option(parser, "--moments", "N", text, whole(0))
    add_option(parser, "--out", "FILE.csv", "write the quantiles")
    add_trace(parser, "--log")
    add_cluster(parser)
    add_simulation(parser)
    add_seed(parser, "of the futures (default: 0)")
    parser.set_defaults(workload=None)
    finish(parser)


def add_advise(commands: Any) -> None:
    """Add ``apportion advise``."""
    text = "one page on a log: what is lost, and what would help"
    parser = add_command(commands, "advise", "answers.asked:run_advise", text)
    add_trace(parser, "log", "a log of jobs: when they came, how long they ran")
    _add_policies(parser, "shortest_job_first,max_min_fairness,fcfs,easy,minimum_completion_time")
    add_option(parser, "--add", "TYPE=N", "GPUs to ask about (default: 8 more)")
    add_option(parser, "--by", "COLUMN", "groups of jobs (default: user, if told)")
    _add_draws(parser, 8)
    add_option(parser, "--out", "DIR", "", usual="out/advise")
    add_option(parser, "--jobs", "N", "runs at once", whole(1))
    add_cluster(parser)
    add_simulation(parser)
    add_seed(parser, "for what a log leaves open (default: 0)")
    finish(parser)


def _add_policies(parser: argparse.ArgumentParser, usual: str) -> None:
    add_option(parser, "--policies", "A,B,...", "", usual=usual)


def _add_draws(parser: argparse.ArgumentParser, usual: int) -> None:
    add_option(parser, "--draws", "N", "of the jobs, or resamples of a log", whole(2), usual)


def _add_workload(parser: argparse.ArgumentParser, out: str) -> None:
    """Add what is simulated, and where finished runs are kept."""
    add_option(parser, "--out", "DIR", "", usual=out)
    add_option(parser, "--jobs", "N", "runs at once", whole(1))
    add_trace(parser, "--workload")
    add_generator(parser)
    add_cluster(parser)
    add_simulation(parser)
    finish(parser)


def _add_format(parser: argparse.ArgumentParser) -> None:
    """Add how a list is written."""
    parser.add_argument(
        "--format",
        type=one_of("format", ("text", "json")),
        default="text",
        metavar="text|json",
        help="(default: %(default)s)",
    )


def add_policies(commands: Any) -> None:
    """Add the list of policies and schedulers."""
    parser = add_command(
        commands,
        "policies",
        "installed:list_known",
        "list the policies and schedulers, and of a mechanism its settings",
    )
    parser.set_defaults(listed="policies")
    parser.add_argument("about", nargs="?", metavar="NAME", help="of one, or of a mechanism")
    _add_format(parser)
    finish(parser)


def add_accelerators(commands: Any) -> None:
    """Add the list of types of GPUs."""
    text = "list the types of GPUs that are known by name"
    parser = add_command(commands, "accelerators", "installed:list_known", text)
    parser.set_defaults(listed="accelerators")
    parser.add_argument("about", nargs="?", metavar="NAME", help="all that is known of one")
    _add_format(parser)
    finish(parser)


def add_doctor(commands: Any) -> None:
    """Add what says whether the installation works."""
    text = "say what is installed, and whether it works"
    finish(add_command(commands, "doctor", "installed:doctor", text))
