from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.own_policies import Mine
from tests.seeds import sampled

from apportion.errors import ApportionError, InputError
from apportion.experiments import compare, plan_sweep, simulations, sweep
from apportion.experiments.machine.store import FILE
from apportion.policies import FIFO
from apportion.policies.registry import POLICIES
from apportion.sim import Run, generate_workload, simulate

if TYPE_CHECKING:
    from pathlib import Path

JOBS = {"jobs": 2, "jobs_per_hour": 6.0, "name": "two"}
CLOCKS = ["policy_seconds", "wall_seconds"]


def small(**options: Any) -> Any:
    """Two policies, two loads, two seeds: eight short runs in this process."""
    options = {"loads": [0.5, 2.0], "seeds": [0, 3], "n_jobs": 1, "mechanism": "exact", **options}
    return sweep(["fifo", "isolated"], options.pop("workloads", JOBS), "v100=2,k80=2", **options)


def without_clocks(swept: Any) -> pd.DataFrame:
    table: pd.DataFrame = swept.table().drop(columns=CLOCKS)
    return table


@pytest.fixture(scope="module")
def swept() -> Any:
    """The eight runs, for tests that only look at them."""
    return small()


@pytest.fixture(scope="module")
def any_run() -> Run:
    """A run that stands for others where only matters which there were."""
    return simulate("fifo", generate_workload(jobs=2), "v100=2,k80=2", mechanism="exact")


