"""Sia, Pollux, DeepBoot, Optimus and Lyra equal enumeration with values from the definitions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.oracles import elastic_values as values
from tests.oracles.draw_whole import ELASTIC, draw_elastic
from tests.oracles.whole_choices import enumerate_best
from tests.policies.whole.posed import DELAY_S, Shape, choice_of
from tests.seeds import sampled

from apportion.errors import InfeasibleError, InputError
from apportion.policies import Instance, Policy, solve_instance
from apportion.policies.deepboot import DeepBoot
from apportion.policies.elastic_values import fair_throughput, reallocation_factor
from apportion.policies.lyra import Lyra
from apportion.policies.optimus import Optimus
from apportion.policies.pollux import Pollux
from apportion.policies.problem import Problem
from apportion.policies.sia import Sia

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracles.draw_whole import ElasticJob
    from tests.oracles.elastic_values import ValueRow

FULL = pytest.param(34, marks=pytest.mark.slow)
"""Seeds of each of six kinds: 204 instances."""


def rounds(seeds: int) -> Iterator[tuple[Shape, list[ElasticJob], list[Fraction], np.ndarray]]:
    """Rounds of one and two types with weights, and their factors as the oracle has them."""
    for kind in ELASTIC:
        for seed in range(seeds):
            jobs = draw_elastic(seed, kind, jobs=4)
            rng = np.random.default_rng(seed)
            types = 1 + seed % 2
            shape = Shape(4, types, rng.integers(0 if seed % 5 == 4 else 1, 6, types).tolist())
            factor = [values.reallocation_factor(j.age_s, j.restarts, 30) for j in jobs]
            yield shape, jobs, factor, rng.choice([1.0, 2.0], 4)


def factors(jobs: list[ElasticJob], **options: bool) -> list[float]:
    age, restarts = [j.age_s for j in jobs], [j.restarts for j in jobs]
    return [float(r) for r in reallocation_factor(age, restarts, DELAY_S, **options)]


def fair(shape: Shape, job: ElasticJob, jobs: int) -> Fraction:
    """Speed at ceil(GPUs / jobs) GPUs: by type the option of most GPUs within, else of fewest."""
    total = sum(shape.capacity)
    share, result = -(-total // jobs), Fraction(0)
    for kind, gpus in enumerate(shape.capacity):
        own = {
            int(shape.gpus[c]): Fraction(g)
            for c, g in enumerate(job.goodput)
            if g is not None and shape.accelerator[c] == kind
        }
        within = [k for k in own if k <= share]
        if own:
            result += Fraction(gpus, total) * own[max(within) if within else min(own)]
    return result


def speedups(shape: Shape, jobs: list[ElasticJob]) -> list[ValueRow]:
    """Fair-normalised speed-ups; 0 for a job that runs on types without GPUs only."""
    found: list[ValueRow] = []
    for job in jobs:
        at_share = fair(shape, job, len(jobs)) if sum(shape.capacity) else Fraction(0)
        found.append(
            [
                None if g is None else Fraction(g) / at_share if at_share else Fraction(0)
                for g in job.goodput
            ]
        )
    return found


def weighed(rows: list[ValueRow], weight: np.ndarray) -> list[ValueRow]:
    return [
        [None if v is None else v * int(w) for v in row]
        for row, w in zip(rows, weight, strict=True)
    ]


def assert_best(
    policy: Policy, instance: Instance, shape: Shape, rows: list[ValueRow], offset: float = 0.0
) -> None:
    """The decision is worth what the best is worth, by the oracle's values."""
    case = shape.choices(rows)
    best, found = enumerate_best(case), solve_instance(policy, instance)
    assert best is not None
    assert found.status == "optimal" or best.worth == 0  # of nothing there is no relative gap
    chosen = choice_of(found.X)
    assert case.feasible(chosen)
    scale = max([1e-9, *(abs(float(v)) for row in rows for v in row if v is not None)])
    assert float(case.worth(chosen)) == pytest.approx(float(best.worth), rel=1e-9, abs=1e-9 * scale)
    assert abs(found.objective) == pytest.approx(
        abs(offset - float(best.worth)) if offset else float(best.worth), rel=1e-9, abs=1e-9 * scale
    )


