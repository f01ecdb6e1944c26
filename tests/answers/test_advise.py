from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from tests.in_process import run_command

import apportion as ap
from apportion.answers.page import gpus_at_least
from apportion.cli.parser import parse
from apportion.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that says when its jobs started, under first come, first served."""
    drawn = ap.generate_workload(jobs=30, jobs_per_hour=8.0, seed=1)
    ran = ap.simulate("fcfs", drawn, "v100=12", preemption_overhead_seconds=0.0).jobs
    users = np.array(["ann", "bob"])[np.arange(30) % 2]
    jobs = drawn.jobs.assign(
        recorded_start_s=ran["start_s"], recorded_end_s=ran["completion_s"], user=users
    )
    return replace(drawn, jobs=jobs).save(tmp_path_factory.mktemp("log") / "log.csv")[0]


@pytest.mark.thorough
def test_a_page_says_what_it_rests_on_and_every_command_is_one(log: Path, tmp_path: Path) -> None:
    policies = ["fcfs", "shortest_job_first"]
    words = ["--workload", str(log), "--cluster", "v100=12"]
    found = ap.advise(
        *({"path": log}, "v100=12", policies),
        draws=4,
        out=tmp_path,
        n_jobs=1,
        command=words,
        preemption_overhead_seconds=0.0,
    )
    questions = [part.question for part in found.parts]
    assert questions[:3] == [
        "What does your scheduler lose?",
        "Which decider?",
        "What do restart costs do to the answer?",
    ]
    loses = " ".join(found.parts[0].answer)
    recorded = ap.read_workload(log)
    mean_h = (recorded.jobs["recorded_end_s"] - recorded.jobs["arrival_s"]).mean() / 3600
    assert f"{mean_h:.2f} h from arrival to end" in loses
    assert "+0.00 h [+0.00, +0.00]: no difference that is more than chance" in loses  # fcfs itself
    assert "it knows how long each job will run" in loses
    assert "ann" in str(found)
    assert "bob" in str(found)
    for part in found.parts:
        assert parse(shlex.split(part.command)[1:]).module in (
            "compare",
            "answers.asked:run_recommend",
            "answers.asked:run_whatif",
        )
    page = (tmp_path / "advice.html").read_text()
    assert page == found.to_html()
    assert page.count("<section>") == len(found.parts)
    assert (tmp_path / "advice.txt").read_text() == f"{found}\n"


@pytest.mark.thorough
def test_a_log_without_starts_is_told_so(tmp_path: Path) -> None:
    log = ap.generate_workload(jobs=12, jobs_per_hour=8.0)
    found = ap.advise(log, "v100=30", ["fcfs", "easy"], draws=4, n_jobs=1)
    assert found.parts[0].answer[0].startswith("That cannot be said")
    assert "No difference between fcfs, easy" in str(found)
    assert "no difference at all" in str(found)  # 8 more GPUs where nobody waits


def test_advice_needs_a_choice() -> None:
    with pytest.raises(InputError, match="two at least"):
        ap.advise(ap.generate_workload(jobs=3), "v100=4", ["fcfs"])


@pytest.mark.thorough
def test_commands_print_their_answers(log: Path, tmp_path: Path) -> None:
    cluster = ["--cluster", "v100=12", "--jobs", "1"]
    asked = ["what-if", "--workload", str(log), *cluster, "--policies", "fcfs", "--draws", "2"]
    shown = run_command([*asked, "--add", "v100=8,16", "--out", str(tmp_path / "w")]).out
    assert "fcfs, +16 v100:" in shown
    assert "$/h owned" in shown
    asked = ["recommend", "--workload", str(log), *cluster, "--policies", "fcfs,easy"]
    shown = run_command([*asked, "--draws", "4", "--out", str(tmp_path / "r")]).out
    assert "It rests on" in shown
    state = tmp_path / "state.json"
    state.write_text(
        '{"now": 1e7, "jobs": '
        '[{"job_id": 1, "job_state": "PENDING", "submit_time": 1e7, "gpus": 2}]}'
    )
    asked = ["forecast", str(state), "--log", str(log), "--cluster", "v100=12", "--futures", "4"]
    shown = run_command([*asked, "--out", str(tmp_path / "f.csv")]).out
    assert "1 (2 GPUs) waits: starts" in shown
    assert (tmp_path / "f.csv").read_text().startswith("job,state,gpus,tasks,start_50")


@pytest.mark.thorough
def test_gains_beyond_the_waits_are_said_to_be_of_other_types() -> None:
    drawn = ap.generate_workload(jobs=30, jobs_per_hour=2.0, seed=1)
    ran = ap.simulate("fcfs", drawn, "k80=12", preemption_overhead_seconds=0.0).jobs
    jobs = drawn.jobs.assign(
        recorded_start_s=ran["start_s"], recorded_end_s=ran["completion_s"], user="ann"
    )
    slow = replace(drawn, jobs=jobs)
    names = ["fcfs", "shortest_job_first"]
    for cluster, beyond in (("v100=12", True), ("k80=12", False)):
        found = ap.advise(slow, cluster, names, draws=4, n_jobs=1, preemption_overhead_seconds=0.0)
        assert ("comes of running jobs on faster GPUs" in str(found.parts[0].answer)) == beyond


@pytest.mark.thorough
def test_commands_of_jobs_given_in_python_read_the_file_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved as the page says, and run as it says, the comparison has the numbers of the page."""
    log = ap.generate_workload(jobs=20, jobs_per_hour=12.0, seed=3)
    found = ap.advise(log, "v100=8", ["fcfs", "shortest_job_first"], draws=4, n_jobs=1)
    (said,) = [line for line in found.parts[-1].answer if ".save(" in line]
    name = said.split("'")[1]
    monkeypatch.chdir(tmp_path)
    log.save(name)
    command = shlex.split(found.parts[2].command)
    assert command[:6] == ["apportion", "compare", "--workload", name, "--cluster", "v100=8"]
    run_command([*command[1:], "--jobs", "1", "--out", "again"])
    again = pd.read_csv(tmp_path / "again" / "summary.csv").set_index("policy")["mean_jct_s"]
    direct = ap.compare(["fcfs", "shortest_job_first"], log, "v100=8", n_jobs=1).summary()
    expected = direct.set_index("policy")["mean_jct_s"].to_dict()
    assert again.to_dict() == pytest.approx(expected, rel=1e-6)


