from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from apportion.errors import InputError
from apportion.sim.traces import read_workload
from apportion.sim.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]


@pytest.fixture
def speeds(write: Write) -> Path:
    return write("speeds.csv", "job_type,scale_factor,a100,t4", "lm,1,9,3", "lm,2,16,5")


def test_a_table_of_ones_own(write: Write, speeds: Path) -> None:
    trace = write(
        "mine.csv",
        "# measured in May",
        "total_steps,job,arrival_s,job_type,scale_factor,deadline_s,entity",
        "100,b,60,lm,2,,team 1",
        "50,a,5,lm,1,3600,team 2",
    )
    workload = read_workload(trace, throughputs=speeds)
    jobs = workload.jobs
    assert jobs.index.tolist() == ["a", "b"]
    assert jobs["arrival_s"].tolist() == [5.0, 60.0]
    assert jobs["entity"].tolist() == ["team 2", "team 1"]
    np.testing.assert_array_equal(jobs["deadline_s"], [3600.0, np.nan])
    assert workload.notes == ("measured in May",)
    assert workload.name == "mine"


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        ("job_type,total_step", "lm,1", r"no column 'total_steps'. The nearest is 'total_step'"),
        ("job_type,total_steps,wieght", "lm,1,2", r"'wieght'. Did you mean 'weight'"),
        ("job_type,total_steps,weight", "lm,1,0", r"line 2: weight is '0'.*> 0 \(priority"),
        ("job_type,total_steps", "lm,", "line 2: total_steps is blank"),
        ("job_type,total_steps", "ln,1", r"line 2: .*job 0 .*'ln'. Did you mean 'lm'"),
    ],
)
def test_what_is_wrong_is_named(
    write: Write, speeds: Path, header: str, row: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_workload(write("mine.csv", header, row), throughputs=speeds)


OWN = {
    "project": ["7", "42", "7"],
    "code": ["007", "042", "100"],
    "answer": ["True", "False", "True"],
    "blank": ["", "", ""],
    "half": ["", "3", "4"],
    "tenths": ["1.5", "inf", "nan"],
    "power_w": [1.0, np.nan, 3.0],
    "urgent": [True, False, True],
    'say "x, y"': ["1", "2", "3"],
    "plain": ["red", "7", "blue"],
}


@pytest.mark.parametrize("ids", [["1", "2", "3"], [1, 2, 3], ["a", "2", "3"]])
def test_what_columns_hold_survives_a_file(ids: list[object], tmp_path: Path) -> None:
    index = pd.Index(ids, name="job")
    facts = {"job_type": "A3C", "total_steps": 5.0, "scale_factor": 1, **OWN}
    speeds = speeds_of_one()
    mine = Workload("mine", pd.DataFrame(facts, index=index), speeds, notes=("texts: mine",))
    back = read_workload(mine.save(tmp_path / "mine.csv")[0])
    assert back.jobs.index.tolist() == ids
    for name, values in OWN.items():
        np.testing.assert_array_equal(back.jobs[name].to_numpy(), values, err_msg=name)
    assert back.notes == ("texts: mine",)
    again = back.save(tmp_path / "again.csv")[0]
    assert again.read_bytes() == (tmp_path / "mine.csv").read_bytes()


def speeds_of_one() -> pd.DataFrame:
    rows = pd.MultiIndex.from_tuples([("A3C", 1)], names=["job_type", "scale_factor"])
    return pd.DataFrame({"k80": [2.0]}, index=rows)


def test_columns_that_look_like_numbers_are_texts_if_told(write: Write) -> None:
    rows = ("job,job_type,total_steps,team,floor", "1,A3C,5,12,3", "2,A3C,7,13,4")
    plain = read_workload(write("plain.csv", *rows)).jobs
    assert plain["team"].tolist() == [12.0, 13.0]
    told = read_workload(write("told.csv", '# texts: ["team", "job"]', *rows)).jobs
    assert told["team"].tolist() == ["12", "13"]
    assert told["floor"].tolist() == [3.0, 4.0]
    assert told.index.tolist() == ["1", "2"]
    with pytest.raises(InputError, match=r"# texts of .*: 'taem'. Did you mean 'team'"):
        read_workload(write("wrong.csv", '# texts: ["taem"]', *rows))
