"""What unmeasured speeds are worth, against enumeration of what a job may do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from scipy.special import ndtri
from tests.estimators.speeds.drawn import COLUMNS, drawn_covariance, drawn_rows

from apportion.estimators import EstimatedSpeeds
from apportion.estimators.speeds.job_rows import log_worth

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


class Ran(NamedTuple):
    job: Any
    column: Any


REFERENCES, JOBS = np.split(
    np.exp(
        drawn_rows(
            np.random.default_rng(5), 20, drawn_covariance(np.random.default_rng(4)), np.zeros(12)
        )[0]
    ),
    [14],
)


def worth(mean: float, sd: float, work: float) -> float:
    return float(np.exp(log_worth(np.array([[mean]]), np.array([[sd]]), np.array([work]))[0, 0]))


def seconds_of_trying(speeds: Floats, work: float, sure: float) -> float:
    """Return the mean time of who tries first, and then does what is best; trials take 1 s."""
    within = np.minimum(1.0, work / speeds)
    left = work - within * speeds
    return float((within + np.minimum(left / speeds, left / sure)).mean())


def test_to_try_and_not_to_try_take_as_long() -> None:
    """The mean over 20,000 quantiles of the speed, and nothing of the formula, in 300 cases."""
    for seed in range(300):
        check_trial(np.random.default_rng(seed))


def check_trial(rng: np.random.Generator) -> None:
    mean, sd = rng.normal(scale=3.0), 10 ** rng.uniform(-2, 0.2)
    work = np.exp(mean) * 10 ** rng.uniform(-1.5, 3)
    speeds = np.exp(mean + sd * ndtri((np.arange(20_000) + 0.5) / 20_000))
    told = worth(mean, sd, work)
    # The quantiles leave out the outermost 1/40,000 on each side.
    assert seconds_of_trying(speeds, work, told) == pytest.approx(work / told, rel=2e-3)
    low, high = told * np.exp(-0.2 * sd), told * np.exp(0.2 * sd)
    assert seconds_of_trying(speeds, work, low) < work / low
    # A job that is done within the trial has no time left to go elsewhere.
    assert seconds_of_trying(speeds, work, high) > work / high


def best_seconds(work: float, sure: float, cells: list[Floats], told: Callable[..., Any]) -> float:
    """Mean time of a job that may try cells, each as fast as one of its values, alike likely.

    `told` gives the speeds that decide, sure one first, or None to look at all ways.
    """
    ways = []
    speeds = told(work, sure, cells)
    choices = range(len(cells) + 1) if speeds is None else [int(np.argmax(speeds))]
    for choice in choices:
        if choice == 0:
            ways.append(work / sure if sure else np.inf)
            continue
        rest, total = cells[: choice - 1] + cells[choice:], 0.0
        for speed in cells[choice - 1].tolist():
            if speed >= work:
                total += work / speed
            else:
                total += 1.0 + best_seconds(work - speed, max(sure, speed), rest, told)
        ways.append(total / len(cells[choice - 1]))
    return min(ways)


def by_worth(work: float, sure: float, cells: list[Floats]) -> list[float]:
    return [sure, *(worth(*_moments(each), work) for each in cells)]


def by_kappa(kappa: float) -> Callable[..., list[float]]:
    def told(_work: float, sure: float, cells: list[Floats]) -> list[float]:
        return [sure, *(np.exp(m + kappa * s) for m, s in map(_moments, cells))]

    return told


def _moments(values: Floats) -> tuple[float, float]:
    logs = np.log(values)
    return float(logs.mean()), float(logs.std())


@pytest.mark.parametrize(
    "cases", [range(40), pytest.param(range(40, 300), marks=pytest.mark.slow)], ids=["few", "more"]
)
def test_a_job_that_goes_by_worth_loses_next_to_nothing(cases: range) -> None:
    """Three types that nobody knows, and the best way to try them, found by enumeration.

    The rule looks at one cell at a time and is not the best of all ways; no fixed optimism is as
    near for short jobs and for long ones.
    """
    lost: dict[str, list[float]] = {"worth": [], "kappa 0": [], "kappa 1": []}
    ways = {"worth": by_worth, "kappa 0": by_kappa(0.0), "kappa 1": by_kappa(1.0)}
    for case in cases:
        rng = np.random.default_rng(case)
        work = 10 ** rng.uniform(0, 2.5)
        cells = [
            np.exp(rng.normal(scale=0.4) + rng.uniform(0.05, 0.7) * ndtri((np.arange(4) + 0.5) / 4))
            for _ in range(3)
        ]
        best = best_seconds(work, 0.0, cells, lambda *_: None)
        for name, way in ways.items():
            took = best_seconds(work, 0.0, cells, way)
            assert took >= best * (1 - 1e-9)
            lost[name].append(took / best - 1)
    mean = {name: float(np.mean(each)) for name, each in lost.items()}
    assert mean["worth"] < 0.01
    assert mean["worth"] < 0.7 * min(mean["kappa 0"], mean["kappa 1"]), mean


def believed(**options: Any) -> EstimatedSpeeds:
    chosen: dict[str, Any] = {"optimism": "worth", **options}
    return EstimatedSpeeds(REFERENCES, COLUMNS, **chosen)


def test_policies_are_told_what_cells_are_worth_to_each_job() -> None:
    beliefs = believed(trial_s=100.0)
    beliefs.tell_steps_left([0, "long"], [2000.0, 500_000.0])
    beliefs.observe(Ran([0, "long"], [1, 1]), [400.0, 400.0], [100.0, 100.0])
    told = beliefs.speeds([0, "long"])
    expected, sd = np.log(beliefs.expected([0, "long"])), beliefs.spread([0, "long"])
    left = np.array([1600.0, 499_600.0])
    hoped = np.exp(log_worth(expected, sd, left / 100.0))
    others = np.delete(np.arange(12), 1)
    np.testing.assert_allclose(told[:, others], hoped[:, others], rtol=1e-12)
    np.testing.assert_allclose(told[:, 1], np.exp(expected[:, 1]), rtol=1e-12)
    assert (told[1, others] > 1.2 * told[0, others]).any()


def test_jobs_of_one_type_try_for_one_another() -> None:
    beliefs = believed(rows="type")
    beliefs.admit(["a", "b", "c"], ["x", "x", "y"])
    beliefs.tell_steps_left(["a", "b", "c"], [1000.0, 2000.0, 3000.0])
    told = beliefs.speeds(["a", "b", "c"])
    np.testing.assert_allclose(told[[0, 1]], told[[2, 2]], rtol=1e-12)
    beliefs.forget(["a"])
    beliefs.observe(Ran(["b"], [0]), [10.0], [60.0])
    assert (beliefs.speeds(["b"])[0, 1:] != told[0, 1:]).any()


def test_order_and_names_of_jobs_change_nothing_and_states_go_on() -> None:
    def run(names: list[Any], turned: bool) -> tuple[EstimatedSpeeds, Floats]:
        beliefs = believed()
        order = list(reversed(range(6))) if turned else list(range(6))
        beliefs.tell_steps_left([names[k] for k in order], [1e3 * 3.0**k for k in order])
        for column in (2, 5):
            steps = [JOBS[k, column] * 200 for k in order]
            beliefs.observe(Ran([names[k] for k in order], [column] * 6), steps, [200.0] * 6)
        return beliefs, beliefs.speeds(names)

    beliefs, told = run(list(range(6)), False)
    np.testing.assert_array_equal(run(list("abcdef"), True)[1], told)
    later = believed()
    later.restore(json.loads(json.dumps(beliefs.state())))
    for each in (beliefs, later):
        each.observe(Ran([3], [7]), [5.0], [100.0])
    np.testing.assert_array_equal(later.speeds([0, 3]), beliefs.speeds([0, 3]))
