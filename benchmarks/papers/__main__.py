"""``python -m benchmarks.papers``: every experiment of the five papers, each in its own process.

What one prints goes to ``NAME.txt`` below ``--out``, its csv files and pictures beside it; the next
call leaves out those that are there. ``--quick`` runs each in little. ``--write`` runs nothing: it
puts the tables of claims (`benchmarks.papers.claims`) into the pages of the systems.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.errors import unknown_name
from benchmarks.papers.claims import as_markdown, claims_of, in_full, in_one_line, systems
from benchmarks.readme import block, with_block

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).parents[2]
PAGES = {"deepboot": "elastic"}
"""Folders of benchmarks whose names are not those of their systems."""

MINUTES: dict[str, tuple[float, str]] = {
    "gavel.types": (0.1, ""),
    "gavel.testbed": (3, "--draws 5"),
    "gavel.static": (2, "--seeds 0 1 2"),
    "gavel.load": (60, "--full --seeds 0 1 --policies max_min_fairness_agnostic max_min_fairness"),
    "gavel.hierarchy": (1, ""),
    "gavel.scaling": (1, ""),
    "gavel.rounds": (12, "--draws 5"),
    "gavel.leases": (1, "--draws 5"),
    "gavel.strategy_proof": (1, ""),
    "gavel.properties": (1, "--parts"),
    "gavel.cost": (3, ""),
    "estimators.effect": (5, "--loads 0.6 0.7 0.8"),
    "dally.table1": (0.5, ""),
    "dally.shapes": (0.5, ""),
    "dally.schedulers": (50, ""),
    "dally.policies": (5, ""),
    "dally.programs": (5, ""),
    "dally.tuner": (3, ""),
    "dally.by_job": (1, ""),
    "dally.causes": (10, ""),
    "cassini.link": (0.5, ""),
    "cassini.paper": (0.5, ""),
    "cassini.scenarios": (0.5, ""),
    "cassini.poisson": (5, ""),
    "cassini.loops": (1, ""),
    "cassini.hosts": (1, ""),
    "cassini.pictures": (0.5, ""),
    "cassini.matrix": (20, ""),
    "cassini.metric": (2, ""),
    "cassini.deciders": (240, ""),
    "cassini.verdicts": (120, ""),
    "ada_srsf.tables": (4, ""),
    "ada_srsf.points": (3, ""),
    "ada_srsf.gates": (10, ""),
    "ada_srsf.costs": (0.1, ""),
    "ada_srsf.measurement": (0.2, ""),
    "ada_srsf.theorems": (0.2, ""),
    "ada_srsf.growth": (0.1, ""),
    "ada_srsf.mechanisms": (1, ""),
    "elastic.pollux": (15, ""),
    "elastic.sia": (3, ""),
    "elastic.deepboot": (20, ""),
    "elastic.fair_baselines": (150, ""),
    "elastic.measured_types": (3, "--logs philly"),
    "elastic.interference": (2, ""),
    "elastic.finish_time": (8, ""),
    "elastic.released": (1.5, ""),
    "elastic.stages": (1, ""),
    "elastic.speed": (1, "--types 3"),
}
"""Minutes of one core that each takes in full, about, and with which options."""


def main() -> None:
    """Run what is not done yet, or write the tables."""
    hours = sum(minutes for minutes, _ in MINUTES.values()) / 60
    purpose = f"Every experiment of the five papers; in full some {hours:.0f} hours of one core."
    parser = argparse.ArgumentParser(prog="python -m benchmarks.papers", description=purpose)
    parser.add_argument("--quick", action="store_true", help="each in little")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="gavel, or gavel.load")
    parser.add_argument("--out", type=Path, default=Path("out/papers"), metavar="DIR")
    parser.add_argument("--fresh", action="store_true", help="run again what is done already")
    parser.add_argument("--write", action="store_true", help="write tables of claims into pages")
    text = "print claims and verdicts alone: of all, of gavel, or all of gavel.load"
    parser.add_argument("--claims", nargs="?", const="", metavar="NAME", help=text)
    options = parser.parse_args()
    if options.claims is not None:
        print(told(options.claims))
        return
    if options.write:
        for page, text in pages():
            page.write_text(text, encoding="utf-8")
        return
    names = chosen(options.only or list(MINUTES))
    print(f"{len(names)} experiments; in full some {hours:.0f} hours of one core.")
    failed = [name for name in names if not _done(name, options)]
    for system in systems():
        print(in_one_line(system, claims_of(system)))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; what they printed is in {options.out}")


def told(about: str) -> str:
    """Return a line for each system, the table of one, or all of one claim."""
    system, _, name = about.partition(".")
    if not system:
        return "\n".join(in_one_line(each, claims_of(each)) for each in systems())
    claims = claims_of(system)
    if not name:
        rows = [f"{claim.verdict:<15}{claim.name}: {claim.says}" for claim in claims]
        return "\n".join([systems()[system], in_one_line(system, claims), "", *rows])
    by_name = {each.name: each for each in claims}
    if name not in by_name:
        raise unknown_name(f"claim of {system}", name, by_name)
    return in_full(by_name[name])


def chosen(names: list[str]) -> list[str]:
    """Turn names of experiments, or of folders of them, into names of experiments."""
    found: dict[str, None] = {}
    for name in names:
        experiments = [each for each in MINUTES if f"{each}.".startswith(f"{name}.")]
        if not experiments:
            raise unknown_name("experiment", name, MINUTES)
        found |= dict.fromkeys(experiments)
    return list(found)


def _done(name: str, options: argparse.Namespace) -> bool:
    """Run an experiment unless its output is there; say what it took."""
    folder = options.out / ("quick" if options.quick else "full")
    kept, part = folder / f"{name}.txt", folder / f"{name}.failed.txt"
    if kept.exists() and not options.fresh:
        print(f"{name}: done before")
        return True
    folder.mkdir(parents=True, exist_ok=True)
    more = ["--quick"] if options.quick else shlex.split(MINUTES[name][1])
    more += ["--out", str((folder / name).resolve())]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with part.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}", *more],
            cwd=_ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = spent.ru_utime + spent.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name}: {'failed' if done.returncode else 'done'}, {seconds:.0f} CPU s", flush=True)
    if done.returncode == 0:
        part.replace(kept)
    return done.returncode == 0


def pages() -> Iterator[tuple[Path, str]]:
    """Give every page of a system, with its table of claims as the file has it now."""
    for system in systems():
        page = _ROOT / "benchmarks" / PAGES.get(system, system) / "README.md"
        yield page, with_block(page.read_text(encoding="utf-8"), _name(system), printed(system))


def printed(system: str) -> str:
    """Write the table of claims of a system."""
    return as_markdown(claims_of(system))


def shown(system: str, page: str) -> str:
    """Give the table of claims that a page has."""
    return block(page, _name(system))


def _name(system: str) -> str:
    return f"claims of {system}"


if __name__ == "__main__":
    main()
