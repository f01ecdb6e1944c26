from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apportion.errors import InputError
from apportion.sim.traces.oracle import read_pair_oracle

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
