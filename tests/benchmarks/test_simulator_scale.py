from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from tests.in_process import run_benchmark

from apportion.experiments.machine.store import Store

ROOT = Path(__file__).parents[2]


def run(out: Path) -> str:
    printed = run_benchmark("simulator_scale", "--quick", "--out", str(out), folder=ROOT)
    assert printed.err == ""  # progress is for a terminal only
    return printed.out


@pytest.mark.thorough
def test_the_benchmark_of_scale_measures_and_does_not_run_twice_what_is_done(
    tmp_path: Path,
) -> None:
    assert "rounds per second" in run(tmp_path)
    table = pd.read_csv(tmp_path / "simulator_scale.csv")
    assert table["GPUs"].tolist() == [36, 72]
    assert (table["outside"] > table["all in"]).all()
    assert (table["solves"] <= table["rounds"]).all()
    store = Store(tmp_path / "simulator_scale.runs.jsonl")
    finished = store.finished()
    store.open(resume=False)
    for record in finished.values():
        store.append(json.loads(json.dumps(record).replace('"solves": ', '"solves": 9')))
    run(tmp_path)
    again = pd.read_csv(tmp_path / "simulator_scale.csv")
    # What the file says of finished runs is believed: they were not run again.
    assert again["solves"].tolist() == [int(f"9{solves}") for solves in table["solves"]]
