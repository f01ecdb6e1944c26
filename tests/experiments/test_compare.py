from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from apportion.cluster import Cluster
from apportion.errors import ApportionError, InputError, SolveError
from apportion.experiments import compare, simulations
from apportion.experiments.comparisons.run import FOLDER
from apportion.experiments.machine.store import FILE
from apportion.pairs import PairThroughputs
from apportion.policies import FIFO, Makespan
from apportion.sim import Run, Workload, generate_workload, simulate
from apportion.sim.fingerprint import fingerprint, workload_fingerprint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SUMMARY = [
    *["policy", "jobs", "mean_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s", "makespan_s"],
    *["queueing_s", "utilization", "ftf_max", "cost", "preemptions", "rounds"],
    *["policy_seconds", "wall_seconds", "error"],
]
CLOCKS = ["policy_seconds", "wall_seconds"]


def two_jobs(name: str = "two jobs") -> Workload:
    # 7200 s and 3600 s of work on one GPU, the long one first in the queue.
    jobs = pd.DataFrame({"job_type": ["a", "a"], "total_steps": [7200.0, 3600.0]})
    speed = pd.DataFrame(
        {"v100": [1.0]}, index=pd.MultiIndex.from_tuples([("a", 1)], names=["job_type", "gpus"])
    ).rename_axis(index=["job_type", "scale_factor"])
    return Workload(name, jobs, speed, ("made by hand",))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Labels of the policies that are really simulated, in this process."""
    done: list[str] = []

    def counting(policy: Any, *args: Any, **options: Any) -> Run:
        run = simulate(policy, *args, **options)
        done.append(run.policy)
        return run

    monkeypatch.setattr(simulations, "simulate", counting)
    return done


def failing(label: str, error: BaseException) -> Callable[..., Run]:
    def simulated(policy: Any, *args: Any, **options: Any) -> Run:
        if policy.label == label:
            raise error
        return simulate(policy, *args, **options)

    return simulated


def test_summary_by_hand_in_the_order_asked_for() -> None:
    free: Any = {"preemption_overhead_seconds": 0.0, "n_jobs": 1}
    comparison = compare(["shortest_job_first", "fifo"], two_jobs(), "v100=1", **free)
    summary = comparison.summary()
    assert list(summary.columns) == SUMMARY
    assert list(summary["policy"]) == ["shortest_job_first", "fifo"]
    # Shortest first completes at 3600 and 10800, first in first out at 7200 and 10800.
    assert summary["mean_jct_s"].tolist() == pytest.approx([7200.0, 9000.0])
    assert summary["makespan_s"].tolist() == pytest.approx([10800.0, 10800.0])
    assert summary["utilization"].tolist() == pytest.approx([1.0, 1.0])
    assert summary["cost"].tolist() == pytest.approx([3 * 2.48, 3 * 2.48])


def test_jobs_of_all_policies_under_each_other() -> None:
    comparison = compare(["fifo", "max_min_fairness"], two_jobs(), {"v100": 1}, n_jobs=1)
    jobs = comparison.jobs()
    assert list(jobs.columns[:3]) == ["policy", "job", "job_type"]
    assert jobs["policy"].tolist() == ["fifo", "fifo", "max_min_fairness", "max_min_fairness"]
    assert jobs["jct_s"].tolist()[:2] == comparison["fifo"].jobs["jct_s"].tolist()


@pytest.mark.thorough
def test_same_results_in_one_process_and_in_two() -> None:
    workload = generate_workload(jobs=12, seed=3, jobs_per_hour=12.0, scale_factors="gavel")
    policies = ["max_min_fairness", "fifo", "makespan"]
    alone = compare(policies, workload, "v100=4,p100=4,k80=8", n_jobs=1)
    together = compare(policies, workload, "v100=4,p100=4,k80=8", n_jobs=2)
    pd.testing.assert_frame_equal(
        alone.summary().drop(columns=CLOCKS), together.summary().drop(columns=CLOCKS)
    )
    pd.testing.assert_frame_equal(alone.jobs(), together.jobs())


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        (["fifo", "fifo"], "'fifo' is in the list twice"),
        (["fifo", FIFO()], "'fifo' is in the list twice.$"),
        (
            ["makespan", Makespan(lexicographic=True)],
            r"'makespan' is in the list twice.*class Other\(Makespan\): name = 'other'",
        ),
        (["sjf", "srtf"], "'shortest_job_first' .* twice. So 'sjf' and 'srtf' mean the same.$"),
        (["fifo", "nobody"], "'nobody'. Valid: max_min_fairness.*; schedulers: .*fcfs"),
        (["fifo(a=1)"], r"Options .* in Python: get_policy\('fifo', option=value\)"),
        (["fifo", "makespam"], "'makespam'. Did you mean 'makespan'"),
        ([], "the list of policies is empty"),
        ("fifo", "must be a list"),
    ],
)
def test_policies_are_checked_before_any_runs(
    policies: Any, message: str, counted: list[str]
) -> None:
    with pytest.raises(InputError, match=message):
        compare(policies, two_jobs(), "v100=1", n_jobs=1)
    assert counted == []


def test_other_input_is_checked_before_any_runs(counted: list[str], tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    wide = two_jobs()
    with pytest.raises(InputError, match="accelerator"):
        compare(["fifo"], wide, "mine=1", n_jobs=1)
    with pytest.raises(InputError, match="read_workload"):
        compare(["fifo"], "trace.csv", "v100=1", n_jobs=1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="n_jobs is 0"):
        compare(["fifo"], wide, "v100=1", n_jobs=0)
    with pytest.raises(InputError, match=r"Cannot write in '.*file/out"):
        compare(["fifo"], wide, "v100=1", n_jobs=1, out=file / "out")
    assert counted == []


def test_an_interrupted_comparison_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    def again(**settings: Any) -> Any:
        return compare(["fifo", "makespan"], two_jobs(), "v100=1", n_jobs=1, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(simulations, "simulate", failing("makespan", KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            again(out=tmp_path)
    (line,) = (tmp_path / FOLDER / FILE).read_text().splitlines()
    assert json.loads(line)["policy"] == "fifo"
    counted: list[str] = request.getfixturevalue("counted")
    resumed = again(out=tmp_path)
    assert counted == ["makespan"]
    assert not (tmp_path / FOLDER).exists()
    whole = again()
    pd.testing.assert_frame_equal(resumed.jobs(), whole.jobs())


def test_a_failing_policy_is_named_and_the_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulations, "simulate", failing("makespan", SolveError("no solver")))
    with pytest.raises(SolveError, match="Policy 'makespan' failed: no solver"):
        compare(["makespan", "fifo"], two_jobs(), "v100=1", n_jobs=1, out=tmp_path)
    summary = pd.read_csv(tmp_path / "summary.csv").set_index("policy")
    assert list(summary.index) == ["fifo", "makespan"]
    assert summary["mean_jct_s"].isna().tolist() == [False, True]
    assert summary["error"].tolist()[1].startswith("SolveError: no solver, raised in failing.")
    assert set(pd.read_csv(tmp_path / "jobs.csv")["policy"]) == {"fifo"}
    assert "no solver" in (tmp_path / "report.html").read_text()
    assert (tmp_path / FOLDER).is_dir()


def test_a_failure_is_a_row_where_it_is_not_to_be_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    def again(*policies: str) -> Any:
        told: dict[str, Any] = {"n_jobs": 1, "out": tmp_path, "raise_on_failure": False}
        return compare(policies, two_jobs(), "v100=1", **told)

    with monkeypatch.context() as patch:
        patch.setattr(simulations, "simulate", failing("makespan", ZeroDivisionError("so it goes")))
        comparison = again("makespan", "fifo", "isolated")
        with pytest.raises(ApportionError, match="so it goes"):
            again("makespan")
    assert list(comparison) == ["fifo", "isolated"]
    (said,) = comparison.errors.values()
    assert said.startswith("ZeroDivisionError: so it goes, raised in failing.")
    assert "makespan failed: ZeroDivisionError: so it goes" in repr(comparison)
    counted: list[str] = request.getfixturevalue("counted")
    assert not again("makespan", "fifo", "isolated").errors
    assert counted == ["makespan"]


def test_a_wrong_setting_is_reported_once_and_leaves_no_folder_of_results(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^round_seconds is -1"):
        compare(["makespan", "fifo"], two_jobs(), "v100=1", n_jobs=1, round_seconds=-1.0)


def test_saved_files_and_the_record(tmp_path: Path) -> None:
    cluster = Cluster({"v100": 1})
    comparison = compare(
        ["fifo"],
        two_jobs(),
        cluster,
        n_jobs=1,
        out=tmp_path / "deep" / "out",
        origin={"workload": "my jobs.csv"},
    )
    out = tmp_path / "deep" / "out"
    assert sorted(file.name for file in out.iterdir()) == [
        *["jobs.csv", "report.html", "run.json", "schedule.csv.gz", "summary.csv"]
    ]
    pd.testing.assert_frame_equal(
        pd.read_csv(out / "summary.csv", dtype={"error": object}),
        comparison.summary().assign(error=lambda t: t["error"].where(t["error"].notna(), math.nan)),
    )
    record = json.loads((out / "run.json").read_text(), parse_constant=pytest.fail)
    assert record["policies"] == ["fifo"]
    assert record["cluster"]["gpus"] == {"v100": 1}
    assert record["settings"]["round_seconds"] == 360.0
    assert record["workload"]["notes"] == ["made by hand"]
    assert record["workload"]["fingerprint"] == workload_fingerprint(two_jobs("another name"))
    assert {"python", "apportion", "numpy", "cvxpy", "clarabel"} <= set(record["versions"])
    assert "apportion compare --workload 'my jobs.csv' " in record["command"]
    assert "--cluster v100=1 " in record["command"]


def test_what_has_no_value_is_null_in_json() -> None:
    workload = two_jobs()
    renamed = Workload("x", workload.jobs, workload.throughputs.rename(columns={"v100": "new"}))
    comparison = compare(["fifo"], renamed, "new=1", n_jobs=1)
    assert json.loads(comparison.to_json())["summary"][0]["cost"] is None
    assert comparison.command is None


def test_no_command_where_the_command_line_cannot_say_it() -> None:
    origin = {"workload": "jobs.csv"}
    priced = Cluster({"v100": 1}, prices_per_gpu_hour={"v100": 9.0})
    assert compare(["fifo"], two_jobs(), priced, n_jobs=1, origin=origin).command is None
    assert compare([FIFO()], two_jobs(), "v100=1", n_jobs=1, origin=origin).command is None


def test_fingerprint_follows_the_numbers_and_not_the_name() -> None:
    workload = two_jobs()
    other = Workload("two jobs", workload.jobs.assign(weight=[1.0, 2.0]), workload.throughputs)
    faster = Workload("two jobs", workload.jobs, workload.throughputs * 2)
    marks = [workload_fingerprint(each) for each in (workload, other, faster)]
    assert len(set(marks)) == 3
    assert workload_fingerprint(two_jobs("renamed")) == marks[0]


def test_parquet_holds_the_same_tables(tmp_path: Path) -> None:
    comparison = compare(["fifo"], two_jobs(), "v100=1", n_jobs=1)
    summary, jobs, _ = comparison.to_parquet(tmp_path)
    pd.testing.assert_frame_equal(
        pd.read_parquet(summary).astype({"error": object}), comparison.summary()
    )
    assert len(pd.read_parquet(jobs)) == 2


def test_repr_is_a_table_with_notes() -> None:
    free: Any = {"preemption_overhead_seconds": 0.0, "n_jobs": 1}
    comparison = compare(["fifo", "makespan"], two_jobs(), "v100=1", **free)
    lines = repr(comparison).splitlines()
    assert lines[0] == "2 policies, 2 jobs of 'two jobs' on v100=1"
    assert "made by hand" in lines
    assert lines[-2] == "starts and preemptions cost no time"
    assert "anything possible" in lines[-1]
    assert any(line.startswith("fifo") and " 2.50" in line for line in lines)
    assert "<table" in (comparison._repr_html_() or "")
    assert list(comparison) == ["fifo", "makespan"]


def test_settings_of_simulate_reach_every_run() -> None:
    keys = pd.MultiIndex.from_tuples([("a", 1)], names=["job_type", "scale_factor"])
    truth = PairThroughputs(np.full((1, 1, 1), 0.4), np.ones((1, 1)), keys, accelerators=("v100",))
    believed = replace(truth, own=np.full((1, 1, 1), 0.9))
    workload = replace(two_jobs(), pairs=truth)
    policies = ["max_min_fairness_space_sharing", "fifo"]
    told: dict[str, Any] = {"pair_estimates": believed, "learn_pairs": True, "leases": False}
    told |= {"preemption_overhead_seconds": 60.0}
    comparison = compare(policies, workload, "v100=1", n_jobs=1, **told)
    for policy in policies:
        alone = simulate(policy, workload, "v100=1", **told)
        pd.testing.assert_frame_equal(comparison[policy].jobs, alone.jobs)
    untold = compare(policies, workload, "v100=1", n_jobs=1)
    for policy in policies:
        assert not untold[policy].jobs.equals(comparison[policy].jobs)
    origin = {"workload": "jobs.csv"}
    assert compare(["fifo"], workload, "v100=1", n_jobs=1, origin=origin, **told).command is None


def test_runs_with_other_estimates_are_not_taken_for_the_same() -> None:
    keys = pd.MultiIndex.from_tuples([("a", 1)], names=["job_type", "scale_factor"])
    some = PairThroughputs(np.full((1, 1, 1), 0.4), np.ones((1, 1)), keys, accelerators=("v100",))
    others = replace(some, own=np.full((1, 1, 1), 0.9))
    cluster = Cluster({"v100": 1})
    marks = {
        fingerprint(FIFO(), "w", cluster, {"pair_estimates": each})
        for each in (None, some, others, replace(some))
    }
    assert len(marks) == 3
