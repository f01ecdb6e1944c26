"""The machine by itself: cells that square numbers, without any simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from apportion.errors import ApportionError, InputError, SolveError
from apportion.experiments.machine.backends import Where
from apportion.experiments.machine.cells import Cell, Failure, Work
from apportion.experiments.machine.run import Outcome, carry_out
from apportion.experiments.machine.store import FILE, Store

if TYPE_CHECKING:
    from pathlib import Path

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
