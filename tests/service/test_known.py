"""What a service makes of what it is told: drains, clocks, columns, types of jobs, references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from tests.service.answers import fits

import apportion as ap
from apportion.errors import InputError
from apportion.service import DecisionService

if TYPE_CHECKING:
    from pathlib import Path

JOB = {"throughputs": {"v100": 2.0, "k80": 1.0}, "total_steps": 100.0}
SPEEDS = pd.DataFrame({"v100": [4.0, 8.0], "k80": [1.0, 2.0]}, index=["one", "two"])


def good(service: DecisionService, op: str, **fields: Any) -> dict[str, Any]:
    answer = fits(service.answer({"op": op, **fields}))
    assert answer["ok"], answer
    return answer


def refused(service: DecisionService, op: str, **fields: Any) -> str:
    answer = fits(service.answer({"op": op, **fields}))
    assert not answer["ok"]
    return str(answer["error"])


def test_a_message_about_the_cluster_names_what_changes() -> None:
    with DecisionService("max_min_fairness", "v100=2,k80=2") as service:
        good(service, "add", jobs={"a": JOB})
        good(service, "cluster", gpus={"v100": 1})
        assert good(service, "health")["health"]["cluster"] == {"v100": 1, "k80": 2}
        said = refused(service, "cluster", gpus={"k8": 1})
        assert "Did you mean 'k80'?" in said
        assert "new_types" in said
        good(service, "cluster", gpus={"h100": 4}, new_types=True)
        good(service, "update", jobs={"a": {"throughputs": {"h100": 9.0}}})
        assert good(service, "decide")["decision"]["shares"]["a"]["time"] == {"h100": 1.0}


@pytest.mark.parametrize("policy", ["max_min_fairness", "easy"])
def test_all_gpus_may_be_gone(policy: str, tmp_path: Path) -> None:
    """Then nobody has anything, who ran is preempted, and jobs still come."""
    with DecisionService(policy, "v100=1,k80=1", tmp_path / "x.db") as service:
        good(service, "add", jobs={"a": JOB, "b": JOB}, at_s=0)
        good(service, "decide", devices=True, at_s=1)
        good(service, "cluster", gpus={"v100": 0, "k80": 0}, at_s=2)
        good(service, "add", jobs={"c": JOB}, at_s=3)
        decided = good(service, "decide", devices=True, at_s=4)["decision"]
        assert (decided["devices"], decided["cannot_run"]) == ({}, ["a", "b", "c"])
        assert sorted(decided["preempted"]) == ["a", "b"]
        why = good(service, "explain", job="c", at_s=5)["explanation"]
        assert why["limited_by"] == "the cluster"
        assert "0 v100 and 0 k80" in why["sentence"]
        if policy == "max_min_fairness":
            assert good(service, "decide", at_s=6)["decision"]["shares"] == {}
    with DecisionService(policy, "v100=1,k80=1", tmp_path / "x.db") as again:
        good(again, "cluster", gpus={"k80": 3}, at_s=7)
        back = good(again, "decide", devices=True, at_s=8)["decision"]
        assert sorted(back["started"]) == ["a", "b", "c"]


def test_drains_and_new_types_are_those_of_a_fresh_solve() -> None:
    """The problem goes on through drains; beside plain solves."""
    counts = [(2, 2), (1, 2), (0, 1), (0, 3), (2, 0), (0, 0), (1, 1)]
    jobs: dict[str, dict[str, Any]] = {
        name: {"throughputs": {"v100": 2.0 + k, "k80": 1.0}, "scale_factor": 1 + k % 2}
        for k, name in enumerate("abcde")
    }
    with DecisionService("max_min_fairness", "v100=2,k80=2") as service:
        good(service, "add", jobs=jobs)
        for v100, k80 in counts:
            good(service, "cluster", gpus={"v100": v100, "k80": k80})
            found = good(service, "decide")["decision"]
            runs = [n for n in jobs if max(v100, k80) >= jobs[n]["scale_factor"]]
            assert sorted(found["shares"]) == runs
            assert found["cannot_run"] == [name for name in jobs if name not in runs]
            if runs:
                speeds = pd.DataFrame({name: jobs[name]["throughputs"] for name in runs}).T
                facts = {"scale_factor": [jobs[name]["scale_factor"] for name in runs]}
                gpus = {"v100": v100, "k80": k80}
                plain = ap.solve("max_min_fairness", speeds, workers=gpus, jobs=facts)
                assert found["objective"] == pytest.approx(plain.objective, rel=1e-7)


def test_under_leases_gpus_that_fill_no_machine_are_idle() -> None:
    job = {"throughputs": {"v100": 1.0}, "total_steps": 100.0}
    with DecisionService("dally", ap.Cluster({"v100": 8}, 4)) as service:
        good(service, "add", jobs={f"j{k}": job for k in range(8)}, at_s=0)
        assert len(good(service, "decide", at_s=1)["decision"]["devices"]) == 8
        for gpus, run in ((7, 4), (4, 4), (3, 0), (8, 8)):
            good(service, "cluster", gpus={"v100": gpus}, at_s=10)
            assert len(good(service, "decide", at_s=10)["decision"]["devices"]) <= run
        assert len(good(service, "decide", at_s=1e6)["decision"]["devices"]) == 8


def test_one_clock_counts() -> None:
    times = [5.0]
    with DecisionService("fifo", "v100=1", clock=lambda: times[-1]) as service:
        good(service, "add", jobs={"a": JOB | {"throughputs": {"v100": 1}}})
        assert "clock of the service" in refused(service, "decide", at_s=10)
        times.append(7.0)
        good(service, "decide")
        assert good(service, "state")["state"]["now_s"] == 7.0
    with DecisionService("fifo", "v100=1") as service:
        refused(service, "remove", jobs=["nobody"])  # decides nothing
        good(service, "add", jobs={"a": {"throughputs": {"v100": 1}}}, at_s=3)
        assert "told their time, at_s, the last one 3" in refused(service, "decide")
        assert good(service, "decide", at_s=4)["decision"]["age_s"] == 0


@pytest.mark.parametrize(
    ("policy", "column"),
    [
        ("easy", "steps_remaining"),
        ("shortest_job_first", "steps_remaining"),
        ("hierarchical_fairness", "entity"),
    ],
)
def test_a_job_that_cannot_be_decided_about_is_refused_alone(policy: str, column: str) -> None:
    bare = {"throughputs": {"v100": 1.0}}
    whole = {**bare, "total_steps": 100.0, "entity": "x"}
    with DecisionService(policy, "v100=1") as service:
        said = refused(service, "add", jobs={"good": whole, "bad": bare})
        assert "'bad'" in said
        assert column in said
        good(service, "add", jobs={"good": whole})
        good(service, "decide")
        gone = {"entity": None} if column == "entity" else {"total_steps": None}
        assert column in refused(service, "update", jobs={"good": gone})
        more = {"steps_remaining": 200.0}
        assert "200 steps_remaining" in refused(service, "update", jobs={"good": more})
        assert good(service, "decide", devices=True)["decision"]["devices"]


def test_only_the_jobs_that_were_asked_about() -> None:
    with DecisionService("fcfs", "v100=1") as service:
        jobs = {name: {"throughputs": {"v100": 1.0}, "total_steps": 10.0} for name in "abc"}
        good(service, "add", jobs=jobs, at_s=0)
        found = good(service, "decide", jobs=["a", "c"], at_s=1)["decision"]
        assert (found["started"], found["waiting"], list(found["devices"])) == (["a"], ["c"], ["a"])
        sentence = good(service, "explain", job="a", at_s=2)["explanation"]["sentence"]
        assert sentence == "Job a is started on v100 0; nobody is before it."
        assert "b" in refused(service, "decide", jobs=["x"], at_s=3)


def test_whoever_gets_or_loses_devices_is_told_of() -> None:
    with DecisionService("max_min_fairness", "v100=1") as service:
        good(service, "add", jobs={name: {"throughputs": {"v100": 1.0}} for name in "abc"}, at_s=0)
        runs: set[str] = set()
        for round_ in range(6):
            named = "abc"[round_ % 3]
            ask = {"devices": True, "jobs": [named], "at_s": 360 * round_}
            found = good(service, "decide", **ask)["decision"]
            runs = runs - {*found["preempted"]} | {*found["started"]}
            assert len(runs) == 1
            assert found["devices"].keys() == runs & {named, *found["started"]}


@pytest.mark.parametrize("odd", [("x", None), (True, None), (3, "high"), (True, 2.0), (None, "")])
def test_own_columns_that_some_lack_or_mix_keep_nobody_waiting(odd: tuple[Any, Any]) -> None:
    with DecisionService("max_min_fairness", "v100=2") as service:
        for job, value in zip("ab", odd, strict=True):
            own = {} if value is None else {"prio": value}
            good(service, "add", jobs={job: {"throughputs": {"v100": 1.0}, **own}})
        found = good(service, "decide", devices=True)["decision"]
        assert found["devices"].keys() == {"a", "b"}


def estimated() -> ap.EstimatedSpeeds:
    return ap.EstimatedSpeeds(SPEEDS, rows="type")


def told(service: DecisionService, job: str) -> float:
    return float(good(service, "explain", job=job)["explanation"]["alone_steps_per_s"])


def test_jobs_of_reference_types_learn_and_change_type(tmp_path: Path) -> None:
    with DecisionService("fifo", "v100=1,k80=1", tmp_path / "x.db", estimates=estimated()) as one:
        good(one, "add", jobs={"a": {"job_type": "one"}, "b": {"throughputs": {"v100": 4.0}}})
        seen = {"job": "a", "accelerator": "v100"}
        before = told(one, "a")
        good(one, "observe", **seen, steps=120, seconds=15)  # too short by itself
        assert told(one, "a") == before
        good(one, "observe", **seen, steps=120, seconds=15)
        assert told(one, "a") == pytest.approx(8.0, rel=0.2)  # it was 4
        good(one, "observe", job="b", accelerator="v100", steps=600, seconds=60)
        assert told(one, "b") == pytest.approx(10.0, rel=0.2)
        good(one, "update", jobs={"b": {"job_type": "two"}})
        assert told(one, "b") == pytest.approx(8.0, rel=0.01)
        good(one, "remove", jobs=["b"])
        good(one, "add", jobs={"b": {"job_type": "one"}})
        assert told(one, "b") == told(one, "a")
        last = told(one, "b")
    with DecisionService("fifo", "v100=1,k80=1", tmp_path / "x.db", estimates=estimated()) as one:
        assert told(one, "b") == last


def test_other_references_are_refused(tmp_path: Path) -> None:
    with DecisionService("fifo", "v100=1", tmp_path / "x.db", estimates=estimated()):
        pass
    other = ap.EstimatedSpeeds(SPEEDS * 1.01, rows="type")
    with pytest.raises(InputError, match="references"):
        DecisionService("fifo", "v100=1", tmp_path / "x.db", estimates=other)
