"""Comparisons and sweeps of deciders that no single mechanism suits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.cli.test_config import compared
from tests.sim.test_as_recorded import CLUSTER, slurm_log

import apportion as ap
from apportion.cli import main
from apportion.errors import InputError
from apportion.experiments import simulations

if TYPE_CHECKING:
    from pathlib import Path

CLOCKS = ["policy_seconds", "wall_seconds"]
RACKS = ap.Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=4)
WAYS = {"fifo": "rounds", "fcfs": "queue", "easy": "queue"}
TOLD: dict[str, Any] = {"round_seconds": 600.0, "placement": "random", "seed": 3}


def some_jobs() -> ap.Workload:
    return ap.generate_workload(jobs=12, seed=1, jobs_per_hour=12.0, scale_factors="gavel")


def some_rack_jobs() -> ap.Workload:
    return ap.generate_rack_workload(jobs=8, seed=3, max_scale_factor=4)


@pytest.fixture(scope="module")
def mixed() -> Any:
    return ap.compare(list(WAYS), some_jobs(), "v100=8,k80=8", n_jobs=1, **TOLD)


def test_each_runs_as_it_does_by_itself(mixed: Any) -> None:
    for label, way in WAYS.items():
        heeded = {name: TOLD[name] for name in TOLD if way == "rounds" or name != "round_seconds"}
        heeded["preemption_overhead_seconds"] = "measured"
        alone = ap.simulate(label, some_jobs(), "v100=8,k80=8", mechanism=way, **heeded)
        pd.testing.assert_frame_equal(mixed[label].jobs, alone.jobs, check_exact=True)
        assert mixed[label].settings == alone.settings


@pytest.mark.thorough
def test_the_table_and_the_record_say_by_which_mechanism(mixed: Any, tmp_path: Path) -> None:
    summary = mixed.summary()
    assert list(summary.columns[:2]) == ["policy", "mechanism"]
    assert summary.set_index("policy")["mechanism"].to_dict() == WAYS
    assert mixed.settings == {"mechanism": None, **TOLD}
    mixed.save(tmp_path)
    pd.testing.assert_frame_equal(
        pd.read_csv(tmp_path / "summary.csv")[summary.columns[:9]], summary[summary.columns[:9]]
    )
    record = json.loads((tmp_path / "run.json").read_text(), parse_constant=pytest.fail)
    for label, run in mixed.runs.items():
        of_policy = record["settings_by_policy"][label]
        assert {name: of_policy[name] for name in run.settings} == run.settings
    page = (tmp_path / "report.html").read_text()
    for label, way in WAYS.items():
        assert f"<tr><td>{label}</td><td>{way}</td>" in page
    assert "<h3>Simulation under fcfs, easy</h3>" in page
    assert page.count("round seconds") == 1
    assert "fifo" in str(mixed)
    assert " rounds " in str(mixed)


def test_notes_say_who_heeds_what(mixed: Any) -> None:
    assert mixed.notes[-4:-1] == [
        "by several mechanisms, each with its own settings: rounds for fifo; queue for the others",
        "round_seconds=600.0 does nothing to fcfs, easy",
        "a start or move costs 24 to 35 s by model, as published (docs/reference/simulator.md)",
    ]


def test_by_groups_each_has_its_rows(mixed: Any) -> None:
    table = mixed.by("job_type")
    held = mixed.jobs().groupby(["policy", "job_type"]).size()
    assert table.set_index(["policy", "job_type"])["jobs"].to_dict() == held.to_dict()


def test_workers_come_to_the_same(mixed: Any) -> None:
    two = ap.compare(list(WAYS), some_jobs(), "v100=8,k80=8", n_jobs=2, **TOLD)
    pd.testing.assert_frame_equal(
        mixed.summary().drop(columns=CLOCKS), two.summary().drop(columns=CLOCKS)
    )
    pd.testing.assert_frame_equal(mixed.jobs(), two.jobs(), check_exact=True)


@pytest.mark.parametrize(
    ("policies", "told", "ways"),
    [
        (["fifo", "dally"], {}, None),
        (["fifo", "dally", "fcfs"], {}, ["leases", "leases", "queue"]),
        (["fcfs", "fifo"], {"network": "table1"}, ["queue", "leases"]),
        (["fcfs", "fifo"], {"lease_seconds": 60.0}, ["queue", "leases"]),
        (["fcfs", "fifo"], {"preemption_overhead_seconds": 9.0}, ["queue", "rounds"]),
        (["fcfs", "easy"], {}, None),
    ],
)
def test_as_many_as_can_be_run_by_the_same(
    policies: list[str], told: dict[str, Any], ways: list[str] | None
) -> None:
    compared = ap.compare(policies, some_rack_jobs(), RACKS, n_jobs=1, **told)
    if ways is None:
        assert "mechanism" not in compared.summary()
        assert "settings_by_policy" not in compared.record()
        ways = [compared.settings["mechanism"]] * len(policies)
    else:
        assert compared.summary()["mechanism"].tolist() == ways
    for label, way in zip(policies, ways, strict=True):
        assert compared[label].settings["mechanism"] == way
        assert {
            name: compared[label].settings.get(name, value) for name, value in told.items()
        } == told
        for name, value in told.items():
            note = f"{name}={value!r} does nothing to {label}"
            assert (note in compared.notes) == (name not in compared[label].settings)


@pytest.mark.parametrize(
    ("policies", "told", "message"),
    [
        (
            ["fifo", "fcfs"],
            {"gate": "at_most_1"},
            "gate='at_most_1' is for the mechanism 'iterations'; it does nothing to 'rounds' and "
            "'queue', which",
        ),
        (["fifo", "fcfs"], {"round_second": 9.0}, "Did you mean 'round_seconds'"),
        (["fifo", "fcfs"], {"placement": "randon"}, "Did you mean 'random'"),
        (["fifo", "fcfs"], {"mechanism": "rounds"}, "'fcfs' is a batch.*; mechanism='rounds' is"),
        (["fifo", "fcfs"], {"mechanism": "queue"}, "'fifo' is a policy.*; mechanism='queue' is"),
        (["dally", "fcfs"], {"speeds": "estimated"}, "speeds='estimated' is for policies"),
        (["ada_srsf", "fcfs"], {"speeds": "estimated"}, "speeds='estimated' is for the mechanism"),
        (["afs", "fcfs"], {}, "'afs' .*; mechanism='rounds' is for others"),
    ],
)
def test_what_nobody_heeds_is_refused(
    policies: list[str], told: dict[str, Any], message: str
) -> None:
    for run in (ap.compare, ap.sweep):
        with pytest.raises(InputError, match=message):
            run(policies, some_rack_jobs(), RACKS, n_jobs=1, **told)


def test_schedulers_of_ones_own_stand_beside_policies() -> None:
    class Widest(ap.QueueScheduler):
        """Who asks for most GPUs comes first."""

        name = "widest"

        def queue(self, jobs: Any, now_s: float) -> Any:
            return ((job, [0]) for job in sorted(jobs.active, key=lambda job: -jobs.scale[job]))

    jobs = some_jobs()
    both = ap.compare([Widest(), "fifo"], jobs, "v100=8", n_jobs=1, speeds="estimated")
    assert both.summary()["mechanism"].tolist() == ["queue", "rounds"]
    alone = ap.simulate(Widest(), jobs, "v100=8", preemption_overhead_seconds="measured")
    pd.testing.assert_frame_equal(both["widest"].jobs, alone.jobs)
    assert both["fifo"].settings["speeds"] == "estimated"


@pytest.mark.thorough
def test_a_sweep_says_it_of_each_run_and_goes_on(tmp_path: Path) -> None:
    what: dict[str, Any] = {"loads": [1.0, 2.0], "n_jobs": 1, "out": tmp_path, **TOLD}
    seed = what.pop("seed")
    before = ap.sweep(["fifo"], some_jobs(), "v100=8,k80=8", seeds=[seed], **what)
    assert "mechanism" not in before.table()
    swept = ap.sweep(list(WAYS), some_jobs(), "v100=8,k80=8", seeds=[seed], **what)
    assert swept.resumed == 2  # what a policy has is not another for who stands beside it
    for table in (swept.table(), swept.summary(), pd.read_csv(tmp_path / "runs.csv")):
        assert table["mechanism"].tolist() == [WAYS[label] for label in table["policy"]]
    told: dict[str, Any] = {"placement": "random", "preemption_overhead_seconds": "measured"}
    alone = ap.simulate("fcfs", some_jobs(), "v100=8,k80=8", seed=seed, **told)
    (found_s,) = swept.table().query("policy == 'fcfs' and load == 1")["mean_jct_s"]
    assert found_s == alone.summary()["mean_jct_s"]
    assert "round_seconds=600.0 does nothing to fcfs, easy" in swept.notes
    record = json.loads((tmp_path / "sweep.json").read_text(), parse_constant=pytest.fail)
    by_policy = record["settings_by_policy"]
    assert {label: own["mechanism"] for label, own in by_policy.items()} == WAYS


@pytest.mark.thorough
def test_a_row_that_failed_has_its_mechanism_and_alone_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def counted(decider: Any, *args: Any, **told: Any) -> ap.Run:
        begun.append(decider.label)
        if decider.label == "easy":
            raise InputError("Nobody may pass today.")
        return ap.simulate(decider, *args, **told)

    monkeypatch.setattr(simulations, "simulate", counted)
    what: dict[str, Any] = {"n_jobs": 1, "raise_on_failure": False, "out": tmp_path, **TOLD}
    policies = ["fifo", "easy", "fcfs"]
    first, second = (ap.compare(policies, some_jobs(), "v100=8", **what) for _ in range(2))
    ways = first.summary().set_index("policy")["mechanism"].to_dict()
    assert ways == {"fifo": "rounds", "fcfs": "queue", "easy": "queue"}
    assert list(first.errors) == ["easy"]
    assert begun == [*policies, "easy"]
    pd.testing.assert_frame_equal(first.jobs(), second.jobs(), check_exact=True)
    assert [run.settings for run in second.runs.values()] == [
        run.settings for run in first.runs.values()
    ]


@pytest.mark.thorough
def test_a_log_beside_queues_and_policies_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _, log = slurm_log(tmp_path, 15)
    policies = ["as_recorded", "easy", "fcfs", "max_min_fairness"]
    words = ["--workload", "sacct.txt", "--cluster", CLUSTER, "--policies", ",".join(policies)]
    asked = ["--mechanism", "(round_seconds=600)", "--by", "user", "--against", "as_recorded"]
    first = compared(*words, *asked, out="first")
    shown = capsys.readouterr().out
    assert "run.toml, against.csv)" in shown
    _check_against(pd.read_csv("first/against.csv"), pd.read_csv("first/jobs.csv"), log)
    for label in policies:
        way = "rounds" if label == "max_min_fairness" else "queue"
        assert any(line.split()[:2] == [label, way] for line in shown.splitlines())
    assert "Note: round_seconds=600.0 does nothing to as_recorded, easy, fcfs" in shown
    assert [row["policy"] for row in first["summary"]] == policies
    wait_s = (log["start"] - log["submit"]).mean()
    assert first["summary"][0]["queueing_s"] == pytest.approx(wait_s)
    again = compared("--config", "first/run.json", out="second")
    again["command"] = first["command"]
    assert again == first
    from_toml = compared("--config", "first/run.toml", out="third")
    assert from_toml["summary"] == first["summary"]
    assert "--mechanism '(round_seconds=600)'" in first["command"]
    fewer = compared("--config", "first/run.json", "--policies", "max_min_fairness", out="fourth")
    assert fewer["summary"] == [
        {name: value for name, value in row.items() if name != "mechanism"}
        for row in first["summary"]
        if row["policy"] == "max_min_fairness"
    ]
    assert main(["compare", "--config", "first/run.json", "--mechanism", "rounds"]) == 2
    assert "which works by a queue; --mechanism rounds is for others" in capsys.readouterr().err


def _check_against(table: pd.DataFrame, jobs: pd.DataFrame, log: pd.DataFrame) -> None:
    """Differences from the log itself, not from its replay."""
    assert set(table["policy"]) == {"easy", "fcfs", "max_min_fairness"}
    for policy, own in table.groupby("policy"):
        of_policy = jobs[jobs["policy"] == policy].set_index("job").sort_index()
        own = own.set_index("job").sort_index()
        assert list(own.index) == list(of_policy.index) == list(log.index)
        later_s = of_policy["completion_s"] - log["end"]
        ratio = of_policy["jct_s"] / (log["end"] - log["submit"])
        np.testing.assert_allclose(own["start_later_s"], of_policy["start_s"] - log["start"])
        np.testing.assert_allclose(own["completion_later_s"], later_s, atol=1e-6)
        np.testing.assert_allclose(own["jct_ratio"], ratio)


@pytest.mark.parametrize("policy", list(WAYS))
def test_jobs_are_set_against_those_of_any_policy(mixed: Any, policy: str) -> None:
    table = mixed.jobs_against(policy)
    wide = mixed.jobs().pivot(index="job", columns="policy", values=["start_s", "jct_s"])
    others = [label for label in WAYS if label != policy]
    assert table["policy"].tolist() == [label for label in others for _ in range(12)]
    for label in others:
        own = table[table["policy"] == label].set_index("job").sort_index()
        for name, column in (("start_s", "start_later_s"), ("jct_s", "completion_later_s")):
            expected = wide[name][label] - wide[name][policy]
            np.testing.assert_allclose(own[column], expected, atol=1e-6)
        np.testing.assert_allclose(own["jct_ratio"], wide["jct_s"][label] / wide["jct_s"][policy])
    with pytest.raises(InputError, match=r"Unknown policy that ran 'makespan'\. Valid: fifo, fcfs"):
        mixed.jobs_against("makespan")


def test_who_does_not_run_is_nobody_to_set_others_against(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["compare", "--policies", "sjf,fcfs", "--generate", "jobs=3", "--cluster", "v100=8"]
    assert main([*words, "--against", "easy"]) == 2
    assert "easy is not among the policies that run: shortest_job_first, fcfs" in (
        capsys.readouterr().err
    )


@pytest.mark.thorough
def test_on_racks_queues_have_the_network_of_leases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--racks", "1", "--machines-per-rack", "2", "--generate", "jobs=6"]
    first = compared(*words, "--policies", "dally,fcfs,fifo", out="first")
    ways = {label: own["mechanism"] for label, own in first["settings_by_policy"].items()}
    assert ways == {"dally": "leases", "fcfs": "queue", "fifo": "leases"}
    networks = {own["network"] for own in first["settings_by_policy"].values()}
    assert networks == {"table1"}
    alone = compared(*words, "--policies", "dally,fifo", out="leases")
    assert alone["settings"]["mechanism"] == "leases"
    for row in alone["summary"]:
        assert {**row, "mechanism": "leases"} in first["summary"]
    again = compared("--config", "first/run.json", out="second")
    assert again["summary"] == first["summary"]
