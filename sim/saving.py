"""A workload as two csv files: the jobs, and next to them the throughputs."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from apportion.csv_cells import to_csv
from apportion.errors import InputError
from apportion.whole_files import writing

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pandas as pd

__all__ = ["save_tables", "throughputs_beside"]

_ENDINGS = (".csv", ".csv.gz")


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
    comments = "".join(f"# {' '.join(note.split())}\n" for note in notes)
    text = (comments + to_csv(jobs)).encode()
    with writing(jobs_file):
        jobs_file.write_bytes(gzip.compress(text, mtime=0) if jobs_file.suffix == ".gz" else text)
        throughputs_file.write_text(to_csv(throughputs), encoding="utf-8", newline="\n")
    return jobs_file, throughputs_file
