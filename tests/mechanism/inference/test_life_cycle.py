from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apportion import InputError
from apportion.mechanism.inference import (
    DEEPBOOT_COLD_STARTS,
    PIPESWITCH_COLD_START_S,
    GpuState,
    InferenceGpus,
    ProtectTimes,
    cold_starts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

COLD = {"a": 6.0, "b": 4.0, "c": 2.0}
FREE, RUNNING, PROTECTED, WARM, LOANED = GpuState


def test_protect_times_of_the_worked_case() -> None:
    protect = ProtectTimes()
    assert [protect.after(c) for c in (0, 1, 2, 5, 6, 7)] == [30, 45, 60, 105, 120, 120]
    assert [protect.times(8).after(c) for c in (0, 1, 6)] == [240, 360, 960]


def test_requests_of_the_worked_case() -> None:
    gpus = InferenceGpus([0], {"a": 6.0})
    given = [(0, 10), (40, 5), (50, 2), (120, 4)]
    got = [gpus.request(t, number, "a", d) for number, (t, d) in enumerate(given)]
    assert [each.end_s for each in got if each] == [16, 45, 52, 124]
    assert [each.cold_start_s for each in got if each] == [6, 0, 0, 0]
    gpus.advance(200)
    states = [(each.time_s, each.after.name) for each in gpus.changes]
    assert states == [
        *[(0, "RUNNING"), (16, "PROTECTED"), (40, "RUNNING"), (45, "PROTECTED")],
        *[(50, "RUNNING"), (52, "PROTECTED"), (112, "WARM"), (120, "RUNNING")],
        *[(124, "PROTECTED"), (154, "WARM")],
    ]
    assert gpus.spent_s()[:, 0].tolist() == [0, 16 + 5 + 2 + 4, 24 + 5 + 60 + 30, 8 + 46, 0]


@pytest.mark.parametrize(("after", "ends"), [(0, 46), (1, 90)])
def test_protection_of_the_worked_case_ends_by_itself(after: int, ends: float) -> None:
    gpus = InferenceGpus([0], {"a": 6.0})
    for number, (time_s, duration_s) in enumerate([(0, 10), (40, 5)][: after + 1]):
        gpus.request(time_s, number, "a", duration_s)
    gpus.advance(gpus.next_event_s)
    assert gpus.next_event_s == ends
    gpus.advance(ends)
    assert gpus.states == (WARM,)


def test_order_of_choice() -> None:
    gpus = InferenceGpus([0, 0, 1, 1], COLD)
    gpus.lend(0, 0)
    assert gpus.request(1, "first", "a", 1.0).gpu == 2  # type: ignore[union-attr]
    assert gpus.request(1, "second", "a", 5.0).gpu == 3  # type: ignore[union-attr]
    assert gpus.request(1, "third", "b", 100.0).gpu == 1  # type: ignore[union-attr]
    # Both are protected: GPU 2 ran two in a row, which comes before the lower number.
    assert gpus.request(8.5, "fourth", "a", 1.0).gpu == 2  # type: ignore[union-attr]
    again = gpus.request(13, "fifth", "a", 1.0)
    assert again is not None
    assert (again.gpu, again.cold_start_s) == (2, 0.0)
    # A protected GPU of another service is never taken; a warm one is, the longest warm first.
    assert gpus.request(15, "sixth", "c", 1.0) is None
    gpus.advance(42)
    taken = next(each for each in gpus.served if each.request == "sixth")
    assert (taken.gpu, taken.start_s, taken.cold_start_s) == (3, 42, 2.0)
    assert gpus.states == (LOANED, RUNNING, PROTECTED, RUNNING)


def test_training_may_have_free_gpus_and_warm_ones_only() -> None:
    gpus = InferenceGpus([0, 0, 0], COLD)
    gpus.request(0, 1, "a", 1.0)
    assert gpus.lendable == [1, 2]
    gpus.advance(7)
    for wrong, state in ((0, "protected"),):
        with pytest.raises(InputError, match=f"GPU {wrong} is {state}; it must be free or warm"):
            gpus.lend(7, wrong)
    gpus.advance(37)
    assert gpus.lendable == [1, 2, 0]
    gpus.lend(37, 0)
    got = gpus.request(38, 2, "a", 1.0)
    assert got is not None
    assert got.cold_start_s == 6.0  # what was loaded on GPU 0 is gone


def test_a_loaned_gpu_is_called_back_and_yields_after_a_while() -> None:
    gpus = InferenceGpus([0, 1], COLD)
    gpus.lend(0, 1)
    gpus.request(0, 1, "a", 7.0)
    assert gpus.reclaims_due == 0
    gpus.request(1, 2, "a", 8.0)
    assert (gpus.waiting, gpus.reclaims_due) == (1, 1)
    gpus.reclaim(2, 1, yield_s=30.0)
    assert (gpus.waiting, gpus.reclaims_due, gpus.states[1]) == (1, 0, LOANED)
    gpus.advance(32)
    assert [each.end_s for each in gpus.served] == [13.0, 21.0]
    assert gpus.waiting == 0
    # GPU 0 was there first and took the request, GPU 1 comes back free.
    assert gpus.states[1] == FREE


def test_a_gpu_given_back_while_it_is_called_back_is_there_at_once() -> None:
    gpus = InferenceGpus([0], COLD)
    gpus.lend(0, 0)
    gpus.request(1, 1, "b", 2.0)
    gpus.reclaim(1, 0, yield_s=50.0)
    gpus.give_back(3, 0)
    assert gpus.served[0][2:] == (0, 1, 3, 4.0, 9.0)
    gpus.advance(100)
    assert gpus.states == (WARM,)
    gpus.lend(100, 0)
    assert gpus.next_event_s == float("inf")


def test_cold_starts_by_model() -> None:
    assert cold_starts(["bert-3", "ncf"]) == {"bert-3": 8.0, "ncf": 4.0}
    assert cold_starts(["x"], PIPESWITCH_COLD_START_S) == {"x": PIPESWITCH_COLD_START_S}
    assert set(DEEPBOOT_COLD_STARTS.values()) == {4.0, 6.0, 8.0}
    with pytest.raises(InputError, match="service 'gpt-1' is not known"):
        cold_starts(["gpt-1"])


def test_without_protection_a_gpu_is_warm_at_once() -> None:
    gpus = InferenceGpus([0], COLD, ProtectTimes(0.0, 0.0, 0.0))
    gpus.request(0, 1, "c", 5.0)
    gpus.request(0, 2, "a", 5.0)
    gpus.request(0, 3, "a", 5.0)
    assert gpus.next_event_s == 7.0
    gpus.advance(7)
    assert (gpus.states, gpus.served[1].request) == ((RUNNING,), 2)
    gpus.advance(100)
    assert [each.start_s for each in gpus.served] == [0, 7, 18]
    assert gpus.states == (WARM,)


def test_mistakes_are_named() -> None:
    gpus = InferenceGpus([0, 0], COLD)
    gpus.request(5, 1, "a", 1.0)
    mistakes: dict[str, Callable[[], object]] = {
        "5 s or later": lambda: gpus.advance(4),
        "or later, and finite": lambda: gpus.advance(float("inf")),
        "Unknown service of request 2 'd'": lambda: gpus.request(5, 2, "d", 1.0),
        "The duration of request 2 is 0": lambda: gpus.request(5, 2, "a", 0),
        "Request 1 came before": lambda: gpus.request(5, 1, "a", 1.0),
        "GPU 0 is running; it must be loaned": lambda: gpus.give_back(5, 0),
        "GPU 1 is free; it must be loaned to be called": lambda: gpus.reclaim(5, 1),
        "The number of a GPU is 2": lambda: gpus.lend(5, 2),
        "at least one GPU and one service": lambda: InferenceGpus([], COLD),
        "above the most": lambda: ProtectTimes(200.0),
        "cold start of 'a' is -1": lambda: InferenceGpus([0], {"a": -1.0}),
    }
    for words, mistake in mistakes.items():
        with pytest.raises(InputError, match=words):
            mistake()
    gpus.lend(5, 1)
    with pytest.raises(InputError, match="no waiting request needs it"):
        gpus.reclaim(5, 1)
    gpus.request(5, 3, "a", 1.0)
    gpus.reclaim(5, 1, 9.0)
    with pytest.raises(InputError, match="being called back already"):
        gpus.reclaim(6, 1)
    assert gpus.waiting == 1
