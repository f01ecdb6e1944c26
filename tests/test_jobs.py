from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from apportion.errors import InputError
from apportion.jobs import JOB_COLUMNS, check_jobs


def jobs(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns, index=["x", "y"])


def test_types_are_fixed() -> None:
    checked = check_jobs(jobs(weight=["1", 2], scale_factor=[2.0, 4], entity=[1, "b"]))
    assert checked["weight"].tolist() == [1.0, 2.0]
    assert checked["scale_factor"].dtype == np.int64
    assert checked["entity"].tolist() == ["1", "b"]


def test_the_table_given_is_left_alone() -> None:
    given = jobs(weight=[1, 2])
    check_jobs(given)
    assert given["weight"].dtype == np.int64


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "heavy", None])
def test_weights_are_positive(value: Any) -> None:
    with pytest.raises(InputError, match=r"Job 'y' has weight = .*finite number > 0") as refused:
        check_jobs(jobs(weight=[1.0, value]))
    assert "priority weight" in str(refused.value)


@pytest.mark.parametrize("value", [0, 1.5, -2, np.nan])
def test_gangs_are_whole_numbers(value: float) -> None:
    with pytest.raises(InputError, match=r"Job 'x' has scale_factor = .*whole number >= 1"):
        check_jobs(jobs(scale_factor=[value, 1]))


def test_only_optional_columns_may_have_gaps() -> None:
    assert check_jobs(jobs(deadline_s=[np.nan, 5.0]))["deadline_s"].isna().tolist() == [True, False]
    with pytest.raises(InputError, match="Job 'x' has deadline_s"):
        check_jobs(jobs(deadline_s=["soon", 5.0]))
    with pytest.raises(InputError, match="Job 'x' has arrival_s"):
        check_jobs(jobs(arrival_s=[np.nan, 5.0]))


def test_unknown_columns_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match="Did you mean 'scale_factor'"):
        check_jobs(jobs(scale_facter=[1, 1]))


def test_missing_columns_are_named_with_their_meaning() -> None:
    with pytest.raises(InputError, match=r"no column 'steps_remaining' \(training steps still"):
        check_jobs(jobs(), required=["steps_remaining"])


def test_duplicate_ids_are_refused() -> None:
    with pytest.raises(InputError, match="Duplicate job id 7:"):
        check_jobs(pd.DataFrame({"weight": [1.0, 1, 1]}, index=[7, 8, 7]))


def test_other_types_are_refused() -> None:
    with pytest.raises(InputError, match="not dict"):
        check_jobs({"weight": [1.0]})  # type: ignore[arg-type]


def test_a_table_without_jobs_is_a_table() -> None:
    assert check_jobs(pd.DataFrame({"weight": []})).shape == (0, 1)


@pytest.mark.parametrize("name", list(JOB_COLUMNS))
def test_every_column_says_what_it_means(name: str) -> None:
    column = JOB_COLUMNS[name]
    assert column.meaning
    assert column.valid
    assert not name.endswith("_s") or column.kind == "number"


def test_labels_of_options_are_no_numbers() -> None:
    table = pd.DataFrame({"weight": [1.0, 2.0], "current_option": [("a100", 2), None]})
    pd.testing.assert_frame_equal(check_jobs(table), table)
