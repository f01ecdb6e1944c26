from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from apportion.errors import InputError
from apportion.sim.job_types import job_type_throughputs, job_types
from apportion.sim.traces.oracle import read_oracle, read_throughputs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Write = Callable[..., Path]

ORACLE = {
    "k80": {"('lm', 1)": {"null": 2, "('lm', 1)": [1.5, 1.5]}, "('lm', 4)": {"null": 0.0}},
    "v100": {"('lm', 1)": {"null": 8.5}, "('gan', 1)": {"null": 4.0}},
    "v100_unconsolidated": {"('lm', 4)": {"null": 9.0}},
}


def test_isolated_entries_become_rows(write: Write) -> None:
    table = read_oracle(write("o.json", json.dumps(ORACLE)))
    assert table.index.names == ["job_type", "scale_factor"]
    assert table.to_dict() == {
        "k80": {("lm", 1): 2.0, ("lm", 4): 0.0, ("gan", 1): 0.0},
        "v100": {("lm", 1): 8.5, ("lm", 4): 0.0, ("gan", 1): 4.0},
    }


def test_spread_out_speeds_are_kept_on_request(write: Write) -> None:
    table = read_oracle(write("o.json", json.dumps(ORACLE)), unconsolidated=True)
    assert list(table.columns) == ["k80", "v100", "v100_unconsolidated"]
    assert table.loc[("lm", 4), "v100_unconsolidated"] == 9.0


def test_keys_without_gpu_counts_stand_for_one_gpu(write: Write) -> None:
    table = read_oracle(write("o.json", json.dumps({"v100": {"lm (batch size 5)": {"null": 1}}})))
    assert table.index.tolist() == [("lm (batch size 5)", 1)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "no JSON from here on"),
        ("[]", "no throughputs by accelerator"),
        ({"v100": 3}, "'v100' must hold throughputs"),
        ({"v100": {"('lm', 1)": {}}}, r"'v100'.*has no number under 'null'"),
        ({"v100": {"('lm', __import__('os'))": {"null": 1}}}, "cannot read the key"),
        ({"v100": {"('lm',": {"null": 1}}}, "cannot read the key"),
        ({"v100": {"('lm', 0)": {"null": 1}}}, "scale factor"),
        ({"v100": {"('lm', 1)": {"null": -1}}}, "finite number >= 0"),
    ],
)
def test_what_is_no_oracle_is_refused(write: Write, content: Any, message: str) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    with pytest.raises(InputError, match=message):
        read_oracle(write("o.json", text))


def test_throughputs_come_from_csv_json_and_frames_alike(write: Write) -> None:
    csv = write("t.csv", "v100,scale_factor,job_type", "8.5,1,lm", "4,1,gan")
    from_csv = read_throughputs(csv)
    assert from_csv.to_dict() == {"v100": {("lm", 1): 8.5, ("gan", 1): 4.0}}
    pd.testing.assert_frame_equal(read_throughputs(from_csv), from_csv)
    oracle = write("o.json", json.dumps({"v100": ORACLE["v100"]}))
    pd.testing.assert_frame_equal(read_throughputs(oracle), from_csv)
    with pytest.raises(InputError, match=r"t\.csv, line 3: v100 is 'x'.*steps/s"):
        read_throughputs(write("t.csv", "job_type,scale_factor,v100", "lm,1,2", "gan,1,x"))


def test_published_oracle(shared_data: Callable[[str], Path]) -> None:
    path = shared_data("gavel/simulation_throughputs.json.gz")
    table = read_oracle(path)
    assert table.shape == (83, 3)
    # On v100, the median speed-up of 2, 4 and 8 GPUs together is 1.81, 2.28 and 6.48.
    by_gangs = table["v100"].unstack()
    several = by_gangs[by_gangs[8].notna()]
    speedups = several.div(several[1], axis=0)[[2, 4, 8]].median()
    assert speedups.round(2).tolist() == [1.81, 2.28, 6.48]
    # Too large for the memory of a k80 once there are several of them.
    never = table.index[table["k80"] == 0].tolist()
    assert never == [("ResNet-50 (batch size 128)", gpus) for gpus in (2, 4, 8)]
    assert list(read_oracle(path, unconsolidated=True).columns[3:]) == [
        "v100_unconsolidated",
        "p100_unconsolidated",
        "k80_unconsolidated",
    ]


def test_the_table_of_job_types_is_the_published_one_rounded(
    shared_data: Callable[[str], Path],
) -> None:
    published = read_oracle(shared_data("gavel/simulation_throughputs.json.gz"))
    single = pd.DataFrame(published.xs(1, level="scale_factor"))
    single = single.loc[job_types().index, job_types().columns]
    pd.testing.assert_frame_equal(job_types(), single, rtol=0.005)
    ours = job_type_throughputs().loc[published.index, published.columns]
    ratio = (ours / published.where(published > 0)).to_numpy()
    assert np.nanmedian(ratio) == pytest.approx(1, abs=0.05)
