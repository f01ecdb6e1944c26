from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from apportion.errors import InputError
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from pathlib import Path


def table(value: Any = 1.0) -> pd.DataFrame:
    return pd.DataFrame({"a100": [4.0, value], "h100": [9.0, 3.0]}, index=["x", "y"])


def test_a_frame_a_mapping_and_a_tensor_are_the_same() -> None:
    tensor = ThroughputTensor.of(table())
    mapping = {"x": {"a100": 4.0, "h100": 9.0}, "y": {"a100": 1.0, "h100": 3.0}}
    pd.testing.assert_frame_equal(ThroughputTensor.of(mapping).values, tensor.values)
    assert ThroughputTensor.of(tensor) is tensor
    assert list(tensor.jobs) == list(tensor.rows) == ["x", "y"]
    assert list(tensor.options) == ["a100", "h100"]


def test_the_frame_given_and_the_frame_taken_are_copies() -> None:
    given = table()
    tensor = ThroughputTensor.of(given)
    given.loc["x", "a100"] = -1.0
    taken = tensor.to_frame()
    taken.loc[:, "a100"] = -1.0
    assert tensor.values.loc[("x", "x"), "a100"] == 4.0


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "fast", None])
def test_throughputs_are_finite_numbers(value: Any) -> None:
    with pytest.raises(InputError, match=r"job 'y' on 'a100' is .*finite number of steps/s"):
        ThroughputTensor.of(table(value))


def test_ids_are_unique() -> None:
    with pytest.raises(InputError, match="Duplicate job id 'x'"):
        ThroughputTensor.of(table().set_axis(["x", "x"]))
    with pytest.raises(InputError, match="Duplicate option 'a100'"):
        ThroughputTensor.of(table().set_axis(["a100", "a100"], axis=1))


def test_a_job_that_runs_nowhere_is_refused() -> None:
    frame = table()
    frame.loc["y"] = 0.0
    with pytest.raises(InputError, match="Job 'y' runs nowhere"):
        ThroughputTensor.of(frame)


def test_a_job_may_run_in_combinations_only() -> None:
    tensor = ThroughputTensor.of_combinations(
        {("x",): [[1.0]], ("x", "y"): [[0.5], [0.7]]}, ["a100"]
    )
    assert list(tensor.rows) == ["x", "x + y"]
    assert list(tensor.jobs) == ["x", "y"]
    assert tensor.values.loc[("x + y", "y"), "a100"] == 0.7
    assert "2 jobs, 1 combinations x 1 options" in repr(tensor)


def test_combinations_have_a_row_for_each_member() -> None:
    with pytest.raises(InputError, match=r"\('x', 'y'\) has 1 rows of throughputs for 2 jobs"):
        ThroughputTensor.of_combinations({("x", "y"): [[1.0]]}, ["a100"])


def test_options_with_a_number_of_gpus() -> None:
    columns = pd.MultiIndex.from_tuples([("a100", 1), ("a100", 4)])
    tensor = ThroughputTensor.of(pd.DataFrame([[1.0, 3.0]], index=["x"], columns=columns))
    assert list(tensor.accelerator_of_option) == ["a100", "a100"]
    gpus = tensor.gpus_of_option
    assert gpus is not None
    assert gpus.tolist() == [1.0, 4.0]


@pytest.mark.parametrize("gpus", [0, 1.5, -2])
def test_options_with_a_wrong_number_of_gpus(gpus: float) -> None:
    columns = pd.MultiIndex.from_tuples([("a100", 1), ("a100", gpus)])
    tensor = ThroughputTensor.of(pd.DataFrame([[1.0, 3.0]], index=["x"], columns=columns))
    with pytest.raises(InputError, match="whole numbers >= 1"):
        _ = tensor.gpus_of_option


def test_options_with_a_tier_hold_what_the_job_holds() -> None:
    columns = pd.MultiIndex.from_tuples([("a100", "packed"), ("a100", "scattered")])
    tensor = ThroughputTensor.of(pd.DataFrame([[2.0, 1.0]], index=["x"], columns=columns))
    assert tensor.gpus_of_option is None
    assert ThroughputTensor.of(table()).gpus_of_option is None


def test_three_levels_are_too_many() -> None:
    columns = pd.MultiIndex.from_tuples([("a100", "packed", 1)])
    with pytest.raises(InputError, match="3 column levels"):
        ThroughputTensor.of(pd.DataFrame([[1.0]], index=["x"], columns=columns))


def test_parquet_has_a_line_for_each_member_and_option(tmp_path: Path) -> None:
    tensor = ThroughputTensor.of(table())
    tensor.to_parquet(tmp_path / "tensor.parquet")
    long = pd.read_parquet(tmp_path / "tensor.parquet")
    assert list(long.columns) == ["row", "job", "option_0", "steps_per_s"]
    back = long.pivot_table(index="job", columns="option_0", values="steps_per_s")
    np.testing.assert_array_equal(back.loc[["x", "y"], ["a100", "h100"]], table())


def test_a_combination_without_one_of_its_members_is_named() -> None:
    rows = pd.MultiIndex.from_tuples([("a", "a"), ("b", "b"), ("a + b", "a")])
    with pytest.raises(InputError, match="'a \\+ b' has no throughputs for its member 'b'"):
        ThroughputTensor(pd.DataFrame({"v100": [1.0, 1.0, 0.5]}, index=rows))
