from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import InputError
from apportion.pairs import PairThroughputs

KEYS = pd.MultiIndex.from_tuples([("lm", 1), ("gan", 1), ("lm", 2)])


def example() -> PairThroughputs:
    own = np.zeros((3, 3, 2))
    own[0, 1] = [8.0, 2.0]
    own[1, 0] = [3.0, 1.0]
    own[0, 2, 0], own[2, 0, 0] = 5.0, 12.0
    alone = np.array([[10.0, 4.0], [4.0, 2.0], [16.0, 0.0]])
    return PairThroughputs(own, alone, KEYS, ("v100", "k80"))


def test_normalised_by_the_speed_alone_with_zeros_kept() -> None:
    normalized = example().normalized()
    np.testing.assert_allclose(normalized[0, 1], [0.8, 0.5])
    np.testing.assert_allclose(normalized[2, 0], [0.75, 0.0])
    assert normalized[1, 2].tolist() == [0.0, 0.0]


def test_selection_keeps_the_order_asked_for() -> None:
    chosen = example().select([("gan", 1), ("lm", 1)])
    assert chosen.keys.tolist() == [("gan", 1), ("lm", 1)]
    assert chosen.own[..., 0].tolist() == [[0.0, 3.0], [8.0, 0.0]]
    assert chosen.alone[:, 0].tolist() == [4.0, 10.0]
    with pytest.raises(InputError, match=r"Unknown key .*\('gen', 1\)\. Did you mean .*gan"):
        example().select([("gen", 1)])


def test_frame_lists_jobs_alone_and_pairs_that_share() -> None:
    frame = example().to_frame()
    alone = frame[frame["partner_type"].isna()]
    assert len(alone) == 6
    assert len(frame) == 6 + 6
    row = frame[(frame["job_type"] == "lm") & (frame["partner_scale_factor"] == 2)]
    assert row[["scale_factor", "partner_type", "accelerator", "steps_per_s"]].values.tolist() == [
        [1, "lm", "v100", 5.0]
    ]


@pytest.mark.thorough
@settings(max_examples=25)
@given(st.integers(0, 1000))
def test_frame_round_trip(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own = rng.random((3, 3, 2))
    own[(own < 0.3) | (own.transpose(1, 0, 2) < 0.3)] = 0.0
    pairs = PairThroughputs(own, rng.random((3, 2)), KEYS, ("v100", "k80"))
    shuffled = pairs.to_frame().iloc[::-1]
    for frame in (pairs.to_frame(), shuffled):
        again = PairThroughputs.of_frame(frame)
        order = again.select(pairs.keys.tolist())
        columns = [again.accelerators.index(name) for name in pairs.accelerators]
        np.testing.assert_array_equal(order.own[..., columns], pairs.own)
        np.testing.assert_array_equal(order.alone[:, columns], pairs.alone)


def test_arrays_cannot_be_changed_from_outside() -> None:
    own = np.zeros((3, 3, 2))
    pairs = PairThroughputs(own, np.ones((3, 2)), KEYS, ("v100", "k80"))
    own[0, 0, 0] = 7.0
    assert pairs.own[0, 0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        pairs.own[0, 0, 0] = 1.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"own": {(0, 1, 0): 0.0}}, r"\('gan', 1\) beside \('lm', 1\) on 'v100' runs, but \('lm'"),
        ({"own": {(0, 1, 1): -1.0}}, r"\('lm', 1\) beside \('gan', 1\) on 'k80' is -1.0; it must"),
        ({"own": {(2, 2, 0): np.inf}}, r"\('lm', 2\) beside \('lm', 2\) on 'v100' is inf"),
        ({"alone": {(1, 1): np.nan}}, r"throughput of \('gan', 1\) on 'k80' is nan"),
    ],
)
def test_bad_values_are_named(
    change: dict[str, dict[tuple[int, ...], float]], message: str
) -> None:
    arrays = {name: np.array(getattr(example(), name)) for name in ("own", "alone")}
    for name, cells in change.items():
        for cell, value in cells.items():
            arrays[name][cell] = value
    with pytest.raises(InputError, match=message):
        PairThroughputs(arrays["own"], arrays["alone"], KEYS, ("v100", "k80"))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"accelerators": ("v100", "v100")}, "Duplicate accelerator.*'v100'"),
        ({"accelerators": ("v100",)}, r"`own` has shape \(3, 3, 2\); .* \(3, 3, 1\)"),
        ({"keys": KEYS[[0, 0, 1]]}, r"Duplicate key.*\('lm', 1\)"),
        ({"keys": pd.MultiIndex.from_tuples([("a", 1, 2)] * 3)}, "got 3 levels"),
    ],
)
def test_bad_labels_are_named(labels: dict[str, Any], message: str) -> None:
    given_labels = {"keys": KEYS, "accelerators": ("v100", "k80")} | labels
    with pytest.raises(InputError, match=message):
        PairThroughputs(example().own, example().alone, **given_labels)


def test_bad_frames_are_named() -> None:
    frame = example().to_frame()
    with pytest.raises(InputError, match="no column 'steps_per_s'"):
        PairThroughputs.of_frame(frame.drop(columns="steps_per_s"))
    with pytest.raises(InputError, match=r"have the row \(.*'v100'\) twice"):
        PairThroughputs.of_frame(pd.concat([frame, frame.tail(1)]))
    with pytest.raises(InputError, match=r"\('gan', 1\) on 'k80' is nan"):
        PairThroughputs.of_frame(frame.assign(steps_per_s=[*frame["steps_per_s"][:3], *"x" * 9]))
    unnamed = frame.assign(accelerator=frame["accelerator"].where(frame.index != 1))
    with pytest.raises(InputError, match="Row 1 of the pair throughputs names no accelerator"):
        PairThroughputs.of_frame(unnamed)
    words = frame["partner_scale_factor"].astype(object).where(frame.index < 6, "x")
    with pytest.raises(InputError, match=r"Unknown key .*\('gan', 'x'\)"):
        PairThroughputs.of_frame(frame.assign(partner_scale_factor=words))
    partners = frame[frame["partner_type"].isna() | (frame["scale_factor"] == 2)]
    only = partners[~(partners["partner_type"].isna() & (partners["job_type"] == "gan"))]
    with pytest.raises(InputError, match=r"\('gan', 1\)"):
        PairThroughputs.of_frame(pd.concat([only, frame[frame["job_type"] == "gan"].tail(1)]))
