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


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=20))
def test_numbers_are_read_exactly(values: list[float]) -> None:
    rows = pd.DataFrame({"a": [repr(value) for value in values]})
    file = read_text(__file__)
    np.testing.assert_array_equal(TraceTable(file, rows).numbers("a", most=1e308), values)
