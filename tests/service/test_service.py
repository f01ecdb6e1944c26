"""The decision service beside plain solves of what was told, and beside itself started anew."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds, sampled
from tests.service.answers import fits
from tests.service.draws import CLUSTER, drawn_messages

import apportion as ap
from apportion.errors import InputError
from apportion.policies import MaxMinFairness, Problem
from apportion.service import DecisionService

if TYPE_CHECKING:
    from pathlib import Path

POLICIES = ["max_min_fairness", "fifo", "finish_time_fairness", "max_total_throughput"]


class Plain:
    """What is known after messages, in dictionaries."""

    def __init__(self) -> None:
        self.speeds: dict[str, dict[str, float]] = {}
        self.facts: dict[str, dict[str, float]] = {}
        self.gpus = ap.Cluster.of(CLUSTER).gpus

    def tell(self, message: dict[str, Any]) -> None:
        for job, told in (message["jobs"] if message["op"] in ("add", "update") else {}).items():
            facts = {name: each for name, each in told.items() if name != "throughputs"}
            if message["op"] == "add":
                self.speeds[job], self.facts[job] = {}, {"arrival_s": message["at_s"]}
            self.speeds[job] |= told.get("throughputs", {})
            self.facts[job] |= facts
        if message["op"] == "remove":
            for job in message["jobs"]:
                del self.speeds[job], self.facts[job]
        if message["op"] == "observe":
            speed = message["steps"] / message["seconds"]
            self.speeds[message["job"]][message["accelerator"]] = speed
        if message["op"] == "cluster":
            self.gpus = message["gpus"]

    def solve(self, policy: str, now_s: float) -> ap.Allocation:
        jobs = pd.DataFrame.from_dict(self.facts, orient="index")
        jobs["elapsed_s"] = now_s - jobs["arrival_s"]
        speeds = pd.DataFrame.from_dict(self.speeds, orient="index")
        return ap.solve(policy, speeds, workers=dict(self.gpus), jobs=jobs)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 20))
def test_shares_are_those_of_a_plain_solve(policy: str, seeds: range) -> None:
    for seed in seeds:
        plain = Plain()
        with DecisionService(policy, CLUSTER) as service:
            for message in drawn_messages(seed, 40):
                answer = service.answer(message)
                assert fits(answer)["ok"], answer
                plain.tell(message)
                if message["op"] != "decide":
                    continue
                found, fresh = answer["decision"], plain.solve(policy, message["at_s"])
                assert found["shares"].keys() == set(fresh.X.index)
                shares = pd.DataFrame({job: each["time"] for job, each in found["shares"].items()})
                aligned = shares.T.reindex(fresh.X.index, columns=fresh.X.columns).fillna(0.0)
                np.testing.assert_allclose(aligned, fresh.X, atol=2e-8)
                assert found["objective"] == pytest.approx(fresh.objective, rel=1e-7)
                assert found["age_s"] == 0
                assert not found["late"]


@pytest.mark.parametrize(
    "policy", sampled(["max_min_fairness", "finish_time_fairness", "easy", "dally"], 2)
)
def test_a_service_started_again_gives_the_same_answers(policy: str, tmp_path: Path) -> None:
    """Every moment is tried: the file is what a killed process leaves behind."""
    asks = ("decide", "explain")
    cluster = ap.Cluster({"v100": 8, "p100": 8, "k80": 8}, 1)
    messages = [each for each in drawn_messages(3, 24, asks=asks) if each["op"] != "cluster"]
    file, copies = tmp_path / "decisions.db", []
    with DecisionService(policy, cluster, file) as service:
        answers = []
        for number, message in enumerate(messages):
            answers.append(service.answer(message))
            copies.append(shutil.copytree(tmp_path, tmp_path.parent / f"{policy}{number}"))
    assert all(answer["ok"] for answer in answers), answers
    for number, copy in enumerate(copies):
        with DecisionService(policy, cluster, copy / file.name) as again:
            for late in range(max(0, number - 1), min(number + 4, len(messages))):
                answer = again.answer(messages[late])
                assert json.dumps(answer) == json.dumps(answers[late])


@pytest.mark.thorough
def test_the_state_is_written_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from apportion.service import live as module

    monkeypatch.setattr(module, "_STATE_EVERY", 7)
    messages = drawn_messages(5, 40, asks=("decide", "explain"))
    file = tmp_path / "decisions.db"
    with DecisionService("max_min_fairness", CLUSTER, file) as service:
        answers = [service.answer(message) for message in messages[:30]]
        copy = shutil.copytree(tmp_path, tmp_path.parent / "copied")
        answers += [service.answer(message) for message in messages[30:]]
    with DecisionService("max_min_fairness", CLUSTER, copy / file.name) as again:
        assert [again.answer(message) for message in messages] == answers


def test_who_runs_keeps_devices_and_time_counts(tmp_path: Path) -> None:
    """First come, first served on one GPU: the second waits until the first is removed."""
    job = {"throughputs": {"v100": 1.0}, "total_steps": 100.0}
    with DecisionService("fcfs", "v100=1", tmp_path / "x.db") as service:
        for name, at_s in (("a", 0.0), ("b", 1.0)):
            assert service.answer({"op": "add", "jobs": {name: job}, "at_s": at_s})["ok"]
        first = service.answer({"op": "decide", "at_s": 2.0})["decision"]
        assert first["devices"] == {"a": {"accelerator": "v100", "devices": [0]}}
        why = service.answer({"op": "explain", "job": "b", "at_s": 3.0})["explanation"]
        assert (why["status"], why["before"], why["waiting"]) == ("waiting", ["a"], 1)
        assert service._live.known.received("a") == {"v100": 1.0}
        service.answer({"op": "remove", "jobs": ["a"], "at_s": 50.0})
        then = service.answer({"op": "decide", "at_s": 50.0})["decision"]
        assert then["started"] == ["b"]


def test_why_a_job_has_what_it_has() -> None:
    speeds = {"a": {"v100": 4.0, "k80": 1.0}, "b": {"v100": 4.0, "k80": 1.0}}
    with DecisionService("max_min_fairness", "v100=1,k80=1") as service:
        jobs = {name: {"throughputs": each} for name, each in speeds.items()}
        service.answer({"op": "add", "jobs": jobs, "at_s": 0})
        why = service.answer({"op": "explain", "job": "a", "at_s": 1})["explanation"]
        assert why["limited_by"] == "GPUs"
        assert why["shares"] == {"v100": 0.5, "k80": 0.5}
        assert set(why["full"]) == {"v100", "k80"}
        assert [each["job"] for each in why["holders"]["v100"]] == ["a", "b"]
        service.answer({"op": "cluster", "gpus": {"v100": 2, "k80": 1}, "at_s": 2})
        why = service.answer({"op": "explain", "job": "a", "at_s": 3})["explanation"]
        assert why["limited_by"] == "time"
        assert "all the time on v100" in why["sentence"]


def test_estimates_learn_what_ran() -> None:
    table = pd.DataFrame({"v100": [4.0, 8.0], "k80": [1.0, 2.0]}, index=["one", "two"])
    estimates = ap.EstimatedSpeeds(table, rows="type")
    with DecisionService("max_min_fairness", "v100=1,k80=1", estimates=estimates) as service:
        jobs = {"a": {"job_type": "one"}, "b": {"job_type": "new"}}
        assert service.answer({"op": "add", "jobs": jobs, "at_s": 0})["ok"]
        before = service.answer({"op": "decide", "at_s": 0})["decision"]["shares"]
        seen = {"op": "observe", "job": "b", "accelerator": "v100", "steps": 6000, "seconds": 600}
        for at_s in range(5):
            assert service.answer({**seen, "at_s": at_s})["ok"]
        after = service.answer({"op": "decide", "at_s": 9})["decision"]["shares"]
        assert after != before
        told = service._live.known.told("b")
        assert told["v100"] == pytest.approx(10.0, rel=0.1)


@dataclass(frozen=True)
class Waits(MaxMinFairness):
    """Solves no faster than somebody lets it."""

    gate = threading.Event()
    name = "waits"

    def objective(self, p: Problem) -> Any:
        self.gate.wait(10.0)
        return super().objective(p)


def test_a_late_answer_is_the_last_one_with_its_age() -> None:
    job = {"throughputs": {"v100": 1.0}}
    Waits.gate.set()
    with DecisionService(Waits(), "v100=1", time_limit_s=2.0) as service:
        service.answer({"op": "add", "jobs": {"a": job}, "at_s": 0})
        assert service.answer({"op": "decide", "at_s": 1})["decision"]["age_s"] == 0
        Waits.gate.clear()
        service._live.deciding.time_limit_s = 0.05
        service.answer({"op": "add", "jobs": {"b": {**job, "weight": 3.0}}, "at_s": 5})
        late = service.answer({"op": "decide", "at_s": 8})["decision"]
        assert (late["late"], late["age_s"], [*late["shares"]]) == (True, 7, ["a"])
        assert service.answer({"op": "remove", "jobs": ["a"], "at_s": 9})["ok"]
        Waits.gate.set()
        service._live.deciding.time_limit_s = 10.0
        service.answer({"op": "decide", "at_s": 10})
        then = service.answer({"op": "decide", "at_s": 11})["decision"]
        assert (then["late"], [*then["shares"]]) == (False, ["b"])


def test_a_store_is_of_one_service(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    with DecisionService("fifo", "v100=1", file), pytest.raises(InputError, match="locked"):
        DecisionService("fifo", "v100=1", file)
    with pytest.raises(InputError, match="policy"):
        DecisionService("max_min_fairness", "v100=1", file)
    (tmp_path / "no.db").write_text("something else " * 100)
    with pytest.raises(InputError, match="not a database"):
        DecisionService("fifo", "v100=1", tmp_path / "no.db")
    with pytest.raises(InputError, match="elastic"):
        DecisionService("afs", "v100=1")


def test_decisions_are_logged_as_records(caplog: pytest.LogCaptureFixture) -> None:
    with DecisionService("fifo", "v100=1") as service, caplog.at_level("INFO"):
        service.answer({"op": "add", "jobs": {"a": {"throughputs": {"v100": 1}}}, "at_s": 0})
        service.answer({"op": "decide", "id": "x", "at_s": 4})
    (record,) = [each.__dict__["decision"] for each in caplog.records if "decision" in vars(each)]
    assert (record["id"], record["at_s"], record["shares"], record["status"]) == (
        *("x", 4.0, 1, "optimal"),
    )


def test_a_session_is_awaited() -> None:
    async def both() -> list[Any]:
        with ap.session("max_min_fairness", "v100=1") as session:
            session.add({"a": {"v100": 2.0}, "b": {"v100": 1.0}})
            return await asyncio.gather(*(session.solve_async() for _ in range(4)))

    found = asyncio.run(both())
    assert all(each.X["v100"].tolist() == [0.5, 0.5] for each in found)


def held_s(service: DecisionService, rounds: int, length_s: float) -> dict[str, float]:
    """Ask for devices round by round; return the seconds that each job had some."""
    held: dict[str, float] = {}
    for number in range(rounds):
        decided = service.answer({"op": "decide", "devices": True, "at_s": number * length_s})
        for job in decided["decision"]["devices"]:
            held[job] = held.get(job, 0.0) + length_s
    return held


@pytest.mark.thorough
def test_devices_follow_shares_from_round_to_round() -> None:
    """One GPU and weights of 1, 2, 3: after 60 rounds each has had its sixths of the time."""
    with DecisionService("max_min_fairness", "v100=1") as service:
        jobs = {
            name: {"throughputs": {"v100": 1.0}, "weight": w} for w, name in enumerate("abc", 1)
        }
        service.answer({"op": "add", "jobs": jobs, "at_s": 0})
        held = held_s(service, 60, 360.0)
        for weight, name in enumerate("abc", 1):
            assert held[name] == pytest.approx(60 * 360.0 * weight / 6, abs=2 * 360.0)


def test_a_drain_leaves_jobs_waiting_and_says_who_lost_devices() -> None:
    with DecisionService("easy", "v100=2,k80=1") as service:
        job = {"throughputs": {"v100": 1.0}, "total_steps": 100.0}
        service.answer({"op": "add", "jobs": {"a": {**job, "scale_factor": 2}}, "at_s": 0})
        service.answer({"op": "decide", "at_s": 1})
        assert service.answer({"op": "cluster", "gpus": {"v100": 1, "k80": 1}, "at_s": 2})["ok"]
        gone = service.answer({"op": "decide", "at_s": 3})["decision"]
        assert (gone["devices"], gone["cannot_run"]) == ({}, ["a"])
        assert service.answer({"op": "cluster", "gpus": {"v100": 2}, "at_s": 4})["ok"]
        back = service.answer({"op": "decide", "at_s": 5})["decision"]
        assert back["devices"]["a"]["devices"] == [0, 1]
        service.answer({"op": "add", "jobs": {"b": job}, "at_s": 6})
        service.answer({"op": "cluster", "gpus": {"v100": 3}, "at_s": 6})
        service.answer({"op": "decide", "at_s": 7})
        service.answer({"op": "cluster", "gpus": {"v100": 2}, "at_s": 8})
        then = service.answer({"op": "decide", "at_s": 9})["decision"]
        assert then["preempted"] == ["b"]


def test_what_cannot_be_written_has_not_happened(tmp_path: Path) -> None:
    with DecisionService("fifo", "v100=1", tmp_path / "x.db") as service:
        add = {"op": "add", "id": "1", "jobs": {"a": {"throughputs": {"v100": 1}}}, "at_s": 0}
        service._store._file.execute("PRAGMA max_page_count = 1")
        big = {f"j{k}": {"throughputs": {"v100": 1}, "note": "x" * 250} for k in range(2000)}
        refused = service.answer({**add, "jobs": big})
        assert not refused["ok"]
        assert "nothing has changed" in refused["error"]
        service._store._file.execute("PRAGMA max_page_count = 1000000")
        assert service.answer(add)["ok"]
        assert service.health()["jobs"] == 1


def test_an_id_is_of_one_message() -> None:
    with DecisionService("fifo", "v100=1") as service:
        add = {"op": "add", "id": "1", "jobs": {"a": {"throughputs": {"v100": 1}}}}
        assert service.answer(add) == service.answer(add)
        other = service.answer({"op": "remove", "id": "1", "jobs": ["a"]})
        assert "another message" in other["error"]
        for id_ in ("\ud800", "a\ud800b"):
            assert not service.answer({"op": "health", "id": id_})["ok"]
        jobs = {"b": {"throughputs": {"v100": 1e308}}}
        assert "the most" in service.answer({"op": "add", "jobs": jobs})["error"]


def test_nobody_to_run_is_a_decision() -> None:
    with DecisionService("max_min_fairness", "v100=1") as service:
        assert service.answer({"op": "decide"})["decision"]["shares"] == {}
