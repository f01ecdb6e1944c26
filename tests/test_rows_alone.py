"""Rows that are one job each are told from their codes; labels one by one say the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from apportion import ThroughputTensor
from apportion.problem_inputs import each_alone, rows_of_jobs

IDS = (["b", "a"], [3, 1, 2], [1.5, 0.5], ["x"], [True, False], [1, "a"], ["7", "07"])


@pytest.mark.parametrize("ids", IDS, ids=str)
def test_own_rows_are_as_from_arrays_of_ids(ids: list[object]) -> None:
    index = pd.Index(ids)
    made, plain = rows_of_jobs(index), pd.MultiIndex.from_arrays([index, index])
    assert made.tolist() == plain.tolist()
    assert made.dtypes.tolist() == plain.dtypes.tolist()
    speeds = pd.DataFrame(np.ones((len(ids), 2)), index=index, columns=["v100", "k80"])
    tensor = ThroughputTensor.of(speeds)
    assert tensor.jobs.tolist() == tensor.rows.tolist() == ids
    assert tensor.solo
    for places in tensor.member_places:
        assert places.tolist() == list(range(len(ids)))


@pytest.mark.parametrize("seed", range(40))
def test_drawn_labels_are_alone_where_they_are_one_by_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.permutation(6)[: rng.integers(1, 6)]
    jobs = rows.copy()
    change = seed % 4
    if change == 1:
        jobs = rng.permutation(jobs)
    elif change == 2:
        rows, jobs = np.append(rows, rows[0]), np.append(jobs, jobs[0])
    elif change == 3:
        jobs = jobs + rng.integers(0, 2, jobs.size)
    index = pd.MultiIndex.from_arrays([rows, jobs])[rng.permutation(rows.size)]
    one_by_one = all(row == job for row, job in index) and len(set(index)) == len(index)
    assert each_alone(index) is one_by_one


def test_labels_that_are_equal_and_not_the_same_are_not_told_from_codes() -> None:
    assert not each_alone(pd.MultiIndex.from_arrays([[1, 2], [1.0, 2.0]]))
    assert not each_alone(pd.MultiIndex.from_arrays([pd.Index([1, "a"]), pd.Index([True, "a"])]))
    assert not each_alone(pd.Index(["a"]))
    assert not each_alone(pd.MultiIndex.from_arrays([["a", None], ["a", None]]))
