"""A workload as two csv files: the jobs, and next to them the throughputs."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pandas as pd

from apportion.csv_cells import WHOLE, to_csv
from apportion.errors import InputError
from apportion.jobs import column_named
from apportion.whole_files import writing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_ENDINGS = (".csv", ".csv.gz")

_TEXTS = "texts: "
"""What the comment begins with that names columns of texts, a list in JSON."""


def kind_of(cells: pd.Series) -> str:
    """Tell what a column of one's own holds: numbers if all cells are, or truths, or texts.

    Digits after a zero, as in 007, are a text. Blank cells are NaN.
    """
    known = cells.dropna()
    if known.isin(["True", "False"]).all() and len(known) == len(cells):
        return "truth"
    numbers = pd.to_numeric(known, errors="coerce").notna().all()
    codes = numbers and known.str.match(r"\s*[+-]?0[0-9]").any()
    return "number" if numbers and not codes else "text"


def texts_told(comment: str) -> list[str] | None:
    """Return the columns that a comment says to hold texts; ``None`` if it says something else."""
    if not comment.startswith(_TEXTS):
        return None
    try:
        names = json.loads(comment.removeprefix(_TEXTS))
    except ValueError:
        return None
    return names if isinstance(names, list) and all(isinstance(n, str) for n in names) else None


def _texts_to_tell(jobs: pd.DataFrame) -> list[str]:
    """Return the columns of texts, ids among them, that would be read as something else."""
    names = [
        str(name)
        for name, values in jobs.items()
        if column_named(name).kind == "own"
        and values.dtype.kind == "O"
        and kind_of(values.mask(values == "")) != "text"
    ]
    ids = jobs.index.to_series()
    texts = len(ids) and ids.map(lambda each: isinstance(each, str)).all()
    return ["job", *names] if texts and ids.str.fullmatch(WHOLE).all() else names


def throughputs_beside(jobs_file: Path) -> Path | None:
    """Name of the throughputs file that belongs to a jobs file; None if that is not csv."""
    for ending in _ENDINGS:
        if jobs_file.name.endswith(ending):
            return jobs_file.with_name(jobs_file.name.removesuffix(ending) + ".throughputs.csv")
    return None


def save_tables(
    jobs_file: Path, jobs: pd.DataFrame, throughputs: pd.DataFrame, notes: Iterable[str]
) -> tuple[Path, Path]:
    """Write a jobs table, with notes as ``#`` lines above it, and its throughputs.

    A line ``# texts: ["project"]`` names columns of texts that look like numbers or truths.

    Returns
    -------
    tuple of Path
        The file of the jobs, and that of the throughputs.

    Raises
    ------
    InputError
        If the file of the jobs does not end in ``.csv`` or ``.csv.gz``, or cannot be written.
    """
    throughputs_file = throughputs_beside(jobs_file)
    if throughputs_file is None:
        raise InputError(f"Cannot save to {jobs_file}: the name must end in .csv or .csv.gz.")
    texts = _texts_to_tell(jobs)
    told = [_TEXTS + json.dumps(texts)] if texts else []
    comments = "".join(f"# {' '.join(note.split())}\n" for note in [*told, *notes])
    text = (comments + to_csv(jobs)).encode()
    with writing(jobs_file):
        jobs_file.write_bytes(gzip.compress(text, mtime=0) if jobs_file.suffix == ".gz" else text)
        throughputs_file.write_text(to_csv(throughputs), encoding="utf-8", newline="\n")
    return jobs_file, throughputs_file
