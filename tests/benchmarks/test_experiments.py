from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from tests.in_process import run_benchmark

from apportion.errors import ApportionError
from benchmarks.experiment import Settings, parser, run_all, verdict
from benchmarks.gavel.load_claims import judged_by
from benchmarks.gavel.workloads import draw_jobs, read_trace

if TYPE_CHECKING:
    import argparse

ROOT = Path(__file__).parents[2]
EXPERIMENTS = (
    "gavel.testbed",
    "gavel.load",
    "gavel.hierarchy",
    "gavel.scaling",
    "gavel.rounds",
    "gavel.leases",
    "gavel.strategy_proof",
    "gavel.cost",
)


def run(experiment: str, *options: str) -> str:
    printed = run_benchmark(experiment, *options, folder=ROOT)
    assert printed.err == ""  # progress is for a terminal only
    return printed.out


def options_of(out: Path | None, *more: str) -> argparse.Namespace:
    folder = [] if out is None else ["--out", str(out)]
    return parser("test", "Test.", "less").parse_args(["--data", "nowhere", *folder, *more])


def square(settings: Settings, data: Path | None) -> dict[str, float]:
    assert data is None
    # The folder, as a file that settings name is known by what it holds.
    with (Path(settings["folder"]) / "log").open("a", encoding="utf-8") as log:
        log.write(f"{settings['x']}\n")
    return {"square": float(settings["x"]) ** 2}


def odd(settings: Settings, data: Path | None) -> dict[str, object]:
    return {"missing": float("nan"), "infinite": np.float64("inf"), "none": None, "text": "a"}


def test_finished_runs_are_found_again_and_cut_off_ones_run_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    settings = [{"x": x, "folder": str(tmp_path)} for x in (1, 2, 3)]
    first = run_all(square, settings[:2], options_of(tmp_path), "squares")
    assert first["square"].tolist() == [1.0, 4.0]
    store = tmp_path / "squares.runs.jsonl"
    store.write_text(store.read_text()[:-9])  # as if interrupted while writing the second
    again = run_all(square, settings, options_of(tmp_path), "squares")
    assert again["square"].tolist() == [1.0, 4.0, 9.0]
    assert log.read_text().split() == ["1", "2", "2", "3"]
    run_all(square, settings, options_of(tmp_path, "--fresh"), "squares")
    assert log.read_text().split() == ["1", "2", "2", "3", "1", "2", "3"]


def test_a_file_of_something_else_is_named_by_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "squares.runs.jsonl").write_text(json.dumps({"other": 1}) + "\n")
    settings = [{"x": 3, "folder": str(tmp_path)}]
    rows = run_all(square, settings, options_of(tmp_path), "squares")
    assert rows["square"].tolist() == [9.0]
    assert "squares.runs.jsonl, line 1: damaged" in caplog.text


def test_figures_without_a_value_come_back_as_they_were(tmp_path: Path) -> None:
    first, again = (run_all(odd, [{"x": 1}], options_of(tmp_path), "odd") for _ in range(2))
    assert len((tmp_path / "odd.runs.jsonl").read_text().splitlines()) == 1
    pd.testing.assert_frame_equal(first, again)
    assert again["infinite"].tolist() == [np.inf]


def test_the_others_run_before_a_failure_is_raised(tmp_path: Path) -> None:
    settings = [{"x": x, "folder": str(tmp_path)} for x in ("one", 2, 3)]
    with pytest.raises(ApportionError, match=r"squares, .*'one'.*ValueError"):
        run_all(square, settings, options_of(tmp_path), "squares")
    run_all(square, settings[1:], options_of(tmp_path), "squares")
    assert (tmp_path / "log").read_text().split() == ["one", "2", "3"]


def test_processes_change_the_order_of_work_and_not_of_rows(tmp_path: Path) -> None:
    settings = [{"x": x, "folder": str(tmp_path)} for x in range(6)]
    rows = run_all(square, settings, options_of(None, "--jobs", "2"), "squares")
    assert rows["square"].tolist() == [x**2 for x in range(6)]


