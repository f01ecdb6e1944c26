"""What a client in another language found: a message that is taken must leave everybody decidable.

Each case is a message, or what the service answers to it; afterwards decisions are asked for.
"""

from __future__ import annotations

from typing import Any

import pytest

from apportion.service import DecisionService

CLUSTER = {"v100": 4, "k80": 4}
POLICIES = ("max_min_fairness", "finish_time_fairness", "fcfs", "easy")


def service(policy: str = "max_min_fairness") -> DecisionService:
    return DecisionService(policy, CLUSTER)


def add(**columns: Any) -> dict[str, Any]:
    """Two jobs, of which the first has columns of its own."""
    job = {"throughputs": {"v100": 4, "k80": 1}, "steps_remaining": 1000, "total_steps": 1000}
    return {"op": "add", "at_s": 0, "jobs": {"a": {**job, **columns}, "b": job}}


def asked(running: DecisionService, at_s: float = 1.0) -> list[dict[str, Any]]:
    """Ask in every way; nothing may be refused."""
    answers = [
        running.answer({"op": "decide", "at_s": at_s}),
        running.answer({"op": "decide", "at_s": at_s, "devices": True}),
        running.answer({"op": "explain", "at_s": at_s, "job": "b"}),
    ]
    assert all(each["ok"] for each in answers), answers
    return answers


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("column", ["runs_on", "running_on", "recorded_on"])
def test_a_text_that_only_one_job_has(policy: str, column: str) -> None:
    with service(policy) as running:
        assert running.answer(add(**{column: "k80"}))["ok"]
        asked(running)


@pytest.mark.parametrize(
    "columns",
    [
        {"runs_on": "k80", "throughputs": {"v100": 4}},
        {"weight": 1e-300},
        {"throughputs": {"v100": 1e-320, "k80": 1}},
        {"count": 2},
        {"current_option": "v100"},
        {"reallocation_factor": 0.5},
        {"network_priority": 0.5},
    ],
)
def test_what_cannot_be_decided_is_refused_when_it_comes(columns: dict[str, Any]) -> None:
    with service() as running:
        answer = running.answer(add(**columns))
        assert not answer["ok"]
        assert "'a'" in answer["error"]
        assert running.answer(add())["ok"]
        asked(running)


def test_a_job_with_a_blank_name_is_refused() -> None:
    with service() as running:
        answer = running.answer(
            {"op": "add", "at_s": 0, "jobs": {" ": {"throughputs": {"v100": 1}}}}
        )
        assert "not all blank" in answer["error"]


def test_a_refused_type_of_gpus_is_not_there() -> None:
    with service() as running:
        assert running.answer(add())["ok"]
        before = running.answer({"op": "state"})["state"]
        message = {"op": "cluster", "at_s": 1, "gpus": {" ": 3}, "new_types": True}
        assert not running.answer(message)["ok"]
        assert running.answer({"op": "state"})["state"] == before
        assert running.answer({"op": "cluster", "at_s": 1, "gpus": {"v100": 0, "k80": 0}})["ok"]
        assert running.answer({"op": "explain", "at_s": 1, "job": "b"})["ok"]


@pytest.mark.parametrize("policy", ["max_min_fairness", "shortest_job_first", "cohort"])
def test_shares_are_where_a_job_may_run(policy: str) -> None:
    with service(policy) as running:
        extra = {"entity": "x"} if policy == "cohort" else {}
        message = add(runs_on="k80", **extra)
        message["jobs"]["b"] |= extra
        assert running.answer(message)["ok"]
        shares = asked(running)[0]["decision"]["shares"]["a"]["time"]
        assert shares.get("v100", 0.0) == 0.0
        assert shares["k80"] > 0.0


@pytest.mark.parametrize("policy", ["fcfs", "max_min_fairness"])
def test_a_job_on_one_type_waits_while_that_is_drained(policy: str) -> None:
    with service(policy) as running:
        assert running.answer(add(runs_on="v100", scale_factor=4))["ok"]
        asked(running)
        assert running.answer({"op": "cluster", "at_s": 2, "gpus": {"v100": 3}})["ok"]
        decision = asked(running, 2.0)[1]["decision"]
        assert decision["cannot_run"] == ["a"]
        assert "a" in decision["preempted"] or "a" in decision["waiting"]


def test_who_is_believed_to_make_nothing_gets_other_gpus_at_once() -> None:
    with service() as running:
        assert running.answer(add())["ok"]
        first = running.answer({"op": "decide", "at_s": 1, "devices": True})["decision"]
        kind = first["devices"]["b"]["accelerator"]
        seen = {"op": "observe", "at_s": 2, "job": "b", "accelerator": kind}
        assert running.answer({**seen, "steps": 0, "seconds": 100})["ok"]
        later = running.answer({"op": "decide", "at_s": 3, "devices": True})["decision"]
        assert later["of_number"] > first["of_number"]


def test_a_time_beyond_all_times_is_refused() -> None:
    with service() as running:
        assert not running.answer({**add(), "at_s": 1e300})["ok"]
        assert running.answer(add())["ok"]
