"""A scheduler of one's own without a state: refused with a snapshot, and run without in tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.sim.engine.snapshot import NoStateError, Snapshots

if TYPE_CHECKING:
    from pathlib import Path

WORKLOAD = ap.generate_workload(jobs=3, seed=1, jobs_per_hour=30)


class Stateless:
    """Decides as another scheduler does, and has no state of it."""

    def __init__(self, other: Any) -> None:
        self.other, self.event_driven = other, other.event_driven

    def decide(self, event: Any) -> Any:
        return self.other.decide(event)

    def valid_for_s(self, now_s: float) -> float:
        return float(self.other.valid_for_s(now_s))


class Rounds:
    """A mechanism whose scheduler has none."""

    name = "stateless_rounds"

    def parts(self, decider: Any, about: Any) -> Any:
        parts = ap.Rounds().parts(decider, about)
        return parts._replace(scheduler=Stateless(parts.scheduler))


class Queue:
    """A scheduler that is made for each run, and has none."""

    name = "stateless_queue"

    def make(self, about: Any) -> Any:
        return Stateless(_First().make(about))


class _First(ap.QueueScheduler):
    name = "first"

    def queue(self, jobs: Any, now_s: float) -> Any:
        for job in jobs.active.tolist():
            yield job, [0]


CASES: list[tuple[Any, dict[str, Any]]] = [("isolated", {"mechanism": Rounds()}), (Queue(), {})]


@pytest.mark.parametrize(("policy", "settings"), CASES)
def test_a_snapshot_is_refused_at_the_start(
    policy: Any, settings: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"has no state\(\) and restore\(state\).*Resumable"):
        ap.simulate(policy, WORKLOAD, "v100=4", snapshot=tmp_path / "state.json", **settings)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("policy", "settings"), CASES)
def test_a_comparison_with_a_folder_leaves_it_out(
    policy: Any, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Snapshots, "note", Snapshots.write)  # at once, and not after half a minute
    here = ap.compare([policy], WORKLOAD, "v100=4", n_jobs=1, **settings)
    kept = ap.compare([policy], WORKLOAD, "v100=4", n_jobs=1, out=tmp_path, **settings)
    assert here.jobs().equals(kept.jobs())


def test_the_error_is_one_of_the_input() -> None:
    assert issubclass(NoStateError, InputError)
