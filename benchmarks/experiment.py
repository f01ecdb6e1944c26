"""What the experiments of Gavel's paper share: options, runs that resume, verdicts, plots.

An experiment is a list of settings and a function that turns one of them into figures. Every
finished one is a line of ``<name>.runs.jsonl`` below ``--out``; the next call goes on from there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.errors import ApportionError, unknown_name
from apportion.experiments.machine.backends import Where
from apportion.experiments.machine.cells import Cell, Work
from apportion.experiments.machine.run import carry_out
from apportion.experiments.machine.store import FILE, Store
from apportion.experiments.run_records import packed, unpacked
from apportion.report.style import new_figure, plain_numbers, plotting_style
from apportion.sim.fingerprint import fingerprint
from benchmarks.papers.claims import as_rows, claims_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure as Picture

    from benchmarks.papers.claims import Figure

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "gavel"

Settings = Mapping[str, Any]
Figures = Callable[[Settings, Path | None], Mapping[str, Any]]


def parser(name: str, purpose: str, quick: str) -> argparse.ArgumentParser:
    """Make the parser with the options that every experiment has."""
    options = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=purpose)
    options.add_argument("--quick", action="store_true", help=quick)
    options.add_argument("--data", type=Path, default=DATA, metavar="PATH", help="Gavel's data")
    options.add_argument("--out", type=Path, metavar="DIR", help="write csv files and a plot")
    options.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    options.add_argument("--fresh", action="store_true", help="run again what is done already")
    return options


def data_of(options: argparse.Namespace) -> Path | None:
    """Return the folder of Gavel's data, or say that it is not there."""
    if options.data.is_dir():
        return Path(options.data)
    print(f"skipped: data absent ({options.data}); generated workloads instead")
    return None


def chosen(option: str, names: Sequence[str], valid: Sequence[str]) -> list[str]:
    """Check names from the command line against the valid ones."""
    for name in names:
        if name not in valid:
            raise unknown_name(option, name, valid)
    return list(names)


def run_all(
    work: Figures, settings: Sequence[Settings], options: argparse.Namespace, name: str
) -> pd.DataFrame:
    """Run what is not done yet, several at a time, and return a row for each of the settings.

    Parameters
    ----------
    work
        Takes settings and the folder of Gavel's data (None if absent), returns figures.
    settings
        Numbers and texts. Together with whether Gavel's data are there, the code of `work` and
        of all that it calls, and whatever computes, they are what a finished run is found by.
    options
        Those of `parser`.
    name
        Name of the experiment and its files.

    Raises
    ------
    ApportionError
        When all others have run, if one has failed.
    """
    data = Path(options.data) if options.data.is_dir() else None
    shared = fingerprint(work, "generated" if data is None else "gavel")
    cells = [Cell(each, fingerprint(shared, dict(each)), each) for each in settings]
    work_of_cells = Work(_carried_out, (work, data), _packed, _unpacked)
    store = Store(None if options.out is None else options.out / f"{name}.{FILE}")
    store.open(resume=not options.fresh)
    where = Where(n_jobs=options.jobs)
    outcome = carry_out(cells, work_of_cells, store, where, progress=None)
    for cell in cells:
        if failure := outcome.failures.get(cell.fingerprint):
            raise failure.error(f"{name}, {cell.label}: ") from failure.cause()
    rows = [{**cell.label, **outcome.results[cell.fingerprint]} for cell in cells]
    return pd.DataFrame(rows)


def _carried_out(task: Settings, _report: object, shared: tuple[Figures, Path | None]) -> Any:
    """Run one of the settings, in whatever process."""
    work, data = shared
    return dict(work(task, data))


def _packed(_cell: Cell, figures: Mapping[str, Any]) -> dict[str, Any]:
    return {"figures": {name: packed(value) for name, value in figures.items()}}


def _unpacked(_cell: Cell, record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: unpacked(value) for name, value in record["figures"].items()}


def verdict(claim: str, holds: bool, evidence: str) -> dict[str, str]:
    """Print whether a statement of ours, which no paper makes, holds, and the figures behind it.

    What papers claim is judged by `claimed`.
    """
    word = "holds" if holds else "does not hold"
    print(f"{word}: {claim} ({evidence})")
    return {"verdict": word, "claim": claim, "evidence": evidence}


def claimed(system: str, name: str, figures: Sequence[Figure]) -> dict[str, str]:
    """Judge a claim of the file of claims by what was measured now, and print the verdict."""
    known = {claim.name: claim for claim in claims_of(system)}
    if name not in known:
        raise unknown_name(f"claim of {system}", name, known)
    claim = replace(
        known[name],
        figures=tuple(figures),
        open="",
        seeds=0,
        commit="measured now",
        command=known[name].command or "measured now",
    )
    row = as_rows([claim])[0]
    print(f"{claim.verdict}: {claim.says} ({row[3]}; {row[4]})")
    return {"verdict": claim.verdict, "claim": f"{system}.{name}", "evidence": row[4]}


@contextmanager
def drawing(
    out: Path | None, name: str, width: float = 6.4, height: float = 3.8
) -> Iterator[Picture | None]:
    """Give a figure to draw on and save it; None where there is no folder, or no matplotlib."""
    if out is None:
        yield None
        return
    try:
        with plotting_style():
            figure = new_figure(width, height)
    except ApportionError as error:
        print(f"No plot: {error}")
        yield None
        return
    with plotting_style():
        yield figure
        _number_logs(figure)
        _uncover(figure)
        out.mkdir(parents=True, exist_ok=True)
        figure.savefig(out / f"{name}.png", dpi=150)
    print(f"Written: {out / f'{name}.png'}")


def _number_logs(figure: Picture) -> None:
    """Write the numbers of logarithmic axes out; between powers of ten, too, if there are few."""
    from matplotlib.ticker import LogFormatterMathtext

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_formatter(), LogFormatterMathtext):
                low, high = axis.get_view_interval()
                plain_numbers(axis)
                if low > 0 and high < 10 * low:
                    axis.set_minor_formatter(lambda value, _: f"{value:g}")


def _uncover(figure: Picture) -> None:
    """Make lines wider that another one would cover."""
    for axes in figure.axes:
        above: list[Any] = []
        for line in reversed([each for each in axes.lines if each.get_linestyle() != "None"]):
            covered = sum(_nearly(line, other) for other in above)
            line.set_linewidth(line.get_linewidth() + 2.5 * covered)
            line.set_markersize(line.get_markersize() + 3 * covered)
            above.append(line)


def _nearly(line: Any, other: Any) -> bool:
    """Whether two lines are the same within a hundredth of what their axes show."""
    one, two = (
        each.axes.transAxes.inverted().transform(each.axes.transData.transform(each.get_xydata()))
        for each in (line, other)
    )
    return one.shape == two.shape and bool(np.all(np.abs(one - two) < 0.01))
