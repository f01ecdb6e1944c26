"""Decisions that take longer than they may: the last certified one, also after a restart."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.service.answers import fits
from tests.service.draws import CLUSTER, drawn_messages

from apportion.service import DecisionService, deciding
from apportion.service import live as module
from apportion.service.decisions import state_answer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

JOB = {"throughputs": {"v100": 1.0}, "total_steps": 100.0}


class Slow:
    """Solves are late when a test says so, whatever they take."""

    late = False

    def done(self, future: Future[Any], until_s: float | None) -> bool:
        if not self.late:
            future.exception()
        return not self.late


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    slow = Slow()
    monkeypatch.setattr(deciding, "_done", slow.done)
    taken = lambda asked: slow.late or not asked.busy or asked.take()  # noqa: E731
    monkeypatch.setattr(deciding.Deciding, "taken_if_done", taken)
    yield slow
    slow.late = False


def test_devices_that_are_late_stay_as_they_were(slow: Slow) -> None:
    with DecisionService("easy", "v100=2", time_limit_s=1.0) as service:
        slow.late = True
        service.answer({"op": "add", "jobs": {"a": JOB, "b": JOB}, "at_s": 0})
        none = fits(service.answer({"op": "decide", "at_s": 1}))["decision"]
        assert (none["devices"], none["late"], none["of_number"]) == ({}, True, 0)
        assert (none["age_s"], none["waiting"]) == (None, ["a", "b"])
        slow.late = False
        first = fits(service.answer({"op": "decide", "at_s": 5}))["decision"]
        assert (sorted(first["started"]), first["late"], first["age_s"]) == (["a", "b"], False, 4)
        slow.late = True
        service.answer({"op": "remove", "jobs": ["a"], "at_s": 6})
        service.answer({"op": "add", "jobs": {"c": JOB}, "at_s": 7})
        late = fits(service.answer({"op": "decide", "at_s": 8}))["decision"]
        assert (list(late["devices"]), late["started"], late["waiting"]) == (["b"], [], ["c"])
        assert (late["late"], late["age_s"], late["of_number"]) == (True, 7, 2)
        refused = fits(service.answer({"op": "explain", "job": "c", "at_s": 8}))
        assert refused["retry"]
        (device,) = late["devices"]["b"]["devices"]
        service.answer({"op": "cluster", "gpus": {"v100": device}, "at_s": 9})
        gone = fits(service.answer({"op": "decide", "at_s": 11}))["decision"]
        assert (gone["devices"], gone["preempted"]) == ({}, ["b"])
        service.answer({"op": "cluster", "gpus": {"v100": 2}, "at_s": 11})
        slow.late = False
        then = fits(service.answer({"op": "decide", "at_s": 12}))["decision"]
        assert sorted(then["devices"]) == sorted(then["started"]) == ["b", "c"]


def test_a_late_decision_is_taken_up_where_it_still_holds(slow: Slow) -> None:
    """What was decided about a job that is gone, or has another gang, is nobody's."""
    with DecisionService("easy", "v100=4", time_limit_s=1.0) as service:
        service.answer({"op": "add", "jobs": {name: JOB for name in "abcd"}, "at_s": 0})
        slow.late = True
        service.answer({"op": "decide", "at_s": 1})
        service.answer({"op": "remove", "jobs": ["a"], "at_s": 2})
        service.answer({"op": "update", "jobs": {"b": {"scale_factor": 2}}, "at_s": 2})
        service._live.deciding.take()
        late = fits(service.answer({"op": "decide", "at_s": 3}))["decision"]
        assert (sorted(late["devices"]), late["of_number"]) == (["c", "d"], 2)
        assert late["waiting"] == ["b"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("policy", "every"),
    [
        ("max_min_fairness", 10_000),
        pytest.param("max_min_fairness", 9, marks=pytest.mark.thorough),
        pytest.param("easy", 10_000, marks=pytest.mark.thorough),
        pytest.param("finish_time_fairness", 9, marks=pytest.mark.thorough),
    ],
)
def test_late_answers_after_a_restart_are_those_before_it(
    policy: str, every: int, slow: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which messages are late is drawn; every moment is one to start again from.

    When the state is written hangs on when a solve is done, so answers are compared without that.
    """
    monkeypatch.setattr(module, "_STATE_EVERY", every)
    rng, copies = np.random.default_rng(every), list[Path]()
    (folder := tmp_path / "running").mkdir()
    file = folder / "decisions.db"
    messages = drawn_messages(every, 22, asks=("decide", "explain", *["decide"] * 3))
    for message in messages:
        if message["op"] == "decide":
            message["devices"] = bool(rng.random() < 0.3)
    late = (rng.random(len(messages)) < 0.6).tolist()
    with DecisionService(policy, CLUSTER, file, time_limit_s=1.0) as service:
        answers, states = [], []
        for message, slow.late in zip(messages, late, strict=True):
            answers.append(fits(service.answer(message)))
            states.append(told(service))
            copies.append(shutil.copytree(folder, tmp_path / f"copy{len(copies)}"))
    assert sum(each.get("decision", {}).get("late", False) for each in answers) >= 2
    for number, copy in enumerate(copies):
        slow.late = False
        with DecisionService(policy, CLUSTER, copy / file.name, time_limit_s=1.0) as again:
            assert told(again) == states[number]
            for place in range(number + 1, min(number + 5, len(messages)) * (every > 22)):
                slow.late = late[place]
                assert json.dumps(again.answer(messages[place])) == json.dumps(answers[place])


def told(service: DecisionService) -> tuple[str, str, bool]:
    """Return what is known and was certified last, to the last digit."""
    shares = service._live.deciding.last["shares"]
    certified = [*shares.entries(), shares.rest(), service._live.deciding.last["devices"].rest()]
    return (
        json.dumps(state_answer(service._live.known)),
        json.dumps(certified),
        service._live.deciding.busy,
    )
