"""Logs with something wrong in them, drawn: one line of message each, and no line is lost."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.cli.entry import main
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Rng = np.random.Generator

JUNK = (
    *("", "x", "-5", "1e400", "nan", "Unknown", "9" * 40, "2026-13-01T00:00:00", "0", "-1", "a|b"),
    *("gres/gpu:a100=-1", "gres/gpu:a100=", "\N{REPLACEMENT CHARACTER}", "1-2-3", "=1+1", '"', ","),
    *("2026-10-05T08:00:00", "9999-12-31T23:59:59", "COMPLETED", "3.7", "  ", "1_[2-9]", "7.batch"),
)
COLUMNS = "id=job,came=arrival_s,took_min=duration_s,gpus=scale_factor,begun=recorded_start_s"


def sacct(rng: Rng) -> list[list[str]]:
    times = ["Submit", "Start", "End", "Elapsed", "Timelimit"]
    rows = [["JobID", "User", "State", *times, "AllocTRES"]]
    for job in range(25):
        minute = sorted(rng.integers(0, 60, 3).tolist())
        times = [f"2026-10-05T{hour:02}:{each:02}:00" for hour, each in enumerate(minute)]
        took = f"0{(60 + minute[2] - minute[1]) // 60}:{(minute[2] - minute[1]) % 60:02}:00"
        state = rng.choice(["COMPLETED", "FAILED", "CANCELLED by 7", "TIMEOUT"])
        rows.append(
            [str(job), "ana", str(state), *times, took, "UNLIMITED", "cpu=1,gres/gpu:a100=2"]
        )
        if job % 4 == 0:
            rows.append([f"{job}.batch", "", str(state), *times, took, "", "cpu=1"])
    return rows


def swf(rng: Rng) -> list[list[str]]:
    numbers = rng.integers(1, 900, (25, 3)).tolist()
    return [
        [
            *map(str, (job, 40 * job, wait, run, 1 + gpus % 8)),
            *["-1", "-1", "4", "600", "-1", "1", "3", "1", "-1", "1", "1", "-1", "-1"],
        ]
        for job, (wait, run, gpus) in enumerate(numbers)
    ]


def own(rng: Rng) -> list[list[str]]:
    numbers = rng.integers(1, 900, (25, 2)).tolist()
    rows = [
        [
            str(job),
            f"2026-10-05T08:{job:02}:00Z",
            str(run),
            str(1 + gpus % 8),
            f"2026-10-05T09:{job:02}:00Z",
        ]
        for job, (run, gpus) in enumerate(numbers)
    ]
    return [["id", "came", "took_min", "gpus", "begun"], *rows]


def spoil(rows: list[list[str]], separator: str, rng: Rng) -> bytes:
    """Do one to four wrong things to cells, lines or the whole text."""
    rows = [list(row) for row in rows]
    for _ in range(rng.integers(1, 5)):
        row = int(rng.integers(0 if rng.random() < 0.1 else 1, len(rows)))
        cell = int(rng.integers(len(rows[row])))
        what = rng.integers(5)
        if what <= 1:
            rows[row][cell] = str(rng.choice(JUNK))
        elif what == 2 and len(rows[row]) > 1:
            del rows[row][cell]
        elif what == 3:
            rows.insert(row, list(rows[row]))
        else:
            rows[row][cell], rows[row][0] = rows[row][0], rows[row][cell]
    text = "\n".join(separator.join(row) for row in rows).encode() + b"\n"
    end = rng.integers(6)
    if end == 0:
        return text[: int(rng.integers(len(text)))]
    if end == 1:
        at = int(rng.integers(len(text)))
        return text[:at] + bytes(rng.integers(128, 256, 3).astype(np.uint8)) + text[at:]
    return text.replace(b"\n", b"\r\n") if end == 2 else text


def read_or_told(file: Path, columns: str | None, name: str | None = None) -> ap.Workload | str:
    """Return the workload, or why it cannot be read."""
    try:
        return ap.read_workload(file, columns=columns, format=name)
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("seed", each_seed(6, 20))
@pytest.mark.parametrize("make", [sacct, swf, own])
def test_a_malformed_log_is_told_in_lines_and_nothing_is_lost(
    make: Callable[[Rng], list[list[str]]], seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng([seed, len(make.__name__)])
    separator = {"sacct": "|", "swf": " ", "own": ","}[make.__name__]
    text, file = spoil(make(rng), separator, rng), tmp_path / "log.txt"
    file.write_bytes(text)
    workload = read_or_told(file, COLUMNS if make is own else None)
    if isinstance(workload, str):
        assert re.fullmatch(r".*log\.txt.*", workload)
        return
    lines = [line for line in text.decode(errors="replace").split("\n") if line.strip()]
    read = re.fullmatch(r"(\d+) lines? read, (\d+) jobs?", workload.notes[0])
    assert read
    assert int(read[1]) == len(lines) - (make is not swf)
    assert int(read[2]) == len(workload)
    counted = [re.search(r"left out because\b.*: (\d+) lines? \(", each) for each in workload.notes]
    alone = [note for note in workload.notes if re.match(r"line \d+ left out: ", note)]
    left_out = sum(int(each[1]) for each in counted if each) + len(alone)
    assert left_out == int(read[1]) - int(read[2]), workload.notes
    assert not any("\n" in note for note in workload.notes)


def test_lines_malformed_for_one_reason_are_one_note_of_workload_describe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = sacct(np.random.default_rng(0))
    jobs = [line for line, row in enumerate(rows) if line and "." not in row[0]][:24]
    for line in jobs:  # steps are left out, whatever they say
        rows[line][3] = "soon"
    file = tmp_path / "sacct.txt"
    file.write_text("\n".join("|".join(row) for row in rows) + "\n", encoding="utf-8")
    assert main(["workload", "describe", str(file)]) == 0
    printed = capsys.readouterr().out.splitlines()
    told = [line for line in printed if "Submit is 'soon'" in line]
    first = ", ".join(str(line + 1) for line in jobs[:10])
    assert len(told) == 1
    assert told[0].startswith(f"Note: left out because, as in line {jobs[0] + 1}, Submit is 'soon'")
    assert told[0].endswith(f": 24 lines ({first}, ...)")


def philly(number: int) -> dict[str, Any]:
    """Return a job of Philly's log in JSON."""
    times = {"start_time": f"2017-10-07 0{number}:03:50", "end_time": "2017-10-07 21:00:00"}
    detail = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]
    own = {"jobid": f"j{number}", "vc": "v", "user": "u", "status": "Pass"}
    submitted = {"submitted_time": "2017-10-07 00:00:00"}
    return {**own, **submitted, "attempts": [{**times, "detail": detail}]}


