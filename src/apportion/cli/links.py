"""``apportion links``, of profiles or of ``--samples``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from apportion.checks import file_path, number, read_number, read_whole
from apportion.cli.output import print_table
from apportion.errors import InputError, unknown_name
from apportion.mechanism.time_shifts import rank_placements
from apportion.report.files import check_folder, write_png
from apportion.report.link_plots import affinity_figure, compatibility_figure
from apportion.sim.network import communication_profile, get_topology, jobs_on_links
from apportion.sim.network.samples import profiles_from_samples
from apportion.sim.phases.sampled_sharing import pairs_that_share

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from apportion.mechanism.time_shifts import CommunicationProfile, RankedPlacement
    from apportion.sim.network import Topology
    from apportion.sim.network.samples import SampledTraffic
    from apportion.sim.phases.sampled_sharing import SharedPair


_MOST_GPUS = 1_000_000


def run(args: argparse.Namespace) -> None:
    """Print which links gangs use and share, and with --model how they share them best."""
    traffic = None if args.samples is None else _sampled(args)
    if args.topology is None:
        if traffic is None:
            raise InputError("Give a TOPOLOGY, or --samples of traffic.")
        for option, value in (
            ("--gang", args.gang),
            ("--model", args.model),
            ("--plot", args.plot),
        ):
            if value:
                raise InputError(f"{option} needs a TOPOLOGY; leave it out.")
        show_pairs(traffic, args.gbps)
        return
    if args.gbps is not None:
        raise InputError("--gbps is of one link; a TOPOLOGY has its own. Leave one of them out.")
    topology = get_topology(args.topology)
    gangs = {job: _gpus(job, text) for job, text in _assigned("--gang", args.gang).items()}
    folder = None if args.plot is None else file_path("--plot", args.plot)
    if folder is not None:
        check_folder(folder)
    jobs_of = jobs_on_links(topology, gangs)
    models = _assigned("--model", args.model)
    print(f"{topology.name}: {topology.gpus} GPUs, {len(topology.capacities)} links")
    if not models and traffic is None:
        rows = [
            [link, f"{topology.capacities[link]:g}", ", ".join(jobs)]
            for link, jobs in jobs_of.items()
        ]
        if rows:
            print_table(["link", "Gb/s", "jobs"], rows, left=(0, 2))
        return
    for job in gangs:
        if job not in models and (traffic is None or job not in traffic.profiles):
            raise InputError(f"The job {job!r} has no --model {job}=MODEL, and no samples.")
    shared = {link: jobs for link, jobs in jobs_of.items() if len(jobs) > 1}
    meeting = {job for jobs in shared.values() for job in jobs}
    profiles = {job: _profile(job, models, gangs, topology) for job in models}
    sampled = {} if traffic is None else traffic.profiles
    profiles = {job: sampled[job] for job in gangs if job in sampled} | profiles
    needed = {job: profile for job, profile in profiles.items() if job in meeting}
    (ranked,) = rank_placements([shared], needed, topology.capacities)
    _show(ranked)
    if folder is not None:
        _draw(ranked, folder)


def _sampled(args: argparse.Namespace) -> SampledTraffic:
    """Find the profiles of the jobs of a file of samples, and print them."""
    traffic = profiles_from_samples(args.samples)
    show_traffic(traffic)
    return traffic


def _profile(
    job: str, models: dict[str, str], gangs: dict[str, list[int]], topology: Topology
) -> CommunicationProfile:
    """Profile of a job that sends at the rate of the slowest link that it uses."""
    if job not in gangs:
        raise unknown_name("job of --model", job, gangs)
    links = topology.links_of(gangs[job])
    slowest = min((topology.capacities[link] for link in links), default=50.0)
    gpus = max(2, len(gangs[job]))
    return communication_profile(models[job], gbps=slowest, gpus=gpus).named(job)


def _show(ranked: RankedPlacement) -> None:
    """Print how the jobs on every shared link get on, and their shifts."""
    rows = [
        [
            str(link),
            f"{found.capacity_gbps:g}",
            ", ".join(found.jobs),
            f"{found.unshifted_score:.3f}",
            f"{found.score:.3f}",
            found.proof if found.commensurate else f"{found.proof}; incommensurate",
        ]
        for link, found in ranked.links.items()
    ]
    header = ["link", "Gb/s", "jobs", "unshifted", "score", "proof"]
    print_table(header, rows, left=(0, 2, 5))
    print(f"Score of the placement: {ranked.score:.3f}")
    if ranked.has_loops:
        print(f"Loops in the affinity graph: {ranked.graph.loops}; no shifts suit every link.")
    for job, shift in ranked.shifts_s.items():
        print(f"{job} starts {shift:.6g} s later")


def _draw(ranked: RankedPlacement, folder: Path) -> None:
    """Write a picture for every shared link, and one of the affinity graph."""
    figures = {"affinity_graph": affinity_figure(ranked.graph, dict(ranked.shifts_s))}
    for link, found in ranked.links.items():
        safe = "".join(letter if letter.isalnum() else "_" for letter in str(link))
        figures[f"link_{safe}"] = compatibility_figure(found)
    for name, figure in figures.items():
        print(f"Written: {write_png(folder / f'{name}.png', figure)}")


def _assigned(option: str, words: list[str]) -> dict[str, str]:
    """Read ``JOB=VALUE``, each job once."""
    found: dict[str, str] = {}
    for word in words:
        job, equals, value = (part.strip() for part in word.partition("="))
        if not (job and equals and value) or job in found:
            raise InputError(f"{option} {word!r}: write JOB=VALUE, each job once.")
        found[job] = value
    return found


def _gpus(job: str, text: str) -> list[int]:
    """Read numbers of GPUs, ``0,2,5-7``."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            begin = read_whole(first)
            end = read_whole(last, begin, begin + _MOST_GPUS) if dash else begin
        except ValueError as error:
            raise InputError(f"--gang {job}={text}: {error}; write GPUs as 0,2,5-7.") from error
        found += range(begin, end + 1)
    return found


