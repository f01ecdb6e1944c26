"""What the experiments of Gavel's paper share: options, runs that resume, verdicts, plots.

An experiment is a list of settings and a function that turns one of them into figures. Every
finished one is a line of ``<name>.runs.jsonl`` below ``--out``; the next call goes on from there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import joblib
import pandas as pd

from apportion.errors import ApportionError, InputError, unknown_name
from apportion.report.style import new_figure, plotting_style
from benchmarks.reporting import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "gavel"

Settings = Mapping[str, Any]
Work = Callable[[Settings, Path | None], Mapping[str, Any]]


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
    work: Work, settings: Sequence[Settings], options: argparse.Namespace, name: str
) -> pd.DataFrame:
    """Run what is not done yet, several at a time, and return a row for each of the settings.

    Parameters
    ----------
    work
        Takes settings and the folder of Gavel's data (None if absent), returns figures.
    settings
        Numbers and texts. Together with the version of apportion and whether Gavel's data are
        there they are what a finished run is found by.
    options
        Those of `parser`.
    name
        Name of the experiment and its files.
    """
    data = Path(options.data) if options.data.is_dir() else None
    store = None if options.out is None else options.out / f"{name}.runs.jsonl"
    done = {} if store is None else _finished(store, fresh=options.fresh)
    keys = [_key(each, data) for each in settings]
    todo = [(key, each) for key, each in zip(keys, settings, strict=True) if key not in done]
    progress(f"{name}: {len(settings) - len(todo)} of {len(settings)} runs done")
    pool = joblib.Parallel(n_jobs=options.jobs, return_as="generator_unordered")
    finished: Any = pool(joblib.delayed(_one)(work, key, each, data) for key, each in todo)
    for key, figures in finished:
        done[key] = figures
        if store is not None:
            with store.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"key": key, "figures": figures}) + "\n")
        progress(f"{name}: {sum(k in done for k in keys)} of {len(keys)} runs done")
    progress("")
    rows = [{**each, **done[key]} for key, each in zip(keys, settings, strict=True)]
    return pd.DataFrame(rows)


def _one(work: Work, key: str, settings: Settings, data: Path | None) -> tuple[str, dict[str, Any]]:
    """Run one of the settings, in whatever process."""
    return key, dict(work(settings, data))


def _key(settings: Settings, data: Path | None) -> str:
    """Name one of the settings: the same text for the same run."""
    source = "generated" if data is None else "gavel"
    facts = {**settings, "workload from": source, "apportion": version("apportion")}
    return json.dumps(facts, sort_keys=True)


def _finished(store: Path, *, fresh: bool) -> dict[str, dict[str, Any]]:
    """Read the runs that are done; a line that an interruption has cut off does not count."""
    store.parent.mkdir(parents=True, exist_ok=True)
    if fresh or not store.is_file():
        store.write_text("", encoding="utf-8")
        return {}
    done = {}
    for number, line in enumerate(store.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if not (isinstance(row, dict) and row.keys() == {"key", "figures"}):
            raise InputError(f"{store}, line {number} is no finished run: {line!r}.")
        done[row["key"]] = row["figures"]
    text = "".join(json.dumps({"key": k, "figures": f}) + "\n" for k, f in done.items())
    store.write_text(text, encoding="utf-8")
    return done


def verdict(claim: str, holds: bool, evidence: str) -> dict[str, str]:
    """Print whether a claim of the paper holds here, with the figures that decide it."""
    word = "reproduced" if holds else "not reproduced"
    print(f"{word}: {claim} ({evidence})")
    return {"verdict": word, "claim": claim, "evidence": evidence}


@contextmanager
def drawing(
    out: Path | None, name: str, width: float = 6.4, height: float = 3.8
) -> Iterator[Figure | None]:
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
        figure.savefig(out / f"{name}.png", dpi=150)
    print(f"Written: {out / f'{name}.png'}")