@pytest.mark.parametrize(("holds", "word"), [(True, "holds"), (False, "does not hold")])
def test_a_verdict_says_what_and_why(
    holds: bool, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verdict("it is so", holds, "1 < 2")["verdict"] == word
    assert capsys.readouterr().out == f"{word}: it is so (1 < 2)\n"


def test_generated_jobs_run_for_their_duration_on_a_v100(public_data: Path) -> None:
    workload = draw_jobs(public_data / "gavel", jobs=200, seed=5, jobs_per_hour=4.0)
    speed = workload.throughput_of({"v100": 4})["v100"].to_numpy()
    seconds = workload.jobs["total_steps"].to_numpy() / speed
    np.testing.assert_allclose(seconds, workload.jobs["duration_s"])
    assert workload.pairs is not None
    drawn = workload.jobs["job_type"].nunique()
    assert (workload.jobs["scale_factor"] == 1).all()
    assert 23 <= drawn <= 26


def test_traces_have_stand_ins_of_their_shape() -> None:
    assert len(read_trace(None, "makespan")) == 100
    arrivals = read_trace(None, "arrivals", 20)
    assert len(arrivals) == 20
    assert arrivals.jobs["arrival_s"].is_monotonic_increasing
    assert arrivals.jobs["arrival_s"].iloc[-1] > 0


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_experiments_explain_themselves(experiment: str) -> None:
    shown = run(experiment, "--help")
    assert "--quick" in shown
    assert "--fresh" in shown


@pytest.mark.slow
def test_hierarchy_shares_follow_the_weights_without_the_data(tmp_path: Path) -> None:
    absent = ("--data", str(tmp_path / "nowhere"))
    shown = run("gavel.hierarchy", "--quick", *absent, "--out", str(tmp_path))
    assert "skipped: data absent" in shown
    table = pd.read_csv(tmp_path / "gavel_hierarchy.csv")
    np.testing.assert_allclose(table["meant"], table["by weight"], rtol=1e-4)
    np.testing.assert_allclose(table["had"], table["by weight"], rtol=0.05)
    assert (tmp_path / "gavel_hierarchy.png").stat().st_size > 1000
    assert "not reproduced" not in shown


@pytest.mark.slow
def test_leases_cut_what_starting_costs(tmp_path: Path) -> None:
    absent = ("--data", str(tmp_path / "nowhere"))
    run("gavel.leases", "--quick", *absent, "--out", str(tmp_path))
    table = pd.read_csv(tmp_path / "gavel_leases.csv")
    paid = table[table["overhead_s"] > 0]
    lost = paid.pivot(index=["workload", "overhead_s"], columns="leases", values="lost %")
    assert (lost[True] < lost[False]).all()
    # Without leases a job pays once a round, so this much but for rounds that end early.
    rounds = lost.index.get_level_values("overhead_s").to_numpy() / 360.0
    assert (lost[False] >= 100 * rounds * (1 - 1e-9)).all()
    assert (lost[False] < 130 * rounds).all()


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_experiments_run_on_gavels_data(experiment: str, public_data: Path, tmp_path: Path) -> None:
    data = ("--data", str(public_data / "gavel"))
    shown = run(experiment, "--quick", *data, "--out", str(tmp_path))
    assert "skipped" not in shown
    assert len(pd.read_csv(tmp_path / f"{experiment.replace('.', '_')}.csv")) > 3
    assert (tmp_path / f"{experiment}.png").stat().st_size > 1000


def test_claims_of_loads_follow_from_their_table() -> None:
    """Only policies that were run are judged, and every load counts."""

    def judged(jobs_are: str, aware: list[float], **columns: list[float]) -> dict[str, str]:
        names = ["max_min_fairness_agnostic"] * 2 + ["max_min_fairness"] * 2
        if jobs_are == "weighted":
            names = ["hierarchical_fairness_agnostic"] * 2 + ["hierarchical_fairness"] * 2
        table = pd.DataFrame({"load": [4.0, 5.6] * 2, "policy": names, "Gavel h": float("nan")})
        table["FTF"] = 1.0
        found = judged_by(jobs_are, table.assign(**{"JCT h": [20.0, 30.0, *aware]}, **columns))
        return {row["claim"].removeprefix("gavel."): row["verdict"] for row in found}

    assert judged("single", [10.0, 29.0]) == {"load-aware": "reproduced"}
    assert judged("single", [10.0, 30.0]) == {"load-aware": "not reproduced"}
    assert judged("gangs", [10.0, 29.0]) == {"load-gangs": "reproduced"}
    high, low = [9.0, 9.0, 8.0, 8.0], [9.0, 9.0, 8.0, 10.0]
    both = {"high h": high, "low h": high}
    assert judged("weighted", [10.0, 10.0], **both) == {"priorities": "reproduced"}
    both["low h"] = low
    assert judged("weighted", [10.0, 10.0], **both) == {"priorities": "not reproduced"}
