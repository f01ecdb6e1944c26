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
