"""The fluid runtime against formulas, and against a clock that ticks in small steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.mechanism.scheduler import Decision, Gangs
from apportion.sim.engine import Fluid, Speeds, TrueState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass
class Constant(Speeds):
    """Every line has its rate."""

    apart: ClassVar[bool] = True
    rate: Floats

    def rates(self, gangs: Gangs, there: Any = None) -> Floats:
        return self.rate[: gangs.job.size]


@dataclass
class ByJob(Constant):
    """Every job has its rate."""

    def rates(self, gangs: Gangs, there: Any = None) -> Floats:
        return self.rate[gangs.job]


def truth_of(steps: Floats, gpus: int = 1) -> TrueState:
    """Jobs of one GPU that are all here at once."""
    kinds = [f"m{k}" for k in range(steps.size)]
    jobs = pd.DataFrame({"job_type": kinds, "total_steps": steps, "scale_factor": gpus})
    index = pd.MultiIndex.from_product([kinds, [gpus]])
    speeds = pd.DataFrame({"k80": 1.0, "v100": 1.0}, index)
    load = ap.Workload("drawn", jobs, speeds)
    truth = TrueState(load, ap.Cluster({"k80": 64, "v100": 64}))
    truth.admit(0.0)
    return truth


def alone(jobs: int, gpus: int = 1) -> Gangs:
    number = np.arange(jobs)
    return Gangs(number, number, np.zeros(jobs, dtype=np.intp), np.full(jobs, gpus))


def kept(gangs: Gangs, jobs: NDArray[np.intp]) -> Gangs:
    """The lines of some jobs."""
    lines = np.isin(gangs.job, jobs)
    return Gangs(gangs.job[lines], gangs.gang[lines], gangs.option[lines], gangs.gpus[lines])


@pytest.mark.parametrize("seed", range(15))
def test_jobs_end_when_their_steps_over_their_rates_say(seed: int) -> None:
    """Whether they run to completion or in rounds, from one piece or in many."""
    rng = np.random.default_rng(seed)
    count, gpus, lost_s = (
        int(rng.integers(1, 7)),
        int(rng.integers(1, 3)),
        float(rng.choice([0, 9])),
    )
    steps, rate = rng.uniform(10, 900, count), rng.uniform(0.3, 4, count)
    needed_s = lost_s + steps / rate
    for event_driven in (True, False):
        truth, now_s = truth_of(steps, gpus), 0.0
        runtime, gangs = Fluid(truth, ByJob(rate)), alone(count, gpus)
        while truth.left:
            starts = np.full(gangs.job.size, now_s == 0.0)
            runtime.apply(now_s, Decision(gangs, starts, lost_s=lost_s))
            length_s = float(rng.choice([15.0, 40.0, 300.0]))
            end_s, ran = runtime.run(now_s, length_s, now_s, to_completion=event_driven)
            assert end_s <= now_s + length_s * (1 + 1e-12)
            assert end_s - now_s == pytest.approx(ran.length_s)
            assert (ran.worked_s <= ran.held_s * (1 + 1e-12)).all()
            now_s, gangs = end_s, kept(gangs, truth.active)
        np.testing.assert_allclose(truth.completion_s, needed_s, rtol=1e-9)
        np.testing.assert_allclose(truth.held_s[:, 0], needed_s, rtol=1e-9)
        np.testing.assert_allclose(truth.gpu_s[:, 0], needed_s * gpus, rtol=1e-9)
        assert truth.start_s.tolist() == [0.0] * count


@pytest.mark.parametrize("seed", range(15))
def test_shares_add_up_over_types(seed: int) -> None:
    """A job makes the sum of share times speed, and has its devices for the share of the time."""
    rng = np.random.default_rng([seed, 1])
    count = int(rng.integers(1, 6))
    steps, speed = rng.uniform(10, 900, count), rng.uniform(0.3, 4, (count, 2))
    share = rng.uniform(0.05, 1, (count, 2))
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1)
    job, option = np.divmod(rng.permutation(2 * count), 2)
    lines = Gangs(job, np.arange(2 * count), option, np.ones(2 * count, dtype=np.intp))
    gangs = lines._replace(share=share[job, option])
    truth = truth_of(steps)
    runtime = Fluid(truth, Constant(speed[job, option]))
    runtime.apply(0.0, Decision(gangs, np.ones(2 * count, dtype=bool)))
    end_s, ran = runtime.run(0.0, np.inf, 0.0, to_completion=True)
    rate = (share * speed).sum(axis=1)
    first = (steps / rate).argmin()
    assert end_s == pytest.approx((steps / rate)[first])
    assert ran.done.tolist() == [first]
    np.testing.assert_allclose(truth.remaining, np.maximum(steps - rate * end_s, 0), atol=1e-9)
    np.testing.assert_allclose(truth.held_s, share * end_s, rtol=1e-9)
    np.testing.assert_allclose(ran.worked_s, share[job, option] * end_s)


@pytest.mark.parametrize("times", [3, 40, 700])
def test_equal_rounds_booked_at_once_are_those_booked_one_by_one(times: int) -> None:
    """To the last bit, as rounds must not depend on whether anybody looked."""
    rng = np.random.default_rng(times)
    rate, length_s = rng.uniform(0.3, 4, 3), 0.1 + 1 / 3
    steps = rate * length_s * (times + 20)
    books = []
    for at_once in (True, False):
        truth, now_s, rounds = truth_of(steps), 0.0, 0
        runtime = Fluid(truth, Constant(rate))
        runtime.apply(0.0, Decision(alone(3), np.ones(3, dtype=bool)))
        while rounds < times:
            until_s = length_s * (times - 0.5) if at_once else now_s
            now_s, ran = runtime.run(now_s, length_s, until_s, to_completion=False)
            rounds += ran.times
        assert rounds == times
        books.append((now_s, truth.remaining.tobytes(), truth.held_s.tobytes()))
    assert books[0] == books[1]


def test_two_on_one_gang_account_for_half_of_what_it_holds_until_the_last_is_done() -> None:
    truth = truth_of(np.array([100.0, 300.0]), gpus=2)
    pair, none = np.array([0, 1]), np.zeros(2, dtype=np.intp)
    gangs = Gangs(pair, none, none, none + 2, mate=np.array([1, 0]))
    runtime = Fluid(truth, Constant(np.array([1.0, 1.0])))
    runtime.apply(0.0, Decision(gangs, np.ones(2, dtype=bool)))
    end_s, ran = runtime.run(0.0, 400.0, 0.0, to_completion=False)
    assert (end_s, ran.done.tolist()) == (300.0, [0, 1])
    assert truth.held_s[:, 0].tolist() == [100.0, 300.0]
    assert truth.gpu_s[:, 0].tolist() == [300.0, 300.0]
    assert ran.held_s.tolist() == [300.0, 300.0]
    assert ran.worked_s.tolist() == [100.0, 300.0]


def test_jobs_are_done_at_ticks() -> None:
    truth = truth_of(np.array([10.3, 20.2]))
    runtime = Fluid(truth, Constant(np.ones(2)), tick_s=0.5)
    runtime.apply(0.0, Decision(alone(2), np.ones(2, dtype=bool)))
    end_s, ran = runtime.run(0.0, np.inf, 0.0, to_completion=True)
    assert (end_s, ran.done.tolist()) == (10.5, [0])
    assert truth.remaining.tolist() == pytest.approx([0.0, 9.7])


def test_nothing_ever_happens_where_nobody_works() -> None:
    truth = truth_of(np.array([10.0]))
    runtime = Fluid(truth, Constant(np.zeros(1)))
    runtime.apply(0.0, Decision(alone(1), np.ones(1, dtype=bool)))
    end_s, _ = runtime.run(0.0, np.inf, 0.0, to_completion=True)
    assert end_s == np.inf
    assert truth.remaining.tolist() == [10.0]
