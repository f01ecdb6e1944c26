"""Queues by hand, against a clock of dictionaries, and through the public checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.mechanism.deciders import DECIDERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apportion.mechanism.job_table import JobTable

pytestmark = pytest.mark.usefixtures("free_starts")


@dataclass(frozen=True)
class ShortestLeft(ap.QueueScheduler):
    """Whoever needs least time is served first, on the fastest type that is free."""

    name = "shortest_left"

    longest: bool = False

    def queue(self, jobs: JobTable, now_s: float) -> Iterator[tuple[int, Iterable[int]]]:
        left_s = (jobs.remaining / jobs.speed.max(axis=1))[jobs.active].round(6)
        for job in jobs.active[np.argsort(-left_s if self.longest else left_s, kind="stable")]:
            yield job, np.argsort(-jobs.speed[job], kind="stable")


def workload(rows: list[tuple[float, int, float, float, float]]) -> ap.Workload:
    """Jobs of (arrival, GPUs, steps, steps/s on a, steps/s on b)."""
    arrival_s, gpus, steps, on_a, on_b = zip(*rows, strict=True)
    names = [f"m{k}" for k in range(len(rows))]
    jobs = pd.DataFrame(
        {"job_type": names, "scale_factor": gpus, "total_steps": steps, "arrival_s": arrival_s}
    )
    index = pd.MultiIndex.from_arrays([names, gpus])
    return ap.Workload("by hand", jobs, pd.DataFrame({"a": on_a, "b": on_b}, index=index))


def test_by_hand() -> None:
    load = workload(
        [(0.0, 1, 100.0, 1.0, 0.0), (10.0, 1, 20.0, 1.0, 0.5), (20.0, 1, 5.0, 1.0, 0.5)]
    )
    run = ap.simulate(ShortestLeft(), load, "a=1,b=1", preemption_overhead_seconds=2.0)
    # Job 0 is pushed off a at 10 s by job 1, which goes on, on b, as job 2 comes at 20 s; at 27 s
    # job 2 is done and job 1 moves back to a, where job 0 follows it.
    done_1 = 27.0 + 2.0 + 12.0 - 0.5 * 5.0
    assert run.jobs["completion_s"].tolist() == [done_1 + 2.0 + 92.0, done_1, 27.0]
    assert run.jobs["preemptions"].tolist() == [1, 2, 0]
    ap.check_schedule(run, load, "a=1,b=1")


def reference(load: ap.Workload, capacity: list[int], lost_s: float) -> list[float]:
    """Completion times by a clock that looks at every job at every event."""
    jobs, speed = load.jobs, load.throughput_of({"a": capacity[0], "b": capacity[1]}).to_numpy()
    left = jobs["total_steps"].tolist()
    arrival, gpus = jobs["arrival_s"].tolist(), jobs["scale_factor"].tolist()
    on: dict[int, int] = {}
    lost, done, now = dict.fromkeys(range(len(left)), 0.0), [np.nan] * len(left), 0.0
    while np.isnan(done).any():
        here = [k for k in range(len(left)) if arrival[k] <= now and np.isnan(done[k])]
        free, before, on = list(capacity), on, {}
        for k in sorted(here, key=lambda k: (round(left[k] / speed[k].max(), 6), k)):
            for kind in sorted(range(2), key=lambda kind: (-speed[k][kind], kind)):
                if speed[k][kind] > 0 and gpus[k] <= free[kind]:
                    on[k] = kind
                    free[kind] -= gpus[k]
                    break
        for k, kind in on.items():
            lost[k] = lost[k] if before.get(k) == kind else lost_s
        ends = {k: now + lost[k] + left[k] / speed[k][kind] for k, kind in on.items()}
        coming = [arrival[k] for k in range(len(left)) if arrival[k] > now]
        then = min([*ends.values(), *coming])
        for k, kind in on.items():
            worked = max(then - now - lost[k], 0.0)
            lost[k] = max(lost[k] - (then - now), 0.0)
            left[k] -= worked * speed[k][kind]
            if ends[k] <= then * (1 + 1e-12):
                done[k] = then
        on = {k: kind for k, kind in on.items() if np.isnan(done[k])}
        now = then
    return done


@pytest.mark.parametrize("seed", each_seed(10, 40))
def test_against_a_clock_of_dictionaries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(int(rng.integers(2, 8))):
        on_a, on_b = rng.choice([0.0, 1.0, 0.37, 2.1], 2, p=[0.1, 0.4, 0.3, 0.2])
        steps = float(rng.uniform(5, 300))
        rows.append((float(rng.uniform(0, 120)), int(rng.integers(1, 3)), steps, on_a or 1.3, on_b))
    rows.sort()
    load, capacity = workload(rows), rng.integers(2, 5, 2).tolist()
    lost_s = float(rng.choice([0.0, 3.0]))
    run = ap.simulate(
        ShortestLeft(),
        load,
        {"a": capacity[0], "b": capacity[1]},
        preemption_overhead_seconds=lost_s,
    )
    np.testing.assert_allclose(
        run.jobs["completion_s"], reference(load, capacity, lost_s), rtol=1e-9
    )


@pytest.mark.thorough
def test_the_public_check_of_schedulers() -> None:
    ap.check_scheduler(ShortestLeft())


def test_names_and_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    load = ap.generate_workload(jobs=2)
    monkeypatch.setitem(DECIDERS._known, "mine", ShortestLeft())
    assert ap.simulate("mine", load, "v100=8").policy == "shortest_left"
    free = ap.compare(["mine"], load, "v100=8", n_jobs=1, preemption_overhead_seconds=0.0)
    assert free["shortest_left"].settings == ap.simulate("mine", load, "v100=8").settings
    for call, message in (
        (lambda: ap.simulate("mine", load, "v100=8", mechanism="rounds"), "works by a queue"),
        (lambda: ap.simulate("mine", load, "v100=8", round_seconds=9.0), "does nothing to 'queue'"),
        (lambda: ap.simulate("fifo", load, "v100=8", mechanism="queue"), "shares out time"),
        (lambda: ap.simulate("dally", load, "v100=8", mechanism="queue"), "works by leases"),
        (lambda: ap.Queue(preemption_overhead_seconds=-1), "preemption_overhead_seconds is -1"),
    ):
        with pytest.raises(ap.InputError, match=message):
            call()


@dataclass(frozen=True)
class Answers(ShortestLeft):
    """Answers what it is told, of the types that are given."""

    answer: Any = None

    def queue(self, jobs: JobTable, now_s: float) -> Any:
        return self.answer(jobs, np.argsort(-jobs.speed[0], kind="stable"))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda jobs, kinds: None, "answers None"),
        (lambda jobs, kinds: [0], "answers 0: no pair"),
        (lambda jobs, kinds: [(0, kinds), (0, kinds)], "job 'a' .number 0. twice"),
        (lambda jobs, kinds: [(1, kinds)], "job 'b' .number 1., which is not there"),
        (lambda jobs, kinds: [(9, kinds)], "job 9, of which there is none"),
        (lambda jobs, kinds: [(-1, kinds)], "job -1, of which there is none"),
        (lambda jobs, kinds: [(0.0, kinds)], "job 0.0, of which there is none"),
        (lambda jobs, kinds: [(False, kinds)], "job False, of which there is none"),
        (lambda jobs, kinds: [("a", kinds)], "job 'a', of which there is none"),
        (lambda jobs, kinds: [(0, None)], "answers None as the types of job 'a'"),
        (lambda jobs, kinds: [(0, [17])], "type 17 for job 'a'.*from 0 to 1"),
        (lambda jobs, kinds: [(0, [-1])], "type -1 for job 'a'"),
        (lambda jobs, kinds: [(0, [0.0])], "type 0.0 for job 'a'"),
        (lambda jobs, kinds: [(0, "ab")], "type 'a' for job 'a'"),
    ],
)
def test_answers_that_cannot_be_are_refused(answer: Any, message: str) -> None:
    load = workload([(0.0, 1, 50.0, 1.0, 2.0), (10.0, 1, 50.0, 1.0, 2.0)])
    load = ap.Workload("two", load.jobs.set_axis(["a", "b"]), load.throughputs)
    with pytest.raises(ap.InputError, match=message):
        ap.simulate(Answers(answer=answer), load, {"a": 1, "b": 1})
    for kind in (np.int32, np.int64, np.uint8, int):  # whole numbers of any kind are taken
        fine = Answers(
            answer=lambda jobs, kinds, k=kind: [(k(j), map(k, kinds)) for j in jobs.active]
        )
        assert ap.simulate(fine, load, {"a": 1, "b": 1}).jobs["jct_s"].max() < 51


def test_who_names_a_job_twice_fails_the_public_check() -> None:
    def twice(jobs: JobTable, kinds: Any) -> Any:
        return [(job, kinds) for job in jobs.active for _ in range(2)]

    with pytest.raises(AssertionError, match=r"answers job 'job-0' .* twice"):
        ap.check_scheduler(Answers(answer=twice))


def arrays_of(jobs: JobTable) -> dict[str, np.ndarray]:
    """Every array of a job table, those of `facts` included."""
    held = {**vars(jobs), **jobs.facts}
    return {name: each for name, each in held.items() if isinstance(each, np.ndarray)}


@pytest.mark.parametrize("how", ["queue", "start"])
def test_schedulers_cannot_write_what_they_are_told(how: str) -> None:
    load = ap.generate_workload(jobs=3, seed=1, jobs_per_hour=6)
    seen: list[str] = []

    def tries(jobs: JobTable, kinds: Any) -> Any:
        for name, values in arrays_of(jobs).items():
            if name.startswith("_"):  # its own
                continue
            with pytest.raises(ValueError, match="read-only"):
                values += 1
            seen.append(name)
        return [(job, kinds) for job in jobs.active]

    class Mine:
        """A scheduler of one's own, by the queue."""

        event_driven = True

        def start(self, about: Any) -> None:
            self.about = about

        def decide(self, event: Any) -> Any:
            tries(self.about.jobs, [])
            raise KeyboardInterrupt

    if how == "start":
        with pytest.raises(KeyboardInterrupt):
            ap.simulate(Mine(), load, "v100=8")
    else:
        usual = ap.simulate(ShortestLeft(), load, "v100=8").jobs
        assert ap.simulate(Answers(answer=tries), load, "v100=8").jobs.equals(usual)
    assert {"remaining", "active", "speed", "held_s", "total", "weight"} <= set(seen)