@pytest.mark.parametrize("seeds", [4, FULL])
@pytest.mark.parametrize("power", sampled([-0.5, -2.0, 0.5, 1.0], 2))
@pytest.mark.parametrize("penalty", [1.1, 2.0])
def test_sia_equals_enumeration(seeds: int, power: float, penalty: float) -> None:
    for shape, jobs, _, weight in rounds(seeds):
        r = [
            values.reallocation_factor(j.age_s, j.restarts, 30, young="one below delay")
            for j in jobs
        ]
        own = factors(jobs, one_below_delay=True)
        assert own == pytest.approx([float(x) for x in r])
        rows = [
            values.sia(j.goodput, j.current, x, p=power, surplus=Fraction(penalty))
            for j, x in zip(jobs, r, strict=True)
        ]
        instance = shape.instance(jobs, own, weight=weight)
        assert_best(Sia(power=power, penalty=penalty), instance, shape, weighed(rows, weight))


@pytest.mark.parametrize("seeds", [4, FULL])
@pytest.mark.parametrize("power", sampled([-2.0, -1.0, 0.0, 0.5, 1.0], 2))
def test_pollux_equals_enumeration_in_fitness(seeds: int, power: float) -> None:
    low = Fraction(4, 1000)
    for shape, jobs, r, weight in rounds(seeds):
        rows = [
            values.pollux(s, j.current, x, p=power, scale=1 / (1 + low), epsilon=low / (1 + low))
            for s, j, x in zip(speedups(shape, jobs), jobs, r, strict=True)
        ]
        mean = [
            [None if v is None else v / int(weight.sum()) for v in row]
            for row in weighed(rows, weight)
        ]
        policy = Pollux(power=power)
        instance = shape.instance(jobs, factors(jobs), weight=weight)
        case, found = shape.choices(mean), solve_instance(policy, instance)
        best = enumerate_best(case)
        assert best is not None
        chosen = choice_of(found.X)
        assert case.feasible(chosen)
        of_none = float(low / (1 + low))
        none = np.log(of_none) if power == 0 else of_none**power
        sign = -1 if power < 0 else 1
        worth = float(case.worth(chosen))
        assert found.objective == pytest.approx(none + sign * worth, rel=1e-9, abs=1e-9)
        assert found.objective == pytest.approx(none + sign * float(best.worth), rel=1e-8)
        assert found.gap <= (1e-6 if power > -2 else 1e-5)


@pytest.mark.parametrize("seeds", [4, FULL])
def test_deepboot_equals_enumeration(seeds: int) -> None:
    for shape, jobs, r, weight in rounds(seeds):
        rows = [
            values.deepboot(s, j.current, x)
            for s, j, x in zip(speedups(shape, jobs), jobs, r, strict=True)
        ]
        instance = shape.instance(jobs, factors(jobs), weight=weight)
        assert_best(DeepBoot(), instance, shape, weighed(rows, weight))


@pytest.mark.parametrize("seeds", [4, FULL])
@pytest.mark.parametrize("unserved", [None, 10.0, 1e5])
def test_optimus_equals_enumeration(seeds: int, unserved: float | None) -> None:
    for shape, jobs, _, weight in rounds(seeds):
        left = [Fraction(j.age_s) + 1 for j in jobs]
        slowest = [
            max(n / Fraction(g) for g in j.goodput if g) for j, n in zip(jobs, left, strict=True)
        ]
        each = [Fraction(int(w)) / int(weight.min()) for w in weight]
        charged = Fraction(unserved or 0) or 2 * sum(
            (w * s for w, s in zip(each, slowest, strict=True)), Fraction(0)
        )
        rows: list[ValueRow] = [
            [None if g is None else charged - n / Fraction(g) for g in j.goodput]
            for j, n in zip(jobs, left, strict=True)
        ]
        columns = {"steps_remaining": [float(n) for n in left], "weight": weight}
        instance = shape.instance(jobs, [1.0] * 4, **columns)  # type: ignore[arg-type]
        offset = float(charged) * float(weight.sum())
        policy = Optimus(unserved_s=unserved)
        assert_best(policy, instance, shape, weighed(rows, weight), offset)


def test_optimus_serves_a_job_that_is_alone_and_has_one_option() -> None:
    instance = Instance.of_options([[2.0]], [1], [1], columns={"steps_remaining": [10.0]})
    assert solve_instance(Optimus(), instance).X.tolist() == [[1.0]]


