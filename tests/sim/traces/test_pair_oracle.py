from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from apportion.errors import InputError
from apportion.sim.traces.oracle import read_oracle, read_pair_oracle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]

LM, GAN = "('lm', 1)", "('gan', 2)"


def test_pairs_of_any_scale_factors_are_read_from_either_side(write: Write) -> None:
    oracle = {
        "k80": {
            LM: {"null": 2, LM: [1.5, 1.4], GAN: [1.0, 3.0]},
            GAN: {"null": 4.0, LM: [3.5, 1.0]},
        },
        "v100": {GAN: {"null": 9, GAN: [0.0, 0.0]}, LM: {"null": 8, GAN: [6, 7]}},
        "k80_unconsolidated": {GAN: {"null": 3.0}},
    }
    pairs = read_pair_oracle(write("o.json", json.dumps(oracle)))
    assert pairs.accelerators == ("k80", "v100")
    assert pairs.keys.tolist() == [("lm", 1), ("gan", 2)]
    assert pairs.alone.tolist() == [[2.0, 8.0], [4.0, 9.0]]
    # What a key says of itself goes before what its partner says of it: 3.5, not 3.
    assert pairs.own[..., 0].tolist() == [[1.5, 1.0], [3.5, 0.0]]
    assert pairs.own[..., 1].tolist() == [[0.0, 6.0], [7.0, 0.0]]
    spread = read_pair_oracle(write("o.json", json.dumps(oracle)), unconsolidated=True)
    assert spread.accelerators == ("k80", "v100", "k80_unconsolidated")


def test_keys_without_gpu_counts_stand_for_one_gpu(write: Write) -> None:
    oracle = {"v100": {"lm": {"null": 4, "gan": [3, 1]}, "gan": {"null": 2, "lm": [1, 3]}}}
    pairs = read_pair_oracle(write("o.json", json.dumps(oracle)))
    assert pairs.keys.tolist() == [("lm", 1), ("gan", 1)]
    assert pairs.normalized()[..., 0].tolist() == [[0.0, 0.75], [0.5, 0.0]]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({LM: [1.0]}, r"'v100', .*lm.* beside .*: \[1.0\] must be two numbers"),
        ({LM: 3}, "3 must be two numbers"),
        ({LM: [1, "x"]}, "must be two numbers"),
        ({GAN: [1, 2]}, r"o\.json: 'v100', .*the partner has no entry of its own"),
        ({LM: [-1, -1]}, r"'v100', .*\('lm', 1\).* beside .*\('lm', 1\).* is -1"),
        ({"('lm',": [1, 2]}, "cannot read the key"),
    ],
)
def test_bad_pairs_are_named(write: Write, entry: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_pair_oracle(write("o.json", json.dumps({"v100": {LM: {"null": 2} | entry}})))


def test_published_oracle(shared_data: Callable[[str], Path]) -> None:
    path = shared_data("gavel/simulation_throughputs.json.gz")
    pairs = read_pair_oracle(path, unconsolidated=True)
    # Of 10,338 entries for pairs, 6,576 are zero, and none is above the speed alone.
    assert np.count_nonzero(pairs.own) == 10_338 - 6_576
    assert pairs.normalized().max() == 1.0
    gangs = pairs.keys.get_level_values(1).to_numpy()
    assert not pairs.own[gangs[:, None] != gangs[None, :]].any()
    table = read_oracle(path, unconsolidated=True)
    np.testing.assert_array_equal(pairs.alone, table.to_numpy())
    single = read_pair_oracle(shared_data("gavel/motivation_oracle_throughputs.json.gz"))
    assert len(single.keys) == 26
