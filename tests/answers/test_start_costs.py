"""Whether costs of starts change who is in front: by batches of jobs, not by the least mean."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from apportion.answers.advice import costs_in_words

NOISE = np.random.default_rng(0).normal(0, 60, 100)


def ran(extra_s: float, noise: float = 0.0) -> Any:
    """A run of 100 jobs that take an hour each, and some seconds more."""
    jct_s = 3600.0 + extra_s + noise * NOISE
    return SimpleNamespace(measured=pd.DataFrame({"arrival_s": np.arange(100.0), "jct_s": jct_s}))


def test_chance_changes_nobody() -> None:
    at = {0.0: {"a": ran(0), "b": ran(5, 1)}, 5.0: {"a": ran(5), "b": ran(0, 1)}}
    verdict, told = costs_in_words(at, 0.95)
    assert verdict == "Nothing that shows."
    assert "x 0: " in told
    assert "a 1.00 h" in told


def test_who_falls_behind_is_named() -> None:
    at = {0.0: {"a": ran(0), "b": ran(1, 1)}, 5.0: {"a": ran(0), "b": ran(600, 1)}}
    verdict, told = costs_in_words(at, 0.95)
    assert verdict == "They put behind, at some of them, b; others stay in front."
    assert told.endswith("x 5: a 1.00 h.")


def test_another_one_in_front_is_said() -> None:
    at = {0.0: {"a": ran(0), "b": ran(600, 1)}, 5.0: {"a": ran(900), "b": ran(0, 1)}}
    assert costs_in_words(at, 0.95)[0] == "They change who is in front."
