"""Tables in text: cells stay text until a reader asks for a column, lines keep their numbers."""

from __future__ import annotations

import csv
import difflib
import io
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.checks import LARGEST_COUNT, LARGEST_NUMBER, LONGEST_LABEL, at_most
from apportion.errors import InputError, written
from apportion.table_checks import as_floats
from apportion.text_files import read_text
from apportion.whole_files import WHOLE, restored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from apportion.text_files import TextFile

SEPARATORS = (",", ";", "\t", "|")
"""What may stand between the cells of a table of users; the first line has most of it."""

_LONGEST_HEAD = 100_000
"""Most characters of a first line: each cell of it becomes a column."""

_LINES_SHOWN = 10
"""Numbers of lines in a note."""

_DECIMAL_COMMA = r"-?\d+,\d+"

_LABEL_WORDS = f"a text of 1 to {LONGEST_LABEL:,} characters"


@dataclass(frozen=True)
class TraceTable:
    """Rows of a text table, indexed by their line in the file; blank cells are NaN.

    Attributes
    ----------
    file, rows
        The file, and its cells as texts.
    refused
        Takes down what is wrong with lines, by line, for a reader that leaves these out; ``None``:
        the first wrong line is an error.
    """

    file: TextFile
    rows: pd.DataFrame
    refused: dict[int, str] | None = None

    def where(self, keep: pd.Series) -> TraceTable:
        """Return the rows for which `keep` is true."""
        return replace(self, rows=self.rows[keep])

    def texts(self, column: str, *, optional: bool = False) -> pd.Series:
        """Return a column of texts; blank cells are refused unless `optional`, then ''."""
        cells = self._cells(column)
        if optional:
            return restored(cells.fillna("").astype(str))
        self.refuse(cells, cells.isna() | cells.str.len().gt(LONGEST_LABEL), _LABEL_WORDS)
        return restored(cells.astype(str))

    def numbers(
        self,
        column: str,
        valid: str = "a number >= 0",
        *,
        least: float = 0.0,
        most: float = LARGEST_NUMBER,
        strict: bool = False,
        whole: bool = False,
        optional: bool = False,
    ) -> pd.Series:
        """Return a column of numbers.

        Parameters
        ----------
        column
            Name of the column.
        valid
            The range in words, for the error.
        least, most, strict
            The range; the smallest value itself is refused if `strict`.
        whole
            Refuse fractions and what is larger than `LARGEST_COUNT`; the result is of integers.
        optional
            Let blank cells and 'nan' stand, as NaN.

        Raises
        ------
        InputError
            Naming the first line whose cell is out of range.
        """
        cells = self._cells(column)
        numbers = _floats(cells)
        out_of_range = numbers.le(least) if strict else numbers.lt(least)
        most = min(most, LARGEST_COUNT) if whole else most
        wrong = out_of_range | numbers.isna() | numbers.gt(most)
        if whole:
            wrong |= numbers % 1 != 0
        if optional:
            wrong &= ~(cells.isna() | cells.isin(["nan", "NaN"]))
        if wrong.any():
            if cells[wrong].iloc[:1].str.fullmatch(_DECIMAL_COMMA).any():
                valid += ", with a point before its fraction"
            valid += at_most(float(numbers[wrong].iloc[0]), most)
        self.refuse(cells, wrong, valid)
        return numbers.mask(wrong, least).astype(np.int64) if whole else numbers

    def ids(self, column: str) -> pd.Series:
        """Return a column of ids, none twice; as integers if every one is written as an integer."""
        cells = self.unique(column)
        whole = cells.str.fullmatch(WHOLE).all()
        return cells.astype(np.int64) if whole else cells

    def times(self, column: str, unknown: Sequence[str] | None = None) -> pd.Series:
        """Return a column of date-times as seconds since 1970; a missing zone means UTC.

        Texts in `unknown` and, if that is given, blank cells are NaN.
        """
        cells = self._cells(column)
        years = cells.where(cells.str.match(r"\d{4}").fillna(False).astype(bool))  # no -1
        times = pd.to_datetime(years, format="ISO8601", errors="coerce", utc=True)
        wrong = times.isna()
        if unknown is not None:
            wrong &= ~(cells.isna() | cells.isin(unknown))
        self.refuse(cells, wrong, "a date-time such as 2017-10-03 13:45:00")
        times = times.dt.as_unit("us")
        return (times - pd.Timestamp(0, unit="us", tz="UTC")).dt.total_seconds()

    def unique(self, column: str) -> pd.Series:
        """Return a column of texts in which none stands twice, e.g. of job ids."""
        cells = self.texts(column)
        twice = cells.duplicated()
        if twice.any():
            value = cells[twice].iloc[0]
            first, second = cells.index[cells == value][:2]
            raise InputError(
                f"{self.file.path}, lines {first} and {second}: both have the {column} {value!r}; "
                f"it must be unique."
            )
        return cells

    def _cells(self, column: str) -> pd.Series:
        if column not in self.rows.columns:
            raise missing_column(self.file, column, self.rows.columns)
        return self.rows[column]

    def refuse(self, cells: pd.Series, wrong: pd.Series, valid: str) -> None:
        """Refuse the lines of a column for which `wrong` is true; `valid` is what may stand there.

        Raises
        ------
        InputError
            For the first of them, unless `refused` takes them down.
        """
        for line, cell in cells[wrong].items():
            shown = "blank" if pd.isna(cell) else written(cell)
            text = f"{cells.name} is {shown}; it must be {valid}."
            if self.refused is None:
                raise InputError(f"{self.file.path}, line {line}: {text}")
            self.refused.setdefault(int(str(line)), text)


