"""Forecasts by policies of one's own that need columns, and by logs that go on after the state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.answers.test_forecast import STATE, jobs_of, later
from tests.seeds import each_seed

import apportion as ap
from apportion.answers.history import told_columns
from apportion.errors import InputError
from apportion.policies import FIFO

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class MostUrgent(FIFO):
    """Whoever is most urgent first."""

    name = "most_urgent"
    source = "a test"
    columns = ("urgency",)
    heterogeneity_aware: bool = True
    space_sharing: bool = False

    def order(self, p: Any) -> Any:
        return -p.column("urgency")


def told(state: dict[str, Any], **facts: list[Any]) -> dict[str, Any]:
    """Return the state with further keys, a value for each job."""
    jobs = [
        entry | {name: values[k] for name, values in facts.items() if values[k] is not None}
        for k, entry in enumerate(state["jobs"])
    ]
    return state | {"jobs": jobs}


def with_urgency(seed: int) -> ap.Workload:
    log = later(jobs_of(seed), 1e6)
    return replace(log, jobs=log.jobs.assign(urgency=np.arange(len(log)) % 7))


WAITING = {"job_state": "PENDING", "submit_time": 900, "gpus": 4, "time_limit": 60}
QUEUE = {"now": 1000, "jobs": [WAITING | {"job_id": name} for name in ("a", "b", "c")]}
OPTIONS: dict[str, Any] = {"futures": 6, "preemption_overhead_seconds": 0.0}


@pytest.mark.thorough
@pytest.mark.parametrize("seed", each_seed(1, 3))
def test_a_policy_goes_by_its_column(seed: int) -> None:
    """All GPUs at once for each, so that the order of starts is that of the column."""
    urgency = np.random.default_rng(seed).permutation([50.0, 60.0, 70.0]).tolist()
    found = ap.forecast(
        *(MostUrgent(), told(QUEUE, urgency=urgency), with_urgency(seed), "a100=4"),
        **dict(OPTIONS, futures=2),
    )
    order = np.argsort([-each for each in urgency])
    assert (np.diff(found.starts_s[order], axis=0) > 0).all()


@pytest.mark.thorough
def test_jobs_that_come_have_the_values_of_the_log() -> None:
    """One of the log is more urgent than who waits, or none is."""
    log, state = with_urgency(0), told(QUEUE, urgency=[3.0, 3.0, 3.0])
    calm, pressing = (replace(log, jobs=log.jobs.assign(urgency=each)) for each in (1.0, 9.0))
    few = dict(OPTIONS, futures=3)
    one, other = (
        ap.forecast(MostUrgent(), state, each, "a100=4", **few) for each in (calm, pressing)
    )
    assert other.ends_s.mean() > one.ends_s.mean() + 60


def test_columns_that_lack_are_refused_by_name() -> None:
    log = with_urgency(0)
    some = told(QUEUE, urgency=[1.0, None, 2.0])
    with pytest.raises(InputError, match="Job b of the state has no 'urgency'"):
        ap.forecast(MostUrgent(), some, log, "a100=4", **OPTIONS)
    bare = replace(log, jobs=log.jobs.drop(columns="urgency"))
    every = told(QUEUE, urgency=[1.0, 1.0, 2.0])
    with pytest.raises(InputError, match="needs the column 'urgency', which jobs of the log"):
        ap.forecast(MostUrgent(), every, bare, "a100=4", **OPTIONS)


@pytest.mark.parametrize("seed", range(20))
def test_told_are_columns_that_all_have(seed: int) -> None:
    """Against the definition, cell by cell."""
    rng = np.random.default_rng(seed)
    names = ["weight", "deadline_s", "entity", "mine", "recorded_end_s", "total_steps"]
    tables = []
    for rows in (int(rng.integers(1, 5)), int(rng.integers(1, 5))):
        kept = [name for name in names if rng.uniform() < 0.7]
        cells = np.where(rng.uniform(size=(rows, len(kept))) < 0.2, np.nan, 2.0)
        tables.append(pd.DataFrame(cells, columns=kept))
    here, log = tables
    found = told_columns(here, log, ())
    default = {"weight": 1.0}
    expected = {
        name
        for name in ("weight", "deadline_s", "entity", "mine")
        if name in here
        and (name in ("weight", "deadline_s") or (name in log and here[name].notna().all()))
    }
    for own, table in zip(found, tables, strict=True):
        assert set(own) == expected
        for name in expected:
            for row in range(len(table)):
                value = table[name][row] if name in table else np.nan
                known = default.get(name, np.nan) if np.isnan(value) else value
                np.testing.assert_equal(own[name][row], known)


def test_what_the_log_tells_of_later_is_left_out() -> None:
    """A log cut by hand at the time of the state foretells the same."""
    log, now_s = jobs_of(2, 60), 15_000.0
    state = STATE | {"now": now_s}
    whole = ap.forecast("easy", state, log, "a100=4", **OPTIONS)
    ended = log.jobs["arrival_s"] + log.jobs["total_steps"] <= now_s
    cut = ap.forecast("easy", state, replace(log, jobs=log.jobs[ended]), "a100=4", **OPTIONS)
    assert (whole.ends_s == cut.ends_s).all()
    assert f"Left out of the log: {(~ended).sum()} jobs" in str(whole)
    assert "Left out" not in str(cut)
    long = replace(log, jobs=log.jobs.assign(arrival_s=900.0, total_steps=1e6))
    with pytest.raises(InputError, match="No job of the log had ended"):
        ap.forecast("easy", STATE, long, "a100=4")


@pytest.mark.thorough
def test_columns_that_runs_tell_are_not_asked_for() -> None:
    found = ap.forecast("fifo", QUEUE, later(jobs_of(0), 1e6), "a100=4", **OPTIONS)
    assert (found.starts_s[1] >= found.starts_s[0]).all()


@pytest.mark.thorough
def test_a_policy_of_an_installed_package_by_command(tmp_path: Path) -> None:
    """A file and its entry point beside it: ``forecast --policy`` finds it and its column."""
    (tmp_path / "urgent_parts.py").write_text(
        "from dataclasses import dataclass\n"
        "from apportion.policies import FIFO\n\n\n"
        "@dataclass(frozen=True)\n"
        "class Urgent(FIFO):\n"
        '    """Most urgent first."""\n\n'
        '    name = "urgent"\n    columns = ("urgency",)\n\n'
        '    def order(self, p):\n        return -p.column("urgency")\n'
    )
    about = tmp_path / "urgent_parts-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: urgent-parts\n")
    (about / "entry_points.txt").write_text("[apportion.policies]\nurgent = urgent_parts:Urgent\n")
    log = with_urgency(1).save(tmp_path / "log.csv")[0]
    state = tmp_path / "state.json"
    state.write_text(json.dumps(told(QUEUE, urgency=[50, 70, 60])))
    words = ["forecast", str(state), "--policy", "urgent", "--log", str(log), "--futures", "4"]
    done = subprocess.run(
        [sys.executable, "-m", "apportion", *words, "--cluster", "a100=4", "--out", "f.csv"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set("abc") <= set(pd.read_csv(tmp_path / "f.csv")["job"])
    state.write_text(json.dumps(told(QUEUE)))
    missing = [sys.executable, "-m", "apportion", *words, "--cluster", "a100=4"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    refused = subprocess.run(
        missing, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "urgency" in refused.stderr
