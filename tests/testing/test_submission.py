from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion as ap
from apportion.ties import order_of_submission

IDS = ["job-10", "job-2", "job-1"]


def by_parts(text: str) -> tuple[list[tuple[int, int, str]], str]:
    """Compare letters with letters and numbers with numbers, part by part, numbers first."""
    parts = [part for part in re.split(r"([0-9]+)", text) if part]
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts], text


@given(st.lists(st.text("ab-0123", max_size=6), unique=True))
def test_texts_are_compared_part_by_part(ids: list[str]) -> None:
    order = order_of_submission(pd.Index(ids, dtype=object), np.zeros(len(ids)))
    assert [ids[place] for place in order] == sorted(ids, key=by_parts)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([10, -5, -1, 2], [-5, -1, 2, 10]),
        ([2.5, 10.0, -1.0], [-1.0, 2.5, 10.0]),
        (["b", 10, 2], [2, 10, "b"]),
        (["7", "007", "x" + "9" * 5000, "x2"], ["007", "7", "x2", "x" + "9" * 5000]),
    ],
)
def test_ids_of_other_kinds(ids: list[object], expected: list[object]) -> None:
    order = order_of_submission(pd.Index(ids), np.zeros(len(ids)))
    assert [ids[place] for place in order] == expected


def test_arrivals_come_first() -> None:
    order = order_of_submission(pd.Index(["a", "b", "c"]), np.array([1.0, 0.0, 0.0]))
    assert order.tolist() == [1, 2, 0]


def test_solve_and_simulate_serve_jobs_of_one_time_alike() -> None:
    speeds = pd.DataFrame({"v100": 1.0}, index=IDS)
    shares = ap.solve("fifo", speeds, workers={"v100": 1}).X["v100"].round(6)
    assert shares.to_dict() == {"job-1": 1.0, "job-2": 0.0, "job-10": 0.0}

    columns = {"total_steps": 3600.0, "scale_factor": 1, "job_type": "own", "arrival_s": 0.0}
    index = pd.MultiIndex.from_tuples([("own", 1)], names=["job_type", "scale_factor"])
    table = pd.DataFrame({"v100": [1.0]}, index=index)
    load = ap.Workload("three", pd.DataFrame(columns, index=IDS), table)
    jct_s = ap.simulate("fifo", load, "v100=1").jobs.jct_s
    assert jct_s.sort_values().index.tolist() == ["job-1", "job-2", "job-10"]