_MOST_PAIRS = 12
"""Jobs whose pairs are all looked at; more would take minutes."""


def show_traffic(traffic: SampledTraffic) -> None:
    """Print periods and phases with their doubts, in ms, and which jobs have none."""
    rows = []
    for job, profile in traffic.profiles.items():
        doubt = traffic.doubts[job]
        for place, (phase, off) in enumerate(zip(profile.phases, doubt.phases, strict=True)):
            varies = f"{doubt.jitter_s / profile.period_s:.2%}" if doubt.jitter_s else "no"
            rows.append(
                [
                    job if place == 0 else "",
                    _with_doubt(1e3 * profile.period_s, 1e3 * doubt.period_s) if place == 0 else "",
                    _with_doubt(1e3 * phase.start_s, 1e3 * off.start_s),
                    _with_doubt(1e3 * phase.duration_s, 1e3 * off.duration_s),
                    _with_doubt(phase.gbps, off.gbps),
                    varies if place == 0 else "",
                ]
            )
    header = ["job", "period, ms", "next start, ms", "sends for, ms", "Gb/s", "varies"]
    if rows:
        print_table(header, rows, left=(0,))
    for job, why in traffic.unexplained.items():
        print(f"{job}: {why}.")


def show_pairs(traffic: SampledTraffic, gbps: str | None) -> None:
    """Print which two jobs may share a link, with which shifts, and how long these hold."""
    profiles = traffic.profiles
    if len(profiles) < 2:
        raise InputError("Only jobs whose traffic repeats can be shifted; there must be two.")
    if len(profiles) > _MOST_PAIRS:
        raise InputError(
            f"There are {len(profiles)} jobs; the pairs of at most {_MOST_PAIRS} are compared. "
            "Leave columns out, or give a TOPOLOGY and --gang."
        )
    peak = max(profile.peak_gbps for profile in profiles.values())
    link = peak if gbps is None else number("--gbps", _read("--gbps", gbps), strict=True)
    told = "" if gbps is not None else ", the highest rate that was seen; --gbps tells another"
    print(f"\nTwo jobs on a link of {link:.4g} Gb/s{told}:")
    rows = [_row(each) for each in pairs_that_share(traffic, link)]
    header = ["jobs", "may share", "at random", "shifted", "waits once, ms", "paced to, ms"]
    print_table([*header, "more an hour", "useless after", "adjust every"], rows, left=(0, 1))
    print(
        "Iterations are over those alone; waits count from the last sample; to adjust, wait anew."
    )


def _row(pair: SharedPair) -> list[str]:
    waits = [pair.waits_s[job] for job in pair.jobs]
    paces = [pair.periods_s[job] for job in pair.jobs]
    return [
        " + ".join(pair.jobs),
        "yes" if pair.may_share else "no",
        f"{pair.random:.3f}",
        f"{pair.shifted:.3f}",
        " + ".join("-" if each is None else f"{1e3 * each:.1f}" for each in waits),
        " + ".join("-" if each is None else f"{1e3 * each:.2f}" for each in paces),
        " + ".join(f"{pair.more_iterations[job]:.0f}" for job in pair.jobs),
        _time(pair.useless_after_s),
        _time(pair.adjust_every_s),
    ]


def _time(time_s: float) -> str:
    """Return a length of time in words."""
    if math.isnan(time_s):
        return "-"
    if math.isinf(time_s):
        return "never"
    for name, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if time_s >= 2 * size:
            return f"{time_s / size:.3g} {name}"
    return f"{time_s:.3g} s"


def _with_doubt(value: float, doubt: float) -> str:
    """Return a number with as many places as its doubt has."""
    places = int(min(max(1 - math.floor(math.log10(doubt)), 0), 6)) if doubt > 0 else 6
    return f"{value:.{places}f} ± {doubt:.{places}f}"


def _read(option: str, text: str) -> float:
    try:
        return read_number(text)
    except ValueError as error:
        raise InputError(f"{option} {text!r}: {error}.") from error
