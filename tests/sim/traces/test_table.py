from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InputError
from apportion.sim.traces.table import TraceTable, parse_table
from apportion.text_files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]


def parsed(write: Write, *lines: str) -> TraceTable:
    return parse_table(read_text(write("t.csv", *lines)))


def test_lines_keep_their_numbers_over_blank_lines(write: Write) -> None:
    table = parsed(write, "a,b", "1,x", "", "2, y")
    assert table.numbers("a", whole=True).to_dict() == {2: 1, 4: 2}
    assert table.texts("b").to_dict() == {2: "x", 4: "y"}


@pytest.mark.parametrize(
    ("cell", "shown"),
    [("", "blank"), ("x", "'x'"), ("-1", "'-1'"), ("nan", "'nan'"), ("inf", "inf")],
)
def test_the_line_of_a_bad_number_is_named(write: Write, cell: str, shown: str) -> None:
    table = parsed(write, "# note", "a,b", "1,0", f"{cell},0")
    with pytest.raises(InputError, match=rf"t\.csv, line 4: a is .*{shown}.*; it must be a number"):
        table.numbers("a")


def test_ranges_and_blanks(write: Write) -> None:
    table = parsed(write, "a,b", "1.5,", "0,nan")
    with pytest.raises(InputError, match=r"line 2: a is '1.5'; it must be whole"):
        table.numbers("a", "whole", whole=True)
    with pytest.raises(InputError, match="line 3: a is '0'"):
        table.numbers("a", strict=True)
    assert table.numbers("b", optional=True).isna().all()
    with pytest.raises(InputError, match="line 2: b is blank; it must be a text"):
        table.texts("b")
    assert table.texts("b", optional=True).tolist() == ["", "nan"]


def test_date_times_become_seconds(write: Write) -> None:
    table = parsed(
        write,
        "t,u",
        "2017-10-03 00:00:00,3",
        "2017-10-03T00:01:00.5Z,4",
        "2017-10-02 23:00:00-01:00,5",
    )
    seconds = table.times("t")
    assert (seconds - seconds.iloc[0]).tolist() == [0.0, 60.5, 0.0]
    assert seconds.iloc[0] == pd.Timestamp("2017-10-03").timestamp()
    with pytest.raises(InputError, match="line 3: u is '4'; it must be a date-time"):
        parsed(write, "u", "2017-10-03", "4").times("u")


def test_unique_names_both_lines(write: Write) -> None:
    with pytest.raises(InputError, match=r"t\.csv, lines 3 and 5: both have the a 'y'"):
        parsed(write, "a", "x", "y", "z", "y").unique("a")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b", "1,2", "1,2,3"], r"t\.csv, line 3: 3 fields; expected 2, as in line 1"),
        (["a,a", "1,2"], r"t\.csv has the column 'a' twice"),
        (["a,b"], r"t\.csv has no rows"),
        (["a,b", '"1,2'], r"t\.csv, line 2: a quotation mark"),
    ],
)
def test_malformed_tables_are_refused(write: Write, lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parsed(write, *lines)


def test_missing_column_names_the_nearest(write: Write) -> None:
    with pytest.raises(InputError, match=r"no column 'num_gpu'. The nearest is 'num_gpus'"):
        parsed(write, "num_gpus,b", "1,2").numbers("num_gpu")


def test_binary_content_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(InputError, match="not text in UTF-8"):
        parse_table(read_text(path))


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=20))
def test_numbers_are_read_exactly(values: list[float]) -> None:
    rows = pd.DataFrame({"a": [repr(value) for value in values]})
    file = read_text(__file__)
    np.testing.assert_array_equal(TraceTable(file, rows).numbers("a", most=1e308), values)