@pytest.fixture
def simulated(any_run: Run, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Policy and seed of what would be run, in this process."""
    done: list[tuple[str, int]] = []

    def counting(policy: Any, *args: Any, seed: int, **options: Any) -> Run:
        done.append((policy.label, seed))
        return any_run

    monkeypatch.setattr(simulations, "simulate", counting)
    return done


@pytest.mark.thorough
def test_every_row_is_what_a_simulation_by_itself_gives(swept: Any) -> None:
    table = without_clocks(swept)
    assert table["policy"].tolist() == (["fifo"] * 2 + ["isolated"] * 2) * 2
    assert table["load"].tolist() == [0.5] * 4 + [2.0] * 4
    assert table["seed"].tolist() == [0, 3] * 4
    assert set(table["workload"]) == {"two"}
    assert table["error"].tolist() == [None] * 8
    for row in table.to_dict("records"):
        jobs = generate_workload(jobs=2, jobs_per_hour=6.0 * row["load"], seed=row["seed"])
        run = simulate(row["policy"], jobs, "v100=2,k80=2", mechanism="exact", seed=row["seed"])
        for figure, value in run.summary().items():
            if figure not in [*CLOCKS, "policy"]:
                assert row[figure] == value, figure


@pytest.mark.thorough
def test_the_summary_is_over_the_seeds(swept: Any) -> None:
    summary, table = swept.summary(), swept.table()
    assert len(summary) == 4
    assert summary["seeds"].tolist() == [2] * 4
    for row in summary.to_dict("records"):
        same = (table["policy"] == row["policy"]) & (table["load"] == row["load"])
        values = table.loc[same, "mean_jct_s"].tolist()
        assert row["mean_jct_s"] == pytest.approx(sum(values) / 2)
        assert [row["mean_jct_s_lowest"], row["mean_jct_s_highest"]] == sorted(values)


@pytest.mark.thorough
def test_more_of_everything_runs_only_what_is_new(
    tmp_path: Path, simulated: list[tuple[str, int]]
) -> None:
    first = small(out=tmp_path)
    assert len(simulated) == 8
    again = small(out=tmp_path, resolve_seconds=0.0)
    assert len(simulated) == 8
    assert again.resumed == 8
    pd.testing.assert_frame_equal(again.table(), first.table())
    small(out=tmp_path, seeds=[3, 4, 0])
    assert simulated[8:] == [("fifo", 4), ("isolated", 4)] * 2
    del simulated[:]
    for other in (
        {"resample": True},
        {"resolve_seconds": 60.0},
        {"workloads": {**JOBS, "jobs": 3}},
    ):
        small(out=tmp_path, loads=[0.5], seeds=[0], **other)
    assert len(simulated) == 6
    small(out=tmp_path, loads=[0.5], seeds=[0], resume=False)
    assert len(simulated) == 8
    assert len((tmp_path / FILE).read_text().splitlines()) == 2


@pytest.mark.thorough
def test_a_half_written_line_costs_one_run(
    tmp_path: Path, simulated: list[tuple[str, int]]
) -> None:
    whole = small(out=tmp_path)
    content = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(content[:-40])
    del simulated[:]
    resumed = small(out=tmp_path)
    assert simulated == [("isolated", 3)]
    pd.testing.assert_frame_equal(without_clocks(resumed), without_clocks(whole))
    lines = (tmp_path / FILE).read_text().splitlines()
    assert [json.loads(line)["error"] for line in lines] == [None] * 8


@pytest.mark.thorough
@pytest.mark.parametrize(
    "error", sampled([ApportionError("no solver"), ZeroDivisionError("no solver")], 2)
)
def test_a_failing_run_is_a_row_and_is_tried_again(
    error: Exception, any_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(policy: Any, *args: Any, seed: int, **options: Any) -> Run:
        if policy.label == "isolated" and seed == 3:
            raise error
        return any_run

    with monkeypatch.context() as patch:
        patch.setattr(simulations, "simulate", failing)
        swept = small(out=tmp_path, loads=[2.0])
        with pytest.raises(ApportionError, match="1 of 4 runs failed, by policy: 'isolated' 1"):
            small(out=tmp_path, loads=[2.0], raise_on_failure=True)
    errors = swept.errors()
    assert errors["policy"].tolist() == ["isolated"]
    assert errors["seed"].tolist() == [3]
    (said,) = set(errors["error"])
    assert said.startswith(f"{type(error).__name__}: no solver, raised in ")
    assert swept.table()["mean_jct_s"].isna().sum() == 1
    assert swept.summary()["seeds"].tolist() == [2, 1]
    assert "1 failed" in repr(swept)
    written = pd.read_csv(tmp_path / "runs.csv")
    assert written["error"].notna().sum() == 1
    resumed = small(out=tmp_path, loads=[2.0])
    assert resumed.resumed == 3
    assert resumed.errors().empty


def test_a_sweep_of_failures_only_still_has_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any, **options: Any) -> Run:
        raise ApportionError("never")

    monkeypatch.setattr(simulations, "simulate", failing)
    swept = small()
    assert len(swept.errors()) == 8
    assert swept.summary().empty
    assert "8 failed" in repr(swept)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loads": []}, "loads is empty"),
        ({"loads": [1.0, 0.0]}, r"A load is 0\.0; it must be a number"),
        ({"loads": [float("nan")]}, "loads is .nan.; it must be a list"),
        ({"loads": [1, 1.0]}, "loads holds 1 twice"),
        ({"loads": "1,2"}, "loads is '1,2'"),
        ({"loads": 2.0}, r"loads is 2\.0"),
        ({"seeds": [-1]}, "A seed is -1; it must be a whole number >= 0"),
        ({"seeds": [0.5]}, r"seeds is .0\.5.; it must be a list"),
        ({"seeds": 3}, "seeds is 3"),
        ({"backend": "rays"}, "Unknown backend 'rays'. Did you mean 'ray'"),
        ({"address": "127.0.0.1:1"}, "'processes' has no cluster"),
        ({"n_jobs": 0}, "n_jobs is 0"),
        ({"format": "parquets"}, "Did you mean 'parquet'"),
        ({"seed": 1}, r"has no seed=; give seeds=\[\.\.\.\]"),
        ({"round_second": 1.0}, "'round_second'. Did you mean 'round_seconds'"),
        ({"round_seconds": -1.0, "mechanism": "rounds"}, r"round_seconds is -1\.0"),
        ({"placement": "first-fit", "mechanism": "rounds"}, "Did you mean 'first_fit'"),
        ({"resample": 1}, "resample is 1"),
        ({"workloads": "no_such.csv"}, "no_such.csv"),
        ({"workloads": {"jobs": 3}}, "arrive at time 0"),
        ({"workloads": {**JOBS, "scale_factors": {8: 1.0}}}, "needs more GPUs"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_bad_input_is_refused_before_anything_runs(
    options: Any, message: str, simulated: list[tuple[str, int]], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        small(out=tmp_path / "out", **options)
    assert simulated == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ([], "list of policies is empty"),
        ("fifo", "must be a list"),
        (["fifi"], "Did you mean 'fifo'"),
        (["fifo", FIFO()], "'fifo' is in the list twice"),
        (["max_min_fairness_space_sharing"], "no pair throughputs"),
    ],
    ids=["none", "text", "unknown", "twice", "pairs"],
)
def test_policies_are_tried_before_anything_runs(policies: Any, message: str) -> None:
    workload = replace(generate_workload(jobs=2), pairs=None)
    with pytest.raises(InputError, match=message):
        plan_sweep(policies, workload, "v100=2")


def test_saved_files_and_the_record(tmp_path: Path) -> None:
    swept = small(out=tmp_path / "csv", seeds=[3])
    assert sorted(file.name for file in (tmp_path / "csv").iterdir()) == [
        *["report.html", "runs.csv", "runs.jsonl", "summary.csv", "sweep.json"]
    ]
    written = pd.read_csv(tmp_path / "csv" / "runs.csv")
    pd.testing.assert_frame_equal(
        written.drop(columns="error"), swept.table().drop(columns="error")
    )
    record = json.loads((tmp_path / "csv" / "sweep.json").read_text(), parse_constant=pytest.fail)
    assert record["policies"] == ["fifo", "isolated"]
    assert record["loads"] == [0.5, 2.0]
    assert record["seeds"] == [3]
    assert record["sources"]["two"]["jobs"] == 2
    assert record["settings"]["mechanism"] == "exact"
    assert record["cluster"]["gpus"] == {"v100": 2, "k80": 2}
    assert any("generated" in note for note in record["notes"])
    files = swept.save(tmp_path / "parquet", format="parquet")
    assert [file.name for file in files] == [
        *["runs.parquet", "summary.parquet", "sweep.json", "report.html"]
    ]
    pd.testing.assert_frame_equal(pd.read_parquet(files[1]), swept.summary())


@pytest.mark.parametrize(
    ("seeds", "named"), [([0, 1, 2], "seeds 0 to 2"), ([7, 0], "seeds 7, 0"), ([3], "seed 3")]
)
def test_notes_name_the_workload_once_and_every_seed(seeds: list[int], named: str) -> None:
    workloads = [{"jobs": 2}, {"jobs": 2, "name": "mine"}]
    plan = plan_sweep(["fifo"], workloads, "v100=2", seeds=seeds, resample=True)
    first, resampled, second, _ = plan.notes
    assert first.startswith(f"generated: {named}, all jobs at 0 s, durations")
    assert resampled == f"generated: jobs resampled with replacement, {named}"
    assert second.startswith(f"mine: generated: {named}, all jobs at 0 s, durations")


def test_the_plot_shows_means_and_ranges_in_hours(swept: Any) -> None:
    figure = swept.plot()
    (axes,) = figure.axes
    summary = swept.summary()
    assert [line.get_label() for line in axes.get_lines()] == ["fifo", "isolated"]
    fifo = summary[summary["policy"] == "fifo"]
    x, y = axes.get_lines()[0].get_data()
    assert np.asarray(x).tolist() == [0.5, 2.0]
    np.testing.assert_allclose(np.asarray(y, float), fifo["mean_jct_s"] / 3600)
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx(fifo["mean_jct_s_highest"].max() / 3600)
    assert heights.min() == pytest.approx(fifo["mean_jct_s_lowest"].min() / 3600)
    assert axes.get_ylabel() == "mean JCT (h)"
    assert swept.plot("rounds").axes[0].get_ylabel() == "rounds"
    with pytest.raises(InputError, match="Did you mean 'mean_jct_s'"):
        swept.plot("mean_jct")


@pytest.mark.thorough
@pytest.mark.usefixtures("simulated")
def test_several_workloads_have_axes_and_tables_of_their_own() -> None:
    swept = small(workloads=[JOBS, {**JOBS, "name": "philly", "durations": "philly"}], seeds=[0])
    assert [axes.get_title(loc="left") for axes in swept.plot().axes] == ["two", "philly"]
    text = repr(swept)
    assert text.startswith("8 runs on v100=2,k80=2\n\ntwo\npolicy ")
    assert "\n\nphilly\npolicy " in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("workers", "threads", "shared"),
    [
        (1, 3, False),
        *(
            pytest.param(workers, 12, shared, marks=pytest.mark.slow)
            for workers in (1, 2)
            for shared in (False, True)
        ),
    ],
)
def test_any_number_of_threads_at_once_have_the_tables_of_one(
    workers: int, threads: int, shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparisons and sweeps beside each other, in folders of their own, of each other, or none."""
    monkeypatch.setitem(POLICIES, "mine", Mine)

    def table(call: int, n_jobs: int, out: Path | None) -> str:
        jobs = generate_workload(jobs=2, jobs_per_hour=6.0, seed=call // 2 % 3)
        options: Any = {"n_jobs": n_jobs, "mechanism": "exact", "out": out, "progress": False}
        if call % 2:
            return str(compare(["mine", "fifo"], jobs, "v100=2,k80=2", **options).jobs().to_csv())
        return without_clocks(sweep(["mine", "fifo"], jobs, "v100=2,k80=2", **options)).to_csv()

    def beside(call: int) -> str:
        return table(call, workers, tmp_path / f"{call % 6}" if shared else None)

    alone = [table(call, 1, None) for call in range(min(threads, 6))]
    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(beside, range(threads))) == [alone[k % 6] for k in range(threads)]


def test_seeds_that_change_nothing_are_noted() -> None:
    given = generate_workload(jobs=3, seed=4)
    said = "all seeds give the same figures"
    alike = sweep(["fifo"], given, "v100=2,k80=2", seeds=[0, 1], n_jobs=1)
    assert alike.notes[-1].startswith(said)
    assert alike.record()["notes"] == alike.notes
    others: list[dict[str, Any]] = [{"seeds": [0]}, {"seeds": [0, 1], "resample": True}]
    for told in others:
        varied = sweep(["fifo"], given, "v100=2,k80=2", n_jobs=1, **told)
        assert not [note for note in varied.notes if note.startswith(said)]
    drawn = sweep(["fifo"], {"jobs": 3, "jobs_per_hour": 9.0}, "v100=2,k80=2", seeds=[0, 1])
    assert drawn.notes == list(drawn.plan.notes)
