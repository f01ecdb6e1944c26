"""What ``apportion links --samples`` prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from apportion.checks import number, read_number
from apportion.cli.output import print_table
from apportion.errors import InputError
from apportion.sim.phases.sampled_sharing import pairs_that_share

if TYPE_CHECKING:
    from apportion.sim.network.samples import SampledTraffic
    from apportion.sim.phases.sampled_sharing import SharedPair

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
