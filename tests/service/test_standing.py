"""Decisions that stand, refusals in plain words, and a store that is closed or full."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.service.answers import fits

import apportion as ap
from apportion.service import DecisionService

if TYPE_CHECKING:
    from pathlib import Path


JOB = {"throughputs": {"v100": 2.0, "k80": 1.0}, "total_steps": 1000.0}


def asked(service: DecisionService, at_s: float, op: str = "decide", **fields: Any) -> Any:
    answer = fits(service.answer({"op": op, "at_s": at_s, **fields}))
    assert answer["ok"], answer
    return answer.get("decision")


def test_a_decision_stands_until_its_time_is_over_or_something_is_told(tmp_path: Path) -> None:
    """With three jobs on one GPU every round has another one; asking early begins none."""
    with DecisionService("max_min_fairness", "v100=1,k80=0", tmp_path / "x.db") as service:
        asked(service, 0, "add", jobs=dict.fromkeys("abc", JOB))
        first = asked(service, 10, devices=True)
        (runs,) = first["devices"]
        for at_s in (10, 100, 369):
            again = asked(service, at_s, devices=True)
            assert (again["devices"], again["late"]) == (first["devices"], False)
            assert again["started"] == again["moved"] == again["preempted"] == []
            assert again["valid_for_s"] == 370 - at_s
            assert (again["of_number"], again["age_s"]) == (2, at_s - 10)
        asked(service, 369, "observe", job=runs, accelerator="v100", steps=718.0, seconds=359.0)
        assert asked(service, 369, devices=True)["of_number"] == 2
        asked(service, 369, "update", jobs={runs: {"weight": 1.0}})
        told = asked(service, 369, devices=True)
        assert told["of_number"] == 9
        assert told["valid_for_s"] == 360
    with DecisionService("max_min_fairness", "v100=1,k80=0", tmp_path / "x.db") as service:
        assert asked(service, 700, devices=True)["of_number"] == 9
        assert asked(service, 729, devices=True)["of_number"] == 11
        assert asked(service, 0.1 + 729 + 360, devices=True)["of_number"] == 12


def test_who_cannot_run_waits_and_a_decision_about_nobody_is_whole() -> None:
    for policy, more in (("max_min_fairness", {"gap", "status"}), ("easy", set[str]())):
        with DecisionService(policy, "v100=2,k80=1") as service:
            asked(service, 0, "add", jobs={"a": JOB, "b": {**JOB, "scale_factor": 2}})
            asked(service, 1, "cluster", gpus={"v100": 1})
            some = asked(service, 2, devices=True)
            assert some["waiting"] == some["cannot_run"] == ["b"]
            asked(service, 3, "cluster", gpus={"v100": 0, "k80": 0})
            none = asked(service, 4, devices=True)
            assert none["waiting"] == ["b"]
            assert none["cannot_run"] == ["a", "b"]
            assert none.keys() == some.keys()
            assert none["mechanism"] == some["mechanism"] != ""
            assert {"gap", "status"} & none.keys() == more


@pytest.mark.parametrize("policy", ["max_min_fairness", "easy"])
def test_a_job_that_runs_and_needs_other_gpus_loses_its_own(policy: str) -> None:
    """It must not keep all others from a decision."""
    with DecisionService(policy, "v100=2,k80=1") as service:
        asked(service, 0, "add", jobs={"a": JOB})
        assert asked(service, 1, devices=True)["started"] == ["a"]
        asked(service, 2, "update", jobs={"a": {"scale_factor": 2}})
        grown = asked(service, 3, devices=True)
        assert grown["moved"] == ["a"]
        assert len(grown["devices"]["a"]["devices"]) == 2
        asked(service, 4, "update", jobs={"a": {"scale_factor": 1, "throughputs": {"v100": 0}}})
        moved = asked(service, 5, devices=True)
        assert (moved["moved"], moved["devices"]["a"]["accelerator"]) == (["a"], "k80")
        asked(service, 6, "update", jobs={"a": {"scale_factor": 2, "throughputs": {"v100": 1}}})
        asked(service, 7, "cluster", gpus={"v100": 1})
        gone = asked(service, 8, devices=True)
        assert (gone["preempted"], gone["cannot_run"], gone["devices"]) == (["a"], ["a"], {})


def test_columns_of_several_kinds_may_come_at_once() -> None:
    with DecisionService("easy", "v100=2,k80=1") as service:
        teams = dict(enumerate(("x", True, 5, None, 2.5)))
        jobs = {f"j{k}": JOB if v is None else {**JOB, "team": v} for k, v in teams.items()}
        asked(service, 0, "add", jobs=jobs)
        assert asked(service, 1)["started"] != []


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"op": "add", "jobs": {"a": {**JOB, "weight": "2"}}}, 'a.weight must be of type number'),
        ({"op": "add", "jobs": {"a": {**JOB, "weight": True}}}, "not true"),
        ({"op": "add", "jobs": {"a": {**JOB, "wieght": 2}}}, "Did you mean 'weight'?"),
        ({"op": "add", "jobs": {"a": {**JOB, "scale_factor": 1.5}}}, "integer or null, not 1.5"),
        ({"op": "add", "jobs": {"a": {"throughputs": None}}}, "type object, not null"),
        ({"op": "observe", "job": "x", "accelerator": "v100", "steps": 1, "seconds": 0},
         "seconds is 0; it must be more than 0."),
        ({"op": "cluster", "gpus": {"v10": 0}}, "Did you mean 'v100'?"),
        ({"op": "cluster", "gpus": {"v100": 1.5}}, "type integer, not 1.5"),
        ({"op": "add", "jobs": {"a": {**JOB, "total_steps": 10**400}}}, "type number or null"),
        ({"op": "decide", "devices": None}, "type boolean, not null"),
        ({"op": "decide", "v": None}, "v is null; this service speaks"),
        (None, "not null"),
        ([True], "not [true]"),
    ],
)  # fmt: skip
def test_refusals_speak_of_json(message: Any, said: str) -> None:
    with DecisionService("easy", "v100=2,k80=1") as service:
        asked(service, 0, "add", jobs={"x": JOB})
        given = {"at_s": 1, **message} if isinstance(message, dict) else message
        answer = fits(service.answer(given))
        assert not answer["ok"]
        assert said in answer["error"]
        asked(service, 1, "cluster", gpus={"v100": 2.0, "h100": 1}, new_types=True)
        assert fits(service.answer({"op": "health"}))["health"]["cluster"]["h100"] == 1


def test_a_scheduler_that_tells_types_apart_refuses_others_at_once() -> None:
    with DecisionService("tiresias", "v100=4") as service:
        for told, said in (({}, "no job_type"), ({"job_type": "lm"}, 'job_type "lm"')):
            job = {"throughputs": {"v100": 1.0}, "total_steps": 10.0, **told}
            answer = fits(service.answer({"op": "add", "at_s": 0, "jobs": {"ana": job}}))
            for each in ("'ana'", said, "ResNet50"):
                assert each in answer["error"]
        job |= {"job_type": "resnet-50"}
        asked(service, 0, "add", jobs={"ana": job})
        assert asked(service, 1)["started"] == ["ana"]
        gone = {"op": "update", "at_s": 2, "jobs": {"ana": {"job_type": None}}}
        assert not service.answer(gone)["ok"]
    with DecisionService(ap.get_scheduler("tiresias", skews={"lm": 0.2}), "v100=4") as service:
        asked(service, 0, "add", jobs={"ana": {**job, "job_type": "lm"}})


def test_while_the_disk_is_full_what_needs_no_writing_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apportion.service import store

    with DecisionService("easy", "v100=2", tmp_path / "x.db") as service:
        asked(service, 0, "add", jobs={"a": {**JOB, "throughputs": {"v100": 1.0}}})
        before = fits(service.answer({"op": "state"}))["state"]
        full = sqlite3.OperationalError("database or disk is full")

        def failing(*_: Any) -> None:
            raise full

        with monkeypatch.context() as patch:
            for name in ("write", "try_to_write"):
                patch.setattr(store.MessageStore, name, failing)
            for at_s in (1.0, 2.0):
                refused = fits(service.answer({"op": "remove", "jobs": ["a"], "at_s": at_s}))
                assert refused["retry"]
                assert fits(service.answer({"op": "state"}))["state"] == before
                assert fits(service.answer({"op": "health"}))["ok"]
        asked(service, 3, "remove", jobs=["a"])
        assert fits(service.answer({"op": "state"}))["state"]["facts"] == {}


@pytest.mark.thorough
def test_a_process_that_is_told_to_end_closes_its_store(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "apportion", "decide", "--cluster", "v100=1"]
    command += ["--store", str(tmp_path / "x.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"op": "add", "jobs": {"a": {"throughputs": {"v100": 1}}}}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["ok"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert [each.name for each in tmp_path.iterdir()] == ["x.db"]