@pytest.mark.thorough
def test_commands_say_which_settings_they_lack() -> None:
    log = ap.generate_workload(jobs=8, jobs_per_hour=12.0)
    found = ap.advise(
        *(log, "v100=8", ["fcfs", "easy"]), draws=4, n_jobs=1, preemption_overhead_seconds=0.0
    )
    assert any("preemption_overhead_seconds=0.0" in line for line in found.parts[-1].answer)


@pytest.mark.thorough
def test_a_log_of_more_gpus_than_are_given_is_compared_with_nobody(log: Path) -> None:
    found = ap.advise(
        *({"path": log}, "v100=4", ["fcfs", "shortest_job_first"]),
        draws=4,
        n_jobs=1,
        preemption_overhead_seconds=0.0,
    )
    loses, users = found.parts[0].answer, found.parts[-2]
    assert (
        "cannot be said: the log had 12 GPUs in use at once, and the cluster given has 4"
        in (loses[-1])
    )
    assert len(loses) == 2
    assert users.question == "By user?"
    jobs = ap.read_workload(log).jobs  # accounting is of the log, whoever else may be simulated
    gpu_s = jobs["scale_factor"] * (jobs["recorded_end_s"] - jobs["recorded_start_s"])
    wait_h = (jobs["recorded_start_s"] - jobs["arrival_s"]).groupby(jobs["user"]).mean() / 3600
    share = gpu_s.groupby(jobs["user"]).sum() / gpu_s.sum()
    expected = [
        f"{user}: {share[user]:.0%} of GPU time, 15 jobs, wait {wait_h[user]:.2f} h"
        for user in share.sort_values(ascending=False).index
    ]
    assert list(users.answer[1:]) == expected
    assert users.answer[0].endswith("without intervals as recorded:")


def test_too_small_a_cluster_is_told_the_gpus_that_the_log_had_of_each_type() -> None:
    jobs = pd.DataFrame(
        {
            "scale_factor": [2, 4, 1, 8],
            "recorded_start_s": [0.0, 5.0, 0.0, 10.0],
            "recorded_end_s": [10.0, 9.0, 1.0, 20.0],
        }
    )
    assert gpus_at_least(jobs) == ""
    on = jobs.assign(recorded_on=["t4", "t4", "a100", "t4"])
    assert gpus_at_least(on) == ", with at least a100=1,t4=8"
    assert gpus_at_least(on.head(3)) == ", with at least a100=1,t4=6"


@pytest.mark.thorough
def test_a_log_of_four_jobs_is_said_to_be_too_short() -> None:
    jobs = {
        "arrival_s": [0.0, 100.0, 500.0, 900.0],
        "scale_factor": [4, 8, 2, 4],
        "total_steps": [3600.0, 7200.0, 600.0, 5000.0],
        "job_type": "m",
    }
    pairs = [("m", size) for size in (2, 4, 8)]
    rows = pd.MultiIndex.from_tuples(pairs, names=["job_type", "scale_factor"])
    speeds = pd.DataFrame({"v100": [1.0, 1.0, 1.0]}, rows)
    log = ap.Workload("four", pd.DataFrame(jobs, index=list("abcd")), speeds)
    found = ap.advise(log, "v100=8", ["shortest_job_first", "fcfs"], draws=16, n_jobs=1)
    said = {part.question: " ".join(part.answer) for part in found.parts}
    assert "; a longer log may tell them apart." in said["Which decider?"]
    assert "an interval over 10 times wide" in said["What would v100=8 bring?"]
    for answer in said.values():
        assert "inf" not in answer
        assert "0.000" not in answer
