"""A store whose calls fail: what was refused has not happened, in memory or on the disk."""

from __future__ import annotations

import json
import shutil
import sqlite3
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pytest
from tests.service.answers import fits
from tests.service.draws import CLUSTER, drawn_messages

import apportion as ap
from apportion.service import DecisionService

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_connect = sqlite3.connect


class Faulty:
    """A connection of which some calls fail, by number from 0: before or after they are done.

    Statements that begin with `refused` fail always.
    """

    def __init__(self, real: sqlite3.Connection) -> None:
        self._real, self.calls = real, 0
        self.fails: Collection[int] = ()
        self.afterwards, self.refused = False, "nothing"

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if not callable(real):
            return real

        def called(*args: Any) -> Any:
            number, self.calls = self.calls, self.calls + 1
            wrong = str(args[:1]).startswith(f"('{self.refused}")
            if wrong or (number in self.fails and not self.afterwards):
                raise sqlite3.OperationalError("disk I/O error")
            found = real(*args)
            if number in self.fails:
                del found  # a cursor that an error holds would keep the file locked
                raise sqlite3.OperationalError("disk I/O error")
            return found

        return called


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> list[Faulty]:
    """The connections that were opened, the last one last."""
    opened: list[Faulty] = []

    def connect(*args: Any, **options: Any) -> Faulty:
        opened.append(Faulty(_connect(*args, **options)))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", connect)
    monkeypatch.setattr("apportion.service.live._STATE_EVERY", 6)
    return opened


def known(service: DecisionService) -> Any:
    """What a service says that it knows, as JSON; asked until it can be read."""
    told = next(each for _ in range(5) if (each := service.answer({"op": "state"}))["ok"])
    return json.loads(json.dumps([told["number"], told["state"], service.health()["jobs"]]))


def reopened(folder: Path) -> Any:
    """What a service knows that is started on a copy of a store as it lies on the disk."""
    copy = folder.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    with DecisionService("max_min_fairness", CLUSTER, copy / "x.db") as again:
        return known(again)


MESSAGES = drawn_messages(21, 9, asks=("decide",))
BATCHES = [MESSAGES[:3], MESSAGES[3:4], MESSAGES[4:7], MESSAGES[7:]]


def played(folder: Path, opened: list[Faulty], fails: Collection[int], afterwards: bool) -> int:
    """Tell messages until each is answered; return the calls that were made."""
    folder.mkdir()
    with DecisionService("max_min_fairness", CLUSTER, folder / "x.db") as service:
        file = opened[-1]
        first = file.calls
        file.fails, file.afterwards = {first + number for number in fails}, afterwards
        for batch in BATCHES:
            left = batch
            for _ in range(8):
                before, answers = service.health(), service.answer_all(left)
                after = service.health()
                assert after["messages"] - before["messages"] == len(left)
                refused = sum(not each["ok"] for each in answers)
                assert after["refused"] - before["refused"] == refused
                assert all(fits(each)["ok"] or each["retry"] for each in answers), answers
                assert known(service) == reopened(folder)
                left = [m for m, each in zip(left, answers, strict=True) if not each["ok"]]
                if not left:
                    break
            assert not left
        done = file.calls - first
        file.fails = ()
    with DecisionService("max_min_fairness", CLUSTER, folder / "x.db") as again:
        assert [fits(each)["ok"] for each in again.answer_all(MESSAGES)] == [True] * len(MESSAGES)
        assert again.health()["repeated"] == len(MESSAGES)
    return done


@pytest.mark.parametrize(
    "every",
    [
        pytest.param(1020, id="few"),
        pytest.param(9, id="some", marks=pytest.mark.thorough),
        pytest.param(1, id="more", marks=pytest.mark.slow),
    ],
)
def test_memory_is_what_the_disk_has_whatever_fails(
    every: int, tmp_path: Path, store: list[Faulty]
) -> None:
    calls = played(tmp_path / "clean", store, (), False)
    assert calls > 40
    rng = np.random.default_rng(every)
    for first in range(every % 40, calls, every):
        for more in range(3):
            near = first + 1 + rng.choice(14, more, replace=False)
            folder = tmp_path / f"{first} {more}"
            played(folder, store, {first, *near.tolist()}, bool(rng.random() < 0.3))


