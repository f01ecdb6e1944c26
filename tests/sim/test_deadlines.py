"""Deadlines are known to every mechanism, and what became of them is told by every run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed, sampled

import apportion as ap
from apportion.cli import main
from apportion.elastic import ElasticRule
from apportion.policies import Sia
from apportion.testing.run_case import drawn

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import cvxpy as cp

RUNS = [
    ("types", "max_min_fairness", "rounds"),
    ("types", "max_min_fairness", "exact"),
    ("racks", "dally", "leases"),
    ("types", "easy", "queue"),
    ("sending", "ada_srsf", "iterations"),
    ("racks", "fifo", "leases"),
    ("elastic", "afs", "configurations"),
    ("elastic", "deepboot", "configurations"),
]
"""Deciders that heed no deadline, so that the same run tells what is just met."""
QUICK = 2


def loaded(kind: str, seed: int) -> tuple[Any, ap.Cluster]:
    """Draw a workload without deadlines, a small one where runs of many jobs take long."""
    small = seed < QUICK and kind in ("racks", "elastic")
    workload, cluster = drawn(kind, seed, jobs="few" if small else "many")
    jobs = workload.jobs.drop(columns="deadline_s", errors="ignore")
    return replace(workload, jobs=jobs), cluster


def due(workload: Any, deadline_s: Any) -> Any:
    return replace(workload, jobs=workload.jobs.assign(deadline_s=deadline_s))


@pytest.mark.parametrize(("kind", "decider", "mechanism"), sampled(RUNS, 2))
@pytest.mark.parametrize("seed", each_seed(1, 6))
def test_runs_tell_which_were_met(kind: str, decider: str, mechanism: str, seed: int) -> None:
    workload, cluster = loaded(kind, seed)
    before = ap.simulate(decider, workload, cluster, mechanism=mechanism)
    assert "met_deadline" not in before.jobs
    assert "deadlines_met" not in before.summary()
    drawn_as = np.random.default_rng(seed).choice([np.nan, 0.5, 1.0, 2.0], len(workload.jobs))
    took_s = before.jobs["completion_s"] - before.jobs["arrival_s"]
    run = ap.simulate(decider, due(workload, took_s * drawn_as), cluster, mechanism=mechanism)
    pd.testing.assert_frame_equal(run.jobs[before.jobs.columns], before.jobs)
    expected = np.where(np.isnan(drawn_as), np.nan, drawn_as >= 1.0)
    np.testing.assert_array_equal(run.jobs["met_deadline"], expected)
    there = run.jobs[run.jobs["deadline_s"].notna()]
    in_time = there["completion_s"] - there["arrival_s"] <= there["deadline_s"] * (1 + 1e-12)
    assert run.summary()["deadlines_met"] == pytest.approx(in_time.mean(), abs=1e-15)


SEEN: set[tuple[float, float]] = set()
"""Arrivals and deadlines that those who decide were told."""


def told(arrival_s: Any, deadline_s: Any) -> None:
    known = ~np.isnan(deadline_s)
    SEEN.update(zip(arrival_s[known].tolist(), deadline_s[known].tolist(), strict=True))


@dataclass(frozen=True)
class Asks(ap.Policy):
    """Max-min fairness that takes down what it is told."""

    name = "asks"
    columns = ("deadline_s", "elapsed_s", "now_s")

    heterogeneity_aware: bool = True

    def objective(self, p: ap.Problem) -> cp.Maximize | cp.Minimize:
        told(p.column("now_s") - p.elapsed_s, p.column("deadline_s"))
        return ap.get_policy("max_min_fairness").objective(p)


@dataclass(frozen=True)
class AsksInWhole(Sia):
    """Sia's problem, likewise."""

    columns = (*Sia.columns, "deadline_s", "elapsed_s", "now_s")  # type: ignore[assignment]

    def objective(self, p: ap.Problem) -> cp.Maximize:
        told(p.column("now_s") - p.elapsed_s, p.column("deadline_s"))
        return super().objective(p)


@dataclass(frozen=True)
class EarliestDeadline(ap.QueueScheduler):
    """Serves jobs by their deadlines, those without one last."""

    name = "earliest_deadline"

    def queue(self, jobs: Any, now_s: float) -> Iterable[Any]:
        told(jobs.arrival_s[jobs.active], jobs.facts["deadline_s"][jobs.active])
        for job in jobs.active[np.argsort(jobs.due_s[jobs.active], kind="stable")]:
            yield job, np.argsort(-jobs.speed[job], kind="stable")


@dataclass(frozen=True, repr=False)
class DeadlineRule(ElasticRule):
    """Serves elastic jobs by their deadlines, each with the fewest GPUs."""

    name = "deadline_rule"

    def choose(self, jobs: Any) -> Any:
        told(jobs.arrival_s, jobs.deadline_s)
        chosen, left = np.full(len(jobs.speed), -1), jobs.capacity.copy()
        for job in np.argsort(jobs.deadline_s - jobs.elapsed_s, kind="stable"):
            for place in np.argsort(jobs.gpus, kind="stable"):
                if jobs.speed[job, place] > 0 and jobs.gpus[place] <= left[jobs.kind[place]]:
                    chosen[job], left[jobs.kind[place]] = (
                        place,
                        left[jobs.kind[place]] - jobs.gpus[place],
                    )
                    break
        return chosen


