"""Throughput tables: Gavel's oracle, a csv of your own, or a DataFrame."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import LONGEST_LABEL, is_number, is_whole, number
from apportion.errors import InputError, written
from apportion.pairs import PairThroughputs
from apportion.sim.traces.table import parse_table
from apportion.sim.workload_tables import THROUGHPUT_KEYS, checked_throughputs
from apportion.syntax import PARSING
from apportion.text_files import read_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.text_files import TextFile

_SPREAD_OUT = "_unconsolidated"
_ALONE = "null"


def read_oracle(path: str | Path, *, unconsolidated: bool = False) -> pd.DataFrame:
    """Read the isolated throughputs of a Gavel oracle.

    Parameters
    ----------
    path
        Json file, plain or gzipped: ``{accelerator: {"('<job type>', <scale factor>)": {"null":
        steps/s alone, ...}}}``. Entries for pairs of jobs that share GPUs are left out.
    unconsolidated
        Keep the columns ``<accelerator>_unconsolidated`` too: speeds of gangs whose GPUs sit in
        different machines.

    Returns
    -------
    DataFrame
        Steps/s of the whole gang, rows (job_type, scale_factor), one column per accelerator; 0
        where the job cannot run or was not measured.

    Raises
    ------
    InputError
        If the file cannot be read or is not an oracle.
    """
    return _oracle(read_text(path), unconsolidated)


def read_split_oracle(path: str | Path) -> pd.DataFrame:
    """Read the throughputs of gangs whose GPUs sit in different machines from a Gavel oracle.

    Returns
    -------
    DataFrame
        As `read_oracle` does; 0 where that was not measured. No columns if none was.
    """
    table = read_oracle(path, unconsolidated=True)
    spread = [name for name in table.columns if name.endswith(_SPREAD_OUT)]
    return table[spread].rename(columns=lambda name: str(name).removesuffix(_SPREAD_OUT))


def is_oracle(path: str | Path) -> bool:
    """Tell by its name whether a file of throughputs is an oracle (json) rather than a csv."""
    return Path(path).name.endswith((".json", ".json.gz"))


def read_pair_oracle(path: str | Path, *, unconsolidated: bool = False) -> PairThroughputs:
    """Read the throughputs of job types that share GPUs, and alone, from a Gavel oracle.

    Parameters
    ----------
    path
        Json file, plain or gzipped, as for `read_oracle`; under each key, every other key of the
        file may hold ``[own steps/s, steps/s of the other]``. Pairs that are left out cannot share.
    unconsolidated
        Keep the columns ``<accelerator>_unconsolidated`` too.

    Raises
    ------
    InputError
        If the file cannot be read, is not an oracle, or holds a pair that is not two numbers or
        names a key that the oracle lacks.
    """
    file = read_text(path)
    alone = _oracle(file, unconsolidated)
    own = np.full((len(alone), len(alone), len(alone.columns)), np.nan)
    content = file.json()
    positions = {key: row for row, key in enumerate(alone.index.tolist())}
    for column, accelerator in enumerate(alone.columns):
        for text, entry in content[accelerator].items():
            row = positions[_key(file.path, text)]
            for other, pair in entry.items():
                if other == _ALONE:
                    continue
                partner = positions.get(_key(file.path, other))
                where = f"{file.path}: {accelerator!r}, {text!r} beside {other!r}"
                if partner is None:
                    raise InputError(f"{where}: the partner has no entry of its own.")
                _put_pair(own[:, :, column], row, partner, pair, where)
    index = pd.MultiIndex.from_tuples(alone.index.tolist(), names=THROUGHPUT_KEYS)
    return PairThroughputs(
        np.nan_to_num(own), alone.to_numpy(), index, tuple(alone.columns.astype(str))
    )


def read_throughputs(source: pd.DataFrame | str | Path) -> pd.DataFrame:
    """Take throughputs from a DataFrame, a Gavel oracle (json), or a csv.

    Parameters
    ----------
    source
        The csv has columns job_type and scale_factor, and one of steps/s per accelerator type.

    Raises
    ------
    InputError
        If a file cannot be read, or the values are out of range.
    """
    if isinstance(source, pd.DataFrame):
        return checked_throughputs(source)
    file = read_text(source)
    if file.body.lstrip().startswith(b"{"):
        return _oracle(file, unconsolidated=False)
    table = parse_table(file)
    index = [
        table.texts("job_type"),
        table.numbers("scale_factor", "a whole number >= 1", least=1, whole=True),
    ]
    speeds = {
        name: table.numbers(name, "a number >= 0 (steps/s)")
        for name in table.rows.columns
        if name not in THROUGHPUT_KEYS
    }
    if not speeds:
        raise InputError(
            f"{file.path} has no accelerators: beside job_type and scale_factor it needs a column "
            f"of steps/s for each."
        )
    return checked_throughputs(pd.DataFrame(speeds).set_index(index))


def _oracle(file: TextFile, unconsolidated: bool) -> pd.DataFrame:
    """Isolated throughputs out of the content of an oracle."""
    content = file.json()
    columns: dict[str, dict[tuple[str, int], float]] = {}
    for accelerator, entries in content.items() if isinstance(content, dict) else ():
        if unconsolidated or not accelerator.endswith(_SPREAD_OUT):
            columns[accelerator] = _column(file.path, accelerator, entries)
    keys = {key: None for column in columns.values() for key in column}
    if not keys:
        raise InputError(f"{file.path} holds no throughputs by accelerator and job type.")
    index = pd.MultiIndex.from_tuples(keys, names=THROUGHPUT_KEYS)
    rows = {name: [column.get(key, 0.0) for key in keys] for name, column in columns.items()}
    return checked_throughputs(pd.DataFrame(rows, index=index))


def _column(path: Path, accelerator: str, entries: Any) -> dict[tuple[str, int], float]:
    """Isolated throughputs on one accelerator."""
    if not isinstance(entries, dict):
        raise InputError(f"{path}: {accelerator!r} must hold throughputs by job type.")
    column = {}
    for text, entry in entries.items():
        alone = entry.get(_ALONE) if isinstance(entry, dict) else None
        if not is_number(alone):
            raise InputError(
                f"{path}: {accelerator!r}, {text!r} has no number under {_ALONE!r} (steps/s alone)."
            )
        where = f"{path}: {accelerator!r}, {text!r}, {_ALONE!r}"
        column[_key(path, text)] = number(where, alone, words="a finite number")
    return column


def _put_pair(own: NDArray[np.float64], row: int, partner: int, pair: Any, where: str) -> None:
    """Enter both numbers of a pair; the partner's own entry goes before what others say of it."""
    match pair:
        case [mine, other] if is_number(mine) and is_number(other):
            own[row, partner] = number(where, mine)
            if np.isnan(own[partner, row]):
                own[partner, row] = number(where, other)
        case _:
            raise InputError(
                f"{where}: {written(pair)} must be two numbers, [own, other] in steps/s."
            )


def _key(path: Path, text: str) -> tuple[str, int]:
    """Read ``"('LM (batch size 5)', 2)"``; a bare job type stands for one GPU."""
    if not text.startswith("("):
        return text, 1
    try:
        with PARSING:
            key = ast.literal_eval(text) if len(text) <= 2 * LONGEST_LABEL else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        key = None
    match key:
        case (str(job_type), int(gpus)) if is_whole(gpus):
            return job_type, gpus
    raise InputError(
        f"{path}: cannot read the key {written(text)}; expected \"('<job type>', <GPUs>)\"."
    )
