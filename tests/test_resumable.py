"""What a class says it keeps comes back as it was, in place where it is a part or a generator."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from apportion.mechanism.inference.slots import GpuState
from apportion.mechanism.scheduler import DutyCycle
from apportion.resumable import Resumable, packed, unpacked


class Inner:
    """A part by duck typing."""

    def __init__(self) -> None:
        self.count = 0

    def state(self) -> int:
        return self.count

    def restore(self, state: int) -> None:
        self.count = state


class Outer(Resumable):
    kept = ("_rows", "rng", "inner", "nothing")

    def __init__(self) -> None:
        self._rows, self.rng, self.inner = np.zeros(3), np.random.default_rng(0), Inner()
        self.nothing = None


def test_a_class_has_its_state_by_the_names_of_what_is_kept() -> None:
    one, other = Outer(), Outer()
    one._rows = np.array([np.nan, -0.0, 1 / 3])
    one.inner.count = 7
    one.rng.normal(size=5)
    rng, inner = other.rng, other.inner
    state = json.loads(json.dumps(one.state()))
    assert list(state) == ["rows", "rng", "inner", "nothing"]
    other.restore(state)
    assert other.rng is rng
    assert other.inner is inner
    assert inner.count == 7
    assert other._rows.tobytes() == one._rows.tobytes()
    assert other.rng.random() == one.rng.random()


@pytest.mark.parametrize(
    "value",
    [
        {(1, "a"): [1.5, None], 2: {3: True}},
        [{3, 1}, frozenset({(1, 2)}), (), {}, "data", np.inf],
        {"data": 1, "kind": "tuple"},
        [GpuState.WARM, (GpuState.FREE, 1)],
    ],
)
def test_values_come_back_equal_and_of_the_same_kinds(value: Any) -> None:
    again = unpacked(json.loads(json.dumps(packed(value))))
    assert (again, repr(again)) == (value, repr(value))


def test_named_tuples_come_back_as_such() -> None:
    duty_cycle = DutyCycle(*np.arange(6.0).reshape(3, 2))
    again = unpacked(json.loads(json.dumps(packed(duty_cycle))))
    assert isinstance(again, DutyCycle)
    assert np.array(again).tolist() == np.array(duty_cycle).tolist()


def test_what_no_state_holds_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match="A state holds no object"):
        packed([object()])
    for written in ({"os.system": ["ls"]}, {"builtins.eval": ["1"]}):
        with pytest.raises(ValueError, match="no named tuple or enumeration"):
            unpacked(written)