def test_a_disk_that_takes_small_writes_and_no_messages(
    tmp_path: Path, store: list[Faulty]
) -> None:
    """Twice in a row, with a small write between them that succeeds."""

    def add(name: str) -> dict[str, Any]:
        return {"op": "add", "id": name, "jobs": {name: {"throughputs": {"v100": 1.0}}}, "at_s": 1}

    folder = tmp_path / "store"
    folder.mkdir()
    with DecisionService("max_min_fairness", CLUSTER, folder / "x.db") as service:
        assert service.answer(add("a"))["ok"]
        store[-1].refused = "INSERT INTO message"
        for names in ("bc", "de"):
            assert not any(each["ok"] for each in service.answer_all([*map(add, names)]))
        health = service.health()
        assert (health["jobs"], health["kept_messages"], health["refused"]) == (1, 1, 4)
        store[-1].refused = "nothing"
        assert [fits(each)["ok"] for each in service.answer_all([*map(add, "bcde")])] == [True] * 4
        assert known(service) == reopened(folder)


class GeometricMean(ap.Policy):
    """Linear while there is one job."""

    name = "geometric_mean"

    def objective(self, p: Any) -> Any:
        return cp.Maximize(cp.geo_mean(cp.multiply(1 / p.fastest_throughput, p.throughput)))


class Breaks(GeometricMean):
    """Cannot read what was told of some jobs."""

    name = "breaks"
    columns = ("own",)

    def objective(self, p: Any) -> Any:
        return cp.Maximize(p.throughput @ [{1.0: 1.0}[each] for each in p.column("own")])


def test_jobs_that_change_the_kind_of_a_problem_are_decided_about() -> None:
    speeds = {"a": {"v100": 2.0, "k80": 2.0}, "b": {"v100": 3.0, "k80": 2.0}, "c": {"v100": 4.0}}
    with DecisionService(GeometricMean(), "v100=2,k80=2") as service:
        there: dict[str, Any] = {}
        for at_s, job in enumerate([*speeds, "b", "c"]):
            if job not in there:
                there[job] = speeds[job]
                message: Any = {"op": "add", "jobs": {job: {"throughputs": speeds[job]}}}
            else:
                del there[job]
                message = {"op": "remove", "jobs": [job]}
            assert service.answer(message | {"at_s": at_s})["ok"]
            found = service.answer({"op": "decide", "at_s": at_s})["decision"]
            cold = ap.solve(GeometricMean(), there, workers="v100=2,k80=2")
            assert found["objective"] == pytest.approx(cold.objective, rel=1e-6)


@pytest.mark.parametrize("devices", [False, True])
def test_a_policy_that_breaks_is_a_refusal_and_no_end(devices: bool, tmp_path: Path) -> None:
    decide = {"op": "decide", "devices": devices, "at_s": 2}
    with DecisionService(Breaks(), "v100=2", tmp_path / "x.db") as service:
        job = {"throughputs": {"v100": 1.0}, "own": 2.0}
        assert service.answer({"op": "add", "jobs": {"a": job}, "at_s": 1})["ok"]
        refused = fits(service.answer(decide))
        assert not refused["ok"]
        assert "breaks failed with KeyError" in refused["error"]
        assert service.health()["refused"] == 1
        both = service.answer_all([decide, {"op": "update", "jobs": {"a": {"own": 1.0}}}])
        assert [each["ok"] for each in both] == [False, False]  # a time, then none
        assert service.answer({"op": "update", "jobs": {"a": {"own": 1.0}}, "at_s": 3})["ok"]
        assert service.answer(decide | {"at_s": 4})["ok"]
        state = known(service)
    with DecisionService(Breaks(), "v100=2", tmp_path / "x.db") as again:
        assert known(again) == state


def test_whatever_fails_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where this package is wrong: nothing has changed, and the rest is answered."""

    def wrong(*_: object, **__: object) -> None:
        raise RuntimeError("something of ours")

    add = {"op": "add", "jobs": {"a": {"throughputs": {"v100": 1.0}}}, "at_s": 1}
    with DecisionService("fifo", "v100=2") as service:
        assert service.answer(add)["ok"]
        with monkeypatch.context() as within:
            within.setattr("apportion.service.known.Known._remove", wrong)
            messages = [{"op": "remove", "jobs": ["a"], "at_s": 2}, {"op": "health"}]
            remove, health = map(fits, service.answer_all(messages))
        assert "RuntimeError: something of ours" in remove["error"]
        assert (health["health"]["jobs"], health["health"]["refused"]) == (1, 1)
        assert service.answer({"op": "decide", "at_s": 3})["ok"]
