"""What pictures of tables show: names of rows, figures, intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.bars import bars_of


def test_rows_are_called_by_the_columns_that_tell_them_apart() -> None:
    table = pd.DataFrame(
        {
            "list": ["batch", "batch", "batch"],
            "racks": [2, 2, 4],
            "scheduler": ["dally", "tiresias", "dally"],
            "mean h": [1.5, 2.0, np.nan],
            "same": [1, 1, 1],
            "verdict": ["shorter", "longer", "undecided"],
        }
    )
    found = bars_of(table)
    assert found is not None
    assert found.common == "batch"
    assert list(found.values.index) == ["racks 2, dally", "racks 2, tiresias", "racks 4, dally"]
    assert list(found.values.columns) == ["mean h"]
    assert found.values["mean h"].tolist() == pytest.approx([1.5, 2.0, np.nan], nan_ok=True)


def test_intervals_and_gaps_of_printed_tables() -> None:
    table = pd.DataFrame(
        {
            "host": ["themis", "", "pollux"],
            "way": ["a", "b", "a"],
            "gain": ["1.17 [1.02, 1.36]", "-0.5 [-1,000, .25]", "-"],
            "words": ["x", "y", "z"],
        }
    )
    found = bars_of(table)
    assert found is not None
    assert list(found.values.index) == ["themis, a", "themis, b", "pollux, a"]
    assert found.values["gain"].tolist() == pytest.approx([1.17, -0.5, np.nan], nan_ok=True)
    assert found.low["gain"].tolist() == pytest.approx([1.02, -1000, np.nan], nan_ok=True)
    assert found.high["gain"].tolist() == pytest.approx([1.36, 0.25, np.nan], nan_ok=True)


def test_a_table_of_words_has_no_picture() -> None:
    assert bars_of(pd.DataFrame({"claim": ["a", "b"], "verdict": ["holds", "open"]})) is None
