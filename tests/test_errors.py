from __future__ import annotations

import numpy as np
import pytest

from apportion.errors import (
    ApportionError,
    InfeasibleError,
    InputError,
    SolveError,
    unknown_name,
    written,
)


def test_errors_can_be_caught_by_their_kind() -> None:
    assert issubclass(InputError, (ApportionError, ValueError))
    assert issubclass(InputError, ValueError)
    assert issubclass(SolveError, ApportionError)
    assert issubclass(SolveError, RuntimeError)
    assert issubclass(InfeasibleError, SolveError)
    assert not issubclass(SolveError, InputError)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("max_min_fairnes", "max_min_fairness"), ("makspan", "makespan"), ("FIFO", None), (7, None)],
)
def test_the_nearest_name_is_offered(name: object, nearest: str | None) -> None:
    text = str(unknown_name("policy", name, ["max_min_fairness", "makespan", "fifo"]))
    assert text.startswith(f"Unknown policy {name!r}.")
    assert text.endswith("Valid: max_min_fairness, makespan, fifo.")
    assert ("Did you mean" in text) == (nearest is not None)
    assert nearest is None or f"Did you mean {nearest!r}?" in text


@pytest.mark.parametrize(("given", "other"), [("a100", "v100"), ("h100", "l100")])
def test_another_short_name_is_not_taken_for_a_slip(given: str, other: str) -> None:
    assert "Did you mean" not in str(unknown_name("name", given, [other]))
    assert f"Did you mean {other!r}" in str(unknown_name("name", other + "0", [other]))


def test_values_are_shown_as_a_user_writes_them() -> None:
    assert written(np.int64(7)) == "7"
    assert written(np.float64("nan")) == "nan"
    assert written(np.str_("x")) == written("x") == "'x'"
    assert written(None) == "None"