def test_optimus_is_the_greedy_rule_where_gains_diminish() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        jobs, gpus = int(rng.integers(2, 6)), int(rng.integers(1, 12))
        step = [[Fraction(a) + Fraction(b, k) for k in range(1, 9)] for a, b in
                rng.integers(1, 60, (jobs, 2)).tolist()]  # fmt: skip
        left = rng.integers(1, 1000, jobs).tolist()
        counts = values.optimus_greedy(step, left, gpus)
        instance = Instance.of_options(
            [[float(1 / t) for t in row] for row in step],
            np.arange(1, 9),
            [gpus],
            columns={"steps_remaining": left},
        )
        found = solve_instance(Optimus(unserved_s=1e6), instance)
        if gpus >= jobs:
            by_rule = sum(left[j] * float(step[j][k - 1]) for j, k in enumerate(counts))
            assert found.objective == pytest.approx(by_rule, rel=1e-12)
        default = solve_instance(Optimus(), instance)
        assert (default.X.sum(axis=1) > 0).sum() == min(jobs, gpus)


@pytest.mark.parametrize("seeds", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_lyra_equals_enumeration(seeds: int) -> None:
    infeasible = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        jobs, gpus = int(rng.integers(1, 5)), int(rng.integers(2, 13))
        base = rng.integers(1, 4, jobs)
        speed = rng.uniform(0.5, 2.0, (jobs, 1)) * np.arange(1, 7)
        left = rng.uniform(10, 1000, jobs)
        columns = {"scale_factor": base, "steps_remaining": left}
        instance = Instance.of_options(speed, np.arange(1, 7), [gpus], columns=columns)
        shape = Shape(6, 1, [gpus])
        rows: list[ValueRow] = [
            [None] * (w - 1)
            + [Fraction(0)]
            + values.lyra_extra(Fraction(n / s[w - 1]), int(w), 6 - int(w))
            for w, n, s in zip(base, left, speed, strict=True)
        ]
        best = enumerate_best(shape.choices(rows, exactly_one=True))
        if best is None:
            infeasible += 1
            with pytest.raises(InfeasibleError, match="base workers of every job"):
                solve_instance(Lyra(), instance)
            continue
        found = solve_instance(Lyra(), instance)
        assert found.objective == pytest.approx(float(best.worth), rel=1e-9, abs=1e-9)
        assert (found.X.sum(axis=1) == 1).all()
    assert 0 < infeasible < seeds


def two_jobs(penalty: float) -> list[float]:
    """One job that holds four GPUs, and one that is new, on four GPUs: who is served."""
    instance = Instance.of_options(
        [[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]],
        [1, 2, 4],
        [4],
        columns={"current_option": [2, -1], "reallocation_factor": [0.9, 1.0]},
    )
    return [float(row.sum()) for row in solve_instance(Sia(penalty=penalty), instance).X]


def test_sia_can_starve_a_newcomer_with_the_published_penalty() -> None:
    """By hand, 1.1: (4, 0) is worth 1.1 - 1/2 = .6; (2, 2) 2.2 - 1/sqrt(1.8) - 1/sqrt 2 = .747."""
    assert two_jobs(1.1) == [1, 1]
    one_gpu = Instance.of_options(
        [[1.0, 2.0, 4.0], [1.0, 0.0, 0.0]],
        [1, 2, 4],
        [4],
        columns={"current_option": [2, -1], "reallocation_factor": [0.9, 1.0]},
    )
    # (4, 0) .6; (2, 1) 1.1 - 1/sqrt(1.8) + .1 = .455.
    assert solve_instance(Sia(), one_gpu).X.sum(axis=1).tolist() == [1, 0]
    assert solve_instance(Sia(penalty=2.0), one_gpu).X.sum(axis=1).tolist() == [1, 1]


def test_sia_leaves_out_who_lost_its_gpus_at_a_low_factor() -> None:
    """1.1 - r ** -.5 is below 0 for r < 1 / 1.21: idle GPUs do not help."""
    for r, served in ((0.82, 0), (0.83, 1)):
        instance = Instance.of_options([[1.0]], [1], [4], columns={"reallocation_factor": [r]})
        assert solve_instance(Sia(), instance).X.sum() == served
        assert solve_instance(Sia(penalty=2.0), instance).X.sum() == 1


def test_reallocation_factors_by_hand() -> None:
    assert reallocation_factor(600, 2, 30) == pytest.approx(6 / 7)
    assert reallocation_factor(600, 2, 10) == pytest.approx(0.950820, abs=5e-7)
    assert reallocation_factor([60, 50, 0], [0, 3, 0], 30).tolist() == [2 / 3, 0.0, 0.0]
    assert reallocation_factor([0, 20, 30], 0, 30, one_below_delay=True).tolist() == [1, 1, 0.5]
    assert reallocation_factor(0, 0, 30, started=False) == 1
    assert reallocation_factor(0, 5, 0) == 1


def test_a_move_is_paid_for() -> None:
    """By hand, s over two GPUs: (1, 3) is 2.003 and (2, 2) 2; with factors 1.441 and 1.667."""
    speed = np.array([[1, 1.8, 2.4, 2.8], [1, 1.9, 2.75, 3.4]])
    for factor, chosen, value in (
        ([1.0, 1.0], (0, 2), 1 / 1.8 + 2.75 / 1.9),
        ([6 / 7, 2 / 3], (1, 1), 1 + 2 / 3),
    ):
        columns = {"current_option": [1.0, -1.0], "reallocation_factor": factor}
        instance = Instance.of_options(speed, [1, 2, 3, 4], [4], columns=columns)
        found = solve_instance(DeepBoot(), instance)
        assert choice_of(found.X) == chosen
        assert found.objective == pytest.approx(value)


def test_fitness_of_the_worked_power_means() -> None:
    speed = np.array([[1, 2.2, 3.5], [1, 1.1, 1.15]])
    # Two jobs on three GPUs: the share is two GPUs, so speeds count over 2.2 and 1.1.
    for power, rows in ((1.0, speed / [[2.2], [1.1]]), (-1.0, speed / [[2.2], [1.1]])):
        instance = Instance.of_options(speed, [1, 2, 3], [3])
        found = solve_instance(Pollux(power=power, epsilon=1e-6), instance)
        pairs = [(2, None), (1, 0), (0, 1), (None, 2)]
        best = max(
            values.fitness(
                [0 if c is None else row[c] for row, c in zip(rows, pair, strict=True)],
                power,
                epsilon=1e-6,
            )
            for pair in pairs
        )
        assert found.objective ** (1 / power) == pytest.approx(best / (1 + 1e-6), rel=1e-9)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (lambda: Pollux(power=1.5), "power is above 1"),
        (lambda: Pollux(power=float("nan")), "power"),
        (lambda: Pollux(power=-3.0), "larger epsilon"),
        (lambda: Pollux(epsilon=0.0), "epsilon must be"),
        (lambda: Sia(power=0.0), "power not 0"),
        (lambda: Sia(penalty=np.inf), "finite"),
        (lambda: Optimus(unserved_s=-1.0), "unserved_s"),
    ],
)
def test_options_out_of_range_are_refused(policy: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        policy()  # type: ignore[operator]


@pytest.mark.parametrize("seeds", [4, FULL])
def test_fitness_is_1_at_fair_shares_and_its_limit_is_the_worst_job(seeds: int) -> None:
    """For any power and speeds; minus infinity equals enumeration."""
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        jobs, share = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        speed = np.zeros((jobs, 3))
        speed[:, share - 1] = rng.uniform(0.1, 100.0, jobs)  # no other number of GPUs runs
        equal = Instance.of_options(speed, [1, 2, 3], [jobs * share])
        for power in (1.0, 0.5, 0.0, -1.0, -2.5):
            mean = solve_instance(Pollux(power=power, epsilon=0.01), equal).objective
            assert mean == pytest.approx(0.0 if power == 0 else 1.0, abs=1e-9)
        assert solve_instance(Pollux(power=-np.inf), equal).objective == pytest.approx(1.0)

        speed = np.sort(rng.uniform(0.2, 3.0, (jobs, 3)), axis=1)
        gpus = int(rng.integers(1, 3 * jobs))
        drawn = Instance.of_options(speed, [1, 2, 3], [gpus])
        fair = fair_throughput(Problem(drawn))
        ways = product(range(4), repeat=jobs)
        held = np.array([way for way in ways if sum(way) <= gpus])
        level = np.hstack([np.zeros((jobs, 1)), speed / fair[:, None]])[np.arange(jobs), held]
        found = solve_instance(Pollux(power=-np.inf), drawn)
        assert found.objective == pytest.approx(level.min(axis=1).max(), abs=1e-9)
        if gpus >= jobs:
            assert (np.asarray(found.X).sum(axis=1) > 0.5).all()
