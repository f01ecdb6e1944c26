from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import apportion as ap
from apportion.cli import main
from apportion.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

DAY = datetime(2017, 10, 7)


def at(seconds: float) -> str:
    return str(DAY + timedelta(seconds=seconds))


def attempt(start: float | None, end: float | None, *gpus: int) -> dict[str, Any]:
    detail = [
        {"ip": f"m{n}", "gpus": [f"gpu{k}" for k in range(count)]} for n, count in enumerate(gpus)
    ]
    times = {"start_time": start, "end_time": end}
    told = {name: None if each is None else at(each) for name, each in times.items()}
    return {**told, "detail": detail}


def job(name: str, submit: float, *attempts: dict[str, Any], **others: Any) -> dict[str, Any]:
    own = {"status": "Pass", "vc": "v1", "jobid": name, "user": "u1"}
    return {**own, "submitted_time": at(submit), "attempts": list(attempts), **others}


def written(folder: Path, *jobs: Any, **how: Any) -> Path:
    file = folder / "cluster_job_log.json"
    file.write_text(json.dumps(list(jobs), **how))
    return file


def test_the_last_attempt_counts_from_the_first_submission_on(tmp_path: Path) -> None:
    jobs = (
        job("a", 100, attempt(400, 4000, 8, 4)),
        job(
            "b",
            0,
            attempt(10, 60, 64, 8),
            attempt(70, 1070, 2),
            attempt(None, None),
            status="Failed",
        ),
        job("c", 0),
        job("d", 0, attempt(10, None, 1), vc="v2"),
        job("e", 0, attempt(10, 20)),
        job("f", 0, attempt(10, 10, 1)),
        job("g", 0, attempt(10, 310, 1), user=None, vc="v2", status="Killed"),
    )
    workload = ap.read_workload(written(tmp_path, *jobs))
    table = workload.jobs
    assert workload.name == "cluster_job_log"
    assert table.index.tolist() == ["b", "g", "a"]
    assert table["scale_factor"].tolist() == [2, 1, 12]
    assert table["duration_s"].tolist() == [1000, 300, 3600]
    assert table["recorded_start_s"].tolist() == [70, 10, 400]
    assert table["recorded_end_s"].tolist() == [1070, 310, 4000]
    assert table["entity"].tolist() == ["v1", "v2", "v1"]
    assert table["user"].tolist() == ["u1", "", "u1"]
    assert table["state"].tolist() == ["Failed", "Killed", "Pass"]
    assert workload.notes[:6] == (
        "7 items read, 3 jobs",
        "left out because they never started: 1 item (3)",
        "left out because they have no end: 1 item (4)",
        "left out because their last attempt lists no GPUs: 1 item (5)",
        "left out because they never ran: 1 item (6)",
        "earlier attempts do not count (1.0 GPU-hours), from the first submission on: 1 item (2)",
    )
    passed = ap.read_workload(tmp_path / "cluster_job_log.json", states=["Pass"])
    assert passed.jobs.index.tolist() == ["a"]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (3, "it is 3; it must be an object"),
        (job("a", 0, attempt(1, 2, 1)), "jobid is 'a'; it must be an id of its own"),
        (job("b", 0, attempts=3), "attempts is 3; it must be a list of objects"),
        (job("b", 0, attempts=[3]), "attempts is [3]; it must be a list of objects"),
        (job("b", 0, attempt(1, 2, 1), status="Passed"), "status is 'Passed'; it must be one of"),
        (job("b", 9, attempt(1, 2, 1)), "start_time is '2017-10-07 00:00:01'; it must be submit"),
        (job("b", 0, attempt(3, 2, 1)), "end_time is '2017-10-07 00:00:02'; it must be start_t"),
        (job("b", 0, attempt(1, 2, 1), submitted_time="soon"), "submitted_time is 'soon'; it mus"),
        (job("b", 0, attempt(1, 2, 1), jobid=None), "jobid is blank; it must be a text"),
        (job("b", 0, {**attempt(1, 2), "detail": [{"gpus": 3}]}), "gpus is 3; it must be a list"),
        (job("b", 0, {**attempt(1, 2), "detail": "m1"}), "detail is 'm1'; it must be a list"),
        (job("b", 0, {**attempt(1, 2, 1), "start_time": [1]}), "start_time is '[1]'; it must be"),
    ],
)
def test_a_malformed_item_is_a_line_of_workload_describe(
    tmp_path: Path, bad: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, job("a", 0, attempt(1, 2, 1)), bad)
    assert main(["workload", "describe", str(file)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(f"Note: item 2 left out: {said}") for line in printed) == 1
    assert "Note: 2 items read, 1 job" in printed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"submitted_time": "x",\n "attempts": [],\n', "line 3: no JSON from here on"),
        ('[{"submitted_time": "\xff", "attempts": []}]', "holds no job that ran on a GPU"),
        ('[{"submitted_time": 1, "attempts": ' + "[" * 100_000, "cannot be read as JSON"),
        ('[1, "submitted_time", "attempts"]', "holds no job that ran on a GPU: 3 items read, 0 jo"),
        (json.dumps([job("a", 0)]), "0 jobs; left out because they never started: 1 item"),
    ],
)
def test_a_file_without_jobs_is_one_error(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "log.json"
    file.write_text(text)
    with pytest.raises(InputError, match=said) as raised:
        ap.read_workload(file)
    assert "\n" not in str(raised.value)
    file.write_text("{}")
    with pytest.raises(InputError, match="holds no list of items; it must be one of objects"):
        ap.read_workload(file, format="philly_log")


def test_clocks_are_read_as_they_stand(tmp_path: Path) -> None:
    """In the night of November 5 the clock was set back: an hour is missing, and it stays so."""
    times = {"submitted_time": "2017-11-05 00:30:00"}
    run = {"start_time": "2017-11-05 00:40:00", "end_time": "2017-11-05 03:40:00"}
    one = job("a", 0, **times, attempts=[{**run, "detail": [{"ip": "m", "gpus": ["gpu0"]}]}])
    assert ap.read_workload(written(tmp_path, one)).jobs["duration_s"].tolist() == [10_800]