def lines_told(lines: Iterable[int], unit: str = "line") -> str:
    """Count lines, and name the first ones."""
    every = list(lines)
    shown = ", ".join(map(str, every[:_LINES_SHOWN]))
    more = ", ..." * (len(every) > _LINES_SHOWN)
    return f"{counted(len(every), unit)} ({shown}{more})"


def counted(count: int, what: str) -> str:
    """Write how many there are of what."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def missing_column(file: TextFile, column: str, present: Iterable[str]) -> InputError:
    """Build the error for a column that a file does not have, with the nearest one it has."""
    names = list(present)
    close = difflib.get_close_matches(column, names, n=1, cutoff=0.4)
    hint = f" The nearest is {close[0]!r}." if close else ""
    has = written(", ".join(names)).strip("'\"")
    return InputError(f"{file.path} has no column {column!r}.{hint} It has: {has}.")


def users_table(path: str | Path) -> TraceTable:
    """Parse a table of a user, between whose cells may stand any of `SEPARATORS`.

    Raises
    ------
    InputError
        As `parse_table`, and for a file that cannot be read.
    """
    file = read_text(path)
    return parse_table(file, separator=separator_of(file))


def separator_of(file: TextFile) -> str:
    """Return what stands between the cells of the first line."""
    return max(SEPARATORS, key=file.head.count)


def parse_table(
    file: TextFile, *, separator: str = ",", names: Sequence[str] | None = None
) -> TraceTable:
    """Parse a table; its first line holds the column names unless `names` are given.

    Raises
    ------
    InputError
        If a line has too many fields, if a column name stands twice, or if there are no rows.
    """
    rows = _parse(file, separator)
    rows.index += file.first_line
    if names is None:
        names = ["" if pd.isna(name) else str(name).strip() for name in rows.iloc[0]]
        rows = rows.iloc[1:]
    rows = rows.set_axis(head_of(file, names), axis=1).dropna(how="all")
    if rows.empty:
        raise InputError(f"{file.path} has no rows below its column names.")
    return TraceTable(file, rows)


def head_of(file: TextFile, names: Sequence[str]) -> list[str]:
    """Return the names of the columns of a file.

    Raises
    ------
    InputError
        If one stands twice.
    """
    columns = pd.Index(names)
    if not columns.is_unique:
        twice = columns[columns.duplicated()].tolist()[0]
        raise InputError(f"{file.path} has the column {written(twice)} twice.")
    return list(names)


def _parse(file: TextFile, separator: str) -> pd.DataFrame:
    check_head(file)
    text = io.StringIO(file.text())
    try:
        return pd.read_csv(
            text,
            sep=separator,
            header=None,
            dtype=str,
            keep_default_na=False,
            na_values=[""],
            skip_blank_lines=False,
            skipinitialspace=True,
            quoting=csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL,
        )
    except pd.errors.EmptyDataError as error:
        raise InputError(f"{file.path} holds no table.") from error
    except pd.errors.ParserError as error:
        opened = re.search(r"EOF inside string starting at row (\d+)", str(error))
        if opened is not None:
            raise InputError(
                f"{file.path}, line {int(opened[1]) + file.first_line}: a quotation mark opens a "
                f"cell and none closes it."
            ) from error
        found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if found is None:
            raise InputError(f"Cannot read {file.path} as a table: {error}.") from error
        expected, line, seen = (int(number) for number in found.groups())
        raise InputError(
            f"{file.path}, line {line + file.first_line - 1}: {seen} fields; expected {expected}, "
            f"as in line {file.first_line}."
        ) from error


def check_head(file: TextFile) -> None:
    """Refuse a first line that is too long to be one of column names."""
    if len(file.head) > _LONGEST_HEAD:
        raise InputError(
            f"{file.path}, line {file.first_line}: {len(file.head):,} characters; the first line "
            f"of a table has no more than {_LONGEST_HEAD:,}."
        )


def _floats(cells: pd.Series) -> pd.Series:
    """Convert text to floats exactly; NaN where it is no number."""
    return pd.Series(as_floats(cells), index=cells.index, name=cells.name)
