"""The machine by itself: cells that square numbers, without any simulation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apportion.errors import ApportionError, InputError, SolveError
from apportion.experiments.machine import leases
from apportion.experiments.machine.backends import Where
from apportion.experiments.machine.cells import Cell, Failure, Work
from apportion.experiments.machine.leases import FileLeases
from apportion.experiments.machine.run import Outcome, carry_out
from apportion.experiments.machine.store import FILE, Store

DONE: list[float] = []


def square(task: float, report: object, shared: float) -> float:
    DONE.append(task)
    if task < 0:
        raise SolveError("below zero")
    return task**2 + shared


def unpacked(cell: Cell, record: Any) -> float:
    return float(record["square"])


WORK = Work(square, 0.5, lambda cell, result: {"square": result}, unpacked)


def cells(*tasks: float) -> list[Cell]:
    return [Cell({"place": place, "x": x}, f"x{x}", x) for place, x in enumerate(tasks)]


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    del DONE[:]


def carried_out(folder: Path | None, *tasks: float, resume: bool = True) -> Outcome:
    store = Store(None if folder is None else folder / FILE)
    store.open(resume=resume)
    return carry_out(cells(*tasks), WORK, store, Where(n_jobs=1), progress=False)


def test_any_order_of_calls_ends_with_the_same_results(tmp_path: Path) -> None:
    # Against a plain model: a set of finished numbers; what is negative fails each time.
    rng, finished = np.random.default_rng(0), set[float]()
    for _ in range(60):
        tasks = [float(each) for each in rng.integers(-3, 9, rng.integers(0, 7))]
        resume = bool(rng.random() < 0.9)
        finished = finished if resume else set()
        del DONE[:]
        outcome = carried_out(tmp_path, *tasks, resume=resume)
        assert [task for task in dict.fromkeys(tasks) if task not in finished] == DONE
        assert outcome.resumed == sum(task in finished for task in tasks)
        assert outcome.results == {f"x{x}": x**2 + 0.5 for x in tasks if x >= 0}
        assert set(outcome.failures) == {f"x{x}" for x in tasks if x < 0}
        results, failures = outcome.by("place", cells(*tasks))
        assert sorted([*results, *failures]) == list(range(len(tasks)))
        finished |= {task for task in tasks if task >= 0}


def test_without_a_file_nothing_is_kept() -> None:
    for _ in range(2):
        assert carried_out(None, 3.0).results == {"x3.0": 9.5}
    assert DONE == [3.0, 3.0]


def test_a_stored_line_of_another_kind_of_work_runs_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Store(tmp_path / FILE).append({"fingerprint": "x3.0", "cube": 27.0, "error": None})
    assert carried_out(tmp_path, 3.0).results == {"x3.0": 9.5}
    assert "place 0, x 3.0 runs again" in caplog.text
    del DONE[:]
    assert carried_out(tmp_path, 3.0).resumed == 1
    assert DONE == []


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (SolveError("no solver"), SolveError, "Here: no solver"),
        (InputError("bad"), InputError, "Here: bad"),
        (ApportionError("odd"), ApportionError, "Here: odd"),
        (KeyError("a"), ApportionError, "Here: KeyError: 'a'"),
    ],
)
def test_a_failure_keeps_its_kind_its_words_and_where_it_came_from(
    error: Exception, kind: type[ApportionError], text: str
) -> None:
    failure = Failure.of(error)
    assert str(failure) == f"{type(error).__name__}: {error}"
    made = failure.error("Here: ")
    assert type(made) is kind
    assert str(made) == text
    assert type(error).__name__ in failure.cause().__notes__[0]


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="forks, to load modules once")
@pytest.mark.parametrize(("draws", "first"), [(3, 0), pytest.param(120, 3, marks=pytest.mark.slow)])
def test_drivers_share_the_cells_of_a_folder(draws: int, first: int) -> None:
    # In a process of its own: a fork of a test session may wait for its threads for ever.
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("drivers.py")), str(draws), str(first)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"draws": draws, "wrong": {}}, done.stderr


def test_a_lease_is_held_by_one(tmp_path: Path) -> None:
    mine, yours = FileLeases(tmp_path / "l"), FileLeases(tmp_path / "l")
    odd = "a/b c.7"
    with mine.at_work():
        assert mine.take("x")
        assert mine.take("x")
        assert mine.take(odd)
        assert not yours.take("x")
        assert not yours.take(odd)
        assert yours.free(["x", odd, "y"]) == ["y"]
        assert len(yours.others()) == 1
        assert mine.others() == []
        mine.release("x")
        assert yours.take("x")
        assert not mine.take("x")
    assert yours.take(odd)
    yours.release("x")
    yours.release(odd)
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize(("gone", "same_machine"), [(True, True), (True, False), (False, True)])
def test_a_lease_goes_to_others_when_its_process_is_gone_or_renews_it_no_more(
    gone: bool, same_machine: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(leases, "monotonic", lambda: now_s[0])
    with monkeypatch.context() as patch:
        patch.setattr(leases, "_began", lambda process: "long ago" if gone else "now")
        patch.setattr(leases, "this_machine", lambda: "here" if same_machine else "there")
        assert FileLeases(tmp_path / "l").take("x")
    monkeypatch.setattr(leases, "_began", lambda process: "now")
    monkeypatch.setattr(leases, "this_machine", lambda: "here")
    others = [FileLeases(tmp_path / "l") for _ in range(2)]
    at_once = gone and same_machine
    assert others[0].take("x") == at_once
    now_s[0] = leases.SECONDS_TO_EXPIRE - 1.0
    assert others[0].take("x") == at_once
    now_s[0] = leases.SECONDS_TO_EXPIRE + 1.0
    assert others[0].take("x")
    assert not others[1].take("x")
    others[0].release("x")
    assert not (tmp_path / "l").exists()


def test_what_others_are_at_work_on_cannot_begin_anew(tmp_path: Path) -> None:
    at_work = FileLeases(tmp_path / f"{FILE}.leases")
    with at_work.at_work(), pytest.raises(InputError, match=r"process \d+ on .* is at work on it"):
        carried_out(tmp_path, 3.0, resume=False)
    assert carried_out(tmp_path, 3.0, resume=False).results == {"x3.0": 9.5}


def test_where_no_lease_can_be_written_cells_are_carried_out(tmp_path: Path) -> None:
    (tmp_path / f"{FILE}.leases").write_text("a file where the folder would be")
    assert carried_out(tmp_path, 3.0).results == {"x3.0": 9.5}