def kueue(number: int) -> dict[str, Any]:
    """Return a workload of Kueue."""
    conditions = [
        {"type": name, "status": "True", "lastTransitionTime": f"2025-10-0{day}T01:00:00Z"}
        for name, day in (("Admitted", 2 + number), ("Finished", 9))
    ]
    asked = {"resources": {"requests": {"nvidia.com/gpu": "2"}}}
    pods = {"name": "w", "count": 2, "template": {"spec": {"containers": [asked]}}}
    given = {"clusterQueue": "c", "podSetAssignments": [{"name": "w", "flavors": {"a/gpu": "t4"}}]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "metadata": {"name": f"w{number}", "creationTimestamp": "2025-10-01T00:00:00Z"},
        "spec": {"queueName": "q", "podSets": [pods]},
        "status": {"conditions": conditions, "admission": given},
    }


_WRONG: tuple[Any, ...] = (
    None,
    "",
    "x",
    "\ud800",
    -1,
    1.5,
    True,
    10**30,
    math.nan,
    [],
    {},
    [[]],
    [{}],
    {"a": 1},
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place within a value of JSON, as its container and its key."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    own = [(value, key) for key in keys]
    inner = [value[key] for key in keys if isinstance(value[key], dict | list)]
    return own + [each for one in inner for each in places(one)]


@pytest.mark.parametrize("seed", each_seed(6, 100))
@pytest.mark.parametrize("make", [philly, kueue])
def test_json_with_anything_anywhere_is_told_by_item_and_nothing_is_lost(
    make: Callable[[int], dict[str, Any]], seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng([seed, len(make.__name__)])
    items: list[Any] = [make(number) for number in range(5)]
    for _ in range(rng.integers(1, 4)):
        spots = places(items)
        inside, key = spots[rng.integers(len(spots))]
        inside[key] = _WRONG[rng.integers(len(_WRONG))]
    text = json.dumps(items if make is philly else {"items": items})
    if rng.random() < 0.1:
        text = text[: rng.integers(len(text))] or "["
    file = tmp_path / "log.json"
    file.write_text(text)
    name = {"philly": "philly_log", "kueue": "kueue"}[make.__name__]
    workload = read_or_told(file, None, name)
    if isinstance(workload, str):
        assert re.fullmatch(r".*log\.json.*", workload)
        return
    read = re.fullmatch(r"(\d+) items read, (\d+) jobs?", workload.notes[0])
    assert read
    assert (int(read[1]), int(read[2])) == (5, len(workload))
    counted = [re.search(r"left out because\b.*: (\d+) items? \(", each) for each in workload.notes]
    alone = [note for note in workload.notes if re.match(r"item \d+ left out: ", note)]
    assert sum(int(each[1]) for each in counted if each) + len(alone) == 5 - len(workload)
    assert not any("\n" in note for note in workload.notes)
    workload.save(tmp_path / "saved.csv")
    assert len(ap.read_workload(tmp_path / "saved.csv")) == len(workload)


def test_users_stay_apart_in_a_log_that_is_not_in_utf_8(tmp_path: Path) -> None:
    lines = ["JobID|User|State|Submit|Start|End|AllocTRES"]
    for job, user in enumerate(["M\u00fcller", "M\u00f6ller", "Zo\u00eb", "M\u00fcller"]):
        times = "2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00"
        lines.append(f"{job}|{user}|COMPLETED|{times}|gres/gpu:v100=1")
    text = "\n".join(lines) + "\n"
    file = tmp_path / "sacct.txt"
    file.write_bytes(text.encode("latin-1"))
    users = ap.read_workload(file).jobs["user"]
    assert users.nunique() == 3
    assert users.value_counts().max() == 2
    file.write_bytes(text.encode("utf-8"))
    assert set(ap.read_workload(file).jobs["user"]) == {"M\u00fcller", "M\u00f6ller", "Zo\u00eb"}
    file.write_bytes(text.encode("utf-16"))
    with pytest.raises(InputError, match="not text in UTF-8"):
        ap.read_workload(file)
