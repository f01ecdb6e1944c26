"""What stops a comparison or a sweep within a run loses no more than some seconds of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap
from apportion.sim.engine.snapshot import Snapshots

if TYPE_CHECKING:
    from pathlib import Path

LOAD = ap.generate_workload(jobs=6, seed=2, scale_factors="gavel", jobs_per_hour=6)
POLICIES = ["fifo", "max_min_fairness"]


class Stopped(BaseException):
    """As an interrupt is none of the errors that a worker reports."""


def stop_in_the_second_run(patch: pytest.MonkeyPatch) -> None:
    """Stop after 15 steps of the second run, whose state is on the disk by then."""
    steps: dict[Any, int] = {}

    def note(snapshots: Snapshots, *where: Any) -> None:
        steps[snapshots.path] = steps.get(snapshots.path, 0) + 1
        if len(steps) == 2 and steps[snapshots.path] == 15:
            snapshots.write(*where)
            raise Stopped

    patch.setattr(Snapshots, "note", note)


def resumed(patch: pytest.MonkeyPatch) -> list[bool]:
    """Note for each run whether it went on from a state."""
    found, resume = [], Snapshots.resume

    def noted(snapshots: Snapshots, *parts: Any) -> Any:
        state = resume(snapshots, *parts)
        found.append(state is not None)
        return state

    patch.setattr(Snapshots, "resume", noted)
    return found


@pytest.mark.thorough
def test_a_comparison_goes_on_within_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(**more: Any) -> ap.Comparison:
        return ap.compare(POLICIES, LOAD, "v100=4,k80=4", n_jobs=1, **more)

    with monkeypatch.context() as patch:
        stop_in_the_second_run(patch)
        with pytest.raises(Stopped):
            compare(out=tmp_path)
    assert len(list((tmp_path / ".partial" / "states").iterdir())) == 1
    with monkeypatch.context() as patch:
        went_on = resumed(patch)
        after = compare(out=tmp_path)
    assert went_on == [True]
    assert not (tmp_path / ".partial").exists()
    whole = compare()
    for policy in POLICIES:
        for table in ("jobs", "rounds", "schedule"):
            pd.testing.assert_frame_equal(
                getattr(after.runs[policy], table), getattr(whole.runs[policy], table)
            )


@pytest.mark.thorough
def test_a_damaged_state_begins_the_run_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def compare(**more: Any) -> ap.Comparison:
        return ap.compare(POLICIES, LOAD, "v100=4,k80=4", n_jobs=1, **more)

    with monkeypatch.context() as patch:
        stop_in_the_second_run(patch)
        with pytest.raises(Stopped):
            compare(out=tmp_path)
    (state,) = (tmp_path / ".partial" / "states").iterdir()
    state.write_bytes(state.read_bytes()[:-100])
    after = compare(out=tmp_path)
    assert "The run begins anew." in caplog.text
    assert not (tmp_path / ".partial").exists()
    for policy, run in compare().runs.items():
        pd.testing.assert_frame_equal(after[policy].jobs, run.jobs, check_exact=True)


@pytest.mark.thorough
@pytest.mark.parametrize("resume", sampled([True, False], 2))
def test_a_sweep_goes_on_within_a_run(
    resume: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sweep(**more: Any) -> Any:
        return ap.sweep(POLICIES, LOAD, "v100=4,k80=4", n_jobs=1, **more)

    with monkeypatch.context() as patch:
        stop_in_the_second_run(patch)
        with pytest.raises(Stopped):
            sweep(out=tmp_path)
    with monkeypatch.context() as patch:
        went_on = resumed(patch)
        after = sweep(out=tmp_path, resume=resume)
    assert went_on == ([True] if resume else [False, False])
    assert not (tmp_path / "states").exists()
    apart = ["policy_seconds", "wall_seconds"]
    one, other = after.table().drop(columns=apart), sweep().table().drop(columns=apart)
    pd.testing.assert_frame_equal(one, other)