@dataclass(frozen=True, repr=False)
class DeadlineTurn(ap.Order):
    """Turns by deadline on GPUs and links."""

    def turn(self, job: Any) -> tuple[int, int]:
        if job.due_ns is not None:
            TURNS.add(job.due_ns)
        return 0, 10**18 if job.due_ns is None else job.due_ns


TURNS: set[int] = set()


@pytest.mark.parametrize(
    ("kind", "decider", "mechanism"),
    sampled(
        [
            ("racks", Asks(), "leases"),
            ("types", Asks(), "rounds"),
            ("types", EarliestDeadline(), "queue"),
            ("types", Asks(), "exact"),
            ("elastic", AsksInWhole(), "configurations"),
            ("elastic", DeadlineRule(), "configurations"),
        ],
        2,
    ),
    ids=lambda given: given if isinstance(given, str) else given.name,
)
def test_whoever_decides_is_told(kind: str, decider: Any, mechanism: str) -> None:
    workload, cluster = loaded(kind, 1)
    count = np.arange(len(workload.jobs))
    workload = due(workload, np.where(count % 3 == 1, np.nan, 1000.0 + 600 * count))
    SEEN.clear()
    ap.simulate(decider, workload, cluster, mechanism=mechanism)
    jobs = workload.jobs[workload.jobs["deadline_s"].notna()]
    found = sorted((round(arrival_s, 3), deadline_s) for arrival_s, deadline_s in SEEN)
    assert sorted(set(found)) == sorted(
        set(zip(jobs["arrival_s"].round(3).tolist(), jobs["deadline_s"].tolist(), strict=True))
    )


@pytest.mark.parametrize("mechanism", ["iterations", "leases"])
def test_orders_are_told(mechanism: str) -> None:
    workload, cluster = loaded("sending" if mechanism == "iterations" else "racks", 1)
    count = np.arange(len(workload.jobs))
    workload = due(workload, np.where(count % 3 == 1, np.nan, 1000.0 + 600 * count))
    TURNS.clear()
    if mechanism == "iterations":
        ap.simulate("ada_srsf", workload, cluster, order=DeadlineTurn())
    else:
        decider = ap.OfferScheduler("by_deadline", order=DeadlineTurn())
        ap.simulate(decider, workload, cluster)
    due_s = (workload.jobs["arrival_s"] + workload.jobs["deadline_s"]).dropna()
    assert {round(1e9 * each) for each in due_s} >= TURNS != set()


@pytest.mark.thorough
def test_tables_and_commands_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload, cluster = loaded("types", 2)
    workload = due(workload, np.where(np.arange(len(workload.jobs)) % 2, 4000.0, np.nan))
    workload.save(tmp_path / "jobs.csv")
    out = tmp_path / "out"
    words = ["--workload", str(tmp_path / "jobs.csv"), "--cluster", str(cluster), "--jobs", "1"]
    policies = ["--policies", "fifo,max_min_fairness"]
    assert main(["compare", *words, *policies, "--out", str(out)]) == 0
    assert "in time" in capsys.readouterr().out
    jobs = pd.read_csv(out / "jobs.csv")
    summary = pd.read_csv(out / "summary.csv").set_index("policy")
    there = jobs[jobs["deadline_s"].notna()]
    met = there["completion_s"] - there["arrival_s"] <= there["deadline_s"]
    expected = met.groupby(there["policy"]).mean()
    assert summary["deadlines_met"].to_dict() == pytest.approx(expected.to_dict())
    assert jobs["met_deadline"].isna().equals(jobs["deadline_s"].isna())
    assert main(["sweep", *words, *policies, "--out", str(tmp_path / "sweep")]) == 0
    assert "in time" in capsys.readouterr().out


@pytest.mark.thorough
def test_files_of_elastic_jobs_have_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload, cluster = loaded("elastic", 0)
    count = np.arange(len(workload.jobs))
    workload = due(workload, np.where(count % 2, 4000.5, np.nan))
    workload = replace(workload, jobs=workload.jobs.assign(entity=np.where(count, "red", "blue")))
    file, _ = workload.save(tmp_path / "jobs.csv")
    again = ap.read_elastic_workload(file).jobs
    pd.testing.assert_frame_equal(again[workload.jobs.columns], workload.jobs, check_dtype=False)
    words = ["--workload", str(file), "--cluster", str(cluster), "--policies", "tiresias"]
    out = tmp_path / "out"
    assert main(["compare", *words, "--by", "entity", "--out", str(out), "--jobs", "1"]) == 0
    said = capsys.readouterr().out
    assert said.count("in time") == 2
    assert pd.read_csv(out / "jobs.csv")["met_deadline"].notna().tolist() == [
        bool(each % 2) for each in count
    ]
    file.write_text(file.read_text().replace("4000.5", "-1"))
    with pytest.raises(ap.InputError, match=r"line .*: deadline_s is '?-1"):
        ap.read_elastic_workload(file)
