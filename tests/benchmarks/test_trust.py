"""The oracles of the trust benchmark: they agree with cases by hand, and sabotage is caught."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from benchmarks.trust.ask import Answer, ask
from benchmarks.trust.case import Case
from benchmarks.trust.definitions import cones, cost, rules
from benchmarks.trust.definitions.bounds import level_bound, total_bound, welfare_bound
from benchmarks.trust.definitions.demands import demands, fill, solve_levels
from benchmarks.trust.definitions.exact import Tableau, exact_fill
from benchmarks.trust.definitions.facts import Facts
from benchmarks.trust.definitions.packing import broken, patterns
from benchmarks.trust.definitions.programs import best_total
from benchmarks.trust.definitions.totals import total_value
from benchmarks.trust.draw import draw
from benchmarks.trust.hierarchy import fill_tree, rates
from benchmarks.trust.judge import judge
from benchmarks.trust.run import names, plan, record, run
from benchmarks.trust.table import counts, is_wrong

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def by_hand(policy: str, speed: list[list[float]], capacity: list[float], **more: Any) -> Case:
    """Pose a case in which every job is a row and every option a type."""
    jobs, types = len(speed), len(capacity)
    columns = {name: np.ones(jobs) for name in ("weight", "count", "scale_factor")}
    given = {name: np.array(more.pop(name), dtype=float) for name in list(more) if name in COLUMNS}
    columns |= given
    own = np.arange(jobs)
    return replace(
        Case(
            policy=policy,
            number=1,
            seed=0,
            options={},
            arguments={},
            speed=np.array(speed),
            row=own,
            job=own,
            gpus=np.repeat(columns["scale_factor"][:, None], types, axis=1),
            option_type=np.arange(types),
            capacity=np.array(capacity),
            types=tuple("abcdefgh"[:types]),
            columns=columns,
            dollars=np.ones(types),
            order=np.arange(types),
        ),
        **more,
    )


COLUMNS = {
    "weight",
    "scale_factor",
    "steps_remaining",
    "elapsed_s",
    "isolated_elapsed_s",
    "arrival_s",
    "deadline_s",
}


def test_makespan_of_two_jobs_on_two_types() -> None:
    # On one GPU of each type, job 1 makes 2 or 1, job 2 makes 1 or 1: the first takes the fast one
    # as long as both end together, 6 steps in 3 s and 3 steps in 3 s.
    case = by_hand("makespan", [[2.0, 1.0], [1.0, 1.0]], [1, 1], steps_remaining=[6, 3])
    facts = Facts(case)
    wanted = demands(facts)
    thr = facts.thr @ solve_levels(facts, wanted)
    assert 1 / wanted.levels(thr).min() == pytest.approx(3.0, rel=1e-12)


def test_water_filling_goes_on_after_the_first_bottleneck() -> None:
    # Jobs 1 and 2 share a: 1/2 each. Job 3 has b alone: 1.
    speed = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    case = by_hand("makespan", speed, [1, 1], steps_remaining=[1, 1, 1])
    facts = Facts(case)
    assert fill(facts, demands(facts)) == pytest.approx([0.5, 0.5, 1.0], rel=1e-10)


def test_finish_time_fairness_of_one_type() -> None:
    # One GPU, two jobs that run in 10 s and 30 s alone and in 20 s and 60 s on half of it. Nothing
    # is gained by sharing otherwise: a ratio of 1 for both.
    more = {"steps_remaining": [10, 30], "elapsed_s": [0, 0], "isolated_elapsed_s": [0, 0]}
    facts = Facts(by_hand("finish_time_fairness", [[1.0], [1.0]], [1], **more))
    wanted = demands(facts)
    ratios = -wanted.levels(facts.thr @ solve_levels(facts, wanted))
    assert ratios == pytest.approx([1.0, 1.0], rel=1e-9)


def test_hierarchy_passes_on_what_a_full_job_leaves() -> None:
    case = by_hand(
        "hierarchical_fairness", [[1.0]] * 3, [2], entity=("x", "x", "y"), weight=[1, 3, 1]
    )
    # Two GPUs: rates of 1/8, 3/8 and 1/2; y's job is full when x's have 1/4 and 3/4, which is all.
    assert fill_tree(Facts(case)) == pytest.approx([0.25, 0.75, 1.0], rel=1e-9)
    tall = replace(case, capacity=np.array([3.0]))
    assert fill_tree(Facts(tall)) == pytest.approx([1.0, 1.0, 1.0], rel=1e-9)


def test_nash_welfare_divides_by_weight() -> None:
    facts = Facts(by_hand("nash_welfare", [[2.0], [5.0]], [1], weight=[1, 3]))
    x, prices = cones.best_nash(facts)
    assert x == pytest.approx([0.25, 0.75], rel=1e-10)
    assert prices == pytest.approx([4.0], rel=1e-9)  # d/dW of the sum of w log W
    best = cones.welfare(facts, facts.thr @ x)
    assert welfare_bound(facts, prices) == pytest.approx(best, rel=1e-9)


def test_strategy_proof_takes_what_presence_costs() -> None:
    # Two equal jobs on one GPU have 1/2 each; without one the other has 1: each keeps 1/2 of 1/2.
    theirs, doubt = cones.strategy_proof(Facts(by_hand("strategy_proof", [[4.0], [4.0]], [1])))
    assert theirs == pytest.approx([1.0, 1.0], rel=1e-6)
    assert doubt < 1e-6


def test_total_and_its_bound() -> None:
    facts = Facts(by_hand("max_total_throughput", [[3.0, 1.0], [2.0, 1.5]], [1, 1]))
    value = total_value(facts)
    x, prices = best_total(facts, value)
    assert value @ x == pytest.approx(4.5)
    assert total_bound(facts, value, prices) == pytest.approx(4.5)
    assert total_bound(facts, value, np.zeros(2)) == pytest.approx(5.0)  # 3 + 2, nothing scarce


def test_prices_of_a_level_by_hand() -> None:
    # One GPU for two jobs with 1 step/s: the level is 1/2, a GPU more is worth 1/2.
    case = by_hand("makespan", [[1.0], [1.0]], [1], steps_remaining=[1, 1])
    wanted = demands(Facts(case))
    bound, low, high = level_bound(Facts(case), np.array([0.5]), wanted.at, 1.0)
    assert (bound, low, high) == pytest.approx((0.5, 1.0, 1.0), rel=1e-9)
    twice = level_bound(Facts(case), np.array([1.0]), wanted.at, 1.0)
    assert twice == pytest.approx((0.5, 2.0, 2.0), rel=1e-9)  # proves as much, but is no derivative
    assert level_bound(Facts(case), np.array([0.0]), wanted.at, 1.0)[0] == 1.0


def test_cost_by_hand() -> None:
    case = by_hand("min_cost", [[4.0, 3.0]], [1, 1], dollars=np.array([2.0, 1.0]))
    assert cost.best_bargain(Facts(case)) == pytest.approx(0.75)  # 3/4 of its speed for 1 dollar
    late = replace(case, columns=case.columns | {n: np.array([v]) for n, v in DEADLINE.items()})
    floor = cost.floors(Facts(late))
    assert floor == pytest.approx([3.5])
    # Half of the time on each: 3.5 of 4 steps/s for 1.5 dollars.
    assert cost.best_with_floors(Facts(late), floor) == pytest.approx(3.5 / 4 / 1.5)
    short = replace(late, columns=late.columns | {"deadline_s": np.array([5.0])})
    floor = cost.floors(Facts(short))
    assert cost.least_shortfall(Facts(short), floor) == pytest.approx((7 - 4) / 7)


DEADLINE = {"steps_remaining": 35.0, "elapsed_s": 0.0, "deadline_s": 10.0}


def test_matching_by_hand() -> None:
    # One GPU: 1 s first, then 3 s: 1 + (1 + 3) = 5.
    case = by_hand("allox", [[1.0], [1.0]], [1], steps_remaining=[3, 1])
    assert rules.matching_cost(Facts(case)) == pytest.approx(5.0)
    assert rules.queue_fault(Facts(case), np.array([[0.0], [1.0]])) == pytest.approx(0.0)


def test_queues_of_equal_cost_may_be_on_one_gpu_or_on_two() -> None:
    # 1 s and 2 s on the fast GPU end after 1 and 3 s; on both GPUs they end after 2 s each.
    case = by_hand("allox", [[2.0, 1.0], [2.0, 1.0]], [1, 1], steps_remaining=[2, 4])
    assert rules.matching_cost(Facts(case)) == pytest.approx(4.0)
    for X in ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]):
        assert rules.queue_fault(Facts(case), np.array(X)) == pytest.approx(0.0)
    late = np.array([[0.0, 0.0], [0.0, 1.0]])
    assert rules.queue_fault(Facts(case), late) > 0.1


def test_formulas_by_hand() -> None:
    speed = [[1.0, 1.0], [1.0, 0.0]]
    isolated = rules.formula(Facts(by_hand("isolated", speed, [1, 1])))
    assert isolated == pytest.approx(np.array([[0.5, 0.5], [0.5, 0.0]]))
    proportional = rules.formula(Facts(by_hand("proportional", speed, [3, 1], weight=[1, 2])))
    assert proportional == pytest.approx(np.array([[0.375, 0.125], [0.75, 0.0]]))


def test_gangs_that_do_not_pack() -> None:
    # A machine of 8 holds two gangs of 3, or one of 3 and one of 5.
    assert {(2, 0), (1, 1)} <= set(patterns((3, 5), 8)) <= {(2, 0), (1, 1), (1, 0), (0, 1)}
    case = by_hand(
        "max_total_throughput",
        [[1.0, 0.0, 0.0]] * 3,
        [8],
        scale_factor=[5, 3, 3],
        shape="tiers",
        gpus=np.array([[5.0] * 3, [3.0] * 3, [3.0] * 3]),
        option_type=np.zeros(3, dtype=int),
    )
    facts = Facts(case)
    assert broken(facts, np.array([1.0, 1.0, 0.0]))[2] <= 1e-9
    # The vertex (1/2, 1/2): a gang of 5 counts as much as one of 3.
    assert broken(facts, np.array([0.6, 1.0, 0.8]))[2] == pytest.approx(0.2)


def _more_than_there_is(answer: Answer) -> Answer:
    return replace(answer, X=answer.X * 1.5, throughput=answer.throughput * 1.5)


def _less_than_possible(answer: Answer) -> Answer:
    return replace(answer, X=answer.X * 0.99, throughput=answer.throughput * 0.99)


SABOTAGE: dict[str, Callable[[Answer], Answer]] = {
    "violated": _more_than_there_is,
    "off": _less_than_possible,
    "inconsistent": lambda answer: replace(answer, throughput=answer.throughput * 1.001),
    # Less would be a dual value too where the objective has a kink.
    "prices": lambda answer: replace(answer, prices=answer.prices * 3 + 1.0),
}


@pytest.mark.parametrize("kind", SABOTAGE)
@pytest.mark.parametrize(
    "policy", ["max_min_fairness", "makespan", "fifo", "max_total_throughput", "nash_welfare"]
)
def test_sabotage_is_caught(policy: str, kind: str) -> None:
    speed = [[4.0, 1.0], [6.0, 2.0], [5.0, 3.0], [2.0, 1.9]]
    more = {"steps_remaining": [9, 8, 7, 6], "arrival_s": [0, 1, 2, 3], "weight": [1, 2, 1, 1]}
    case = by_hand(policy, speed, [1, 1], **more)
    answer = ask(case)
    assert judge(case, answer).certified
    found = judge(case, SABOTAGE[kind](answer))
    assert kind in found.faults
    assert found.wrong


@pytest.mark.parametrize("policy", ["makespan", "max_total_throughput", "min_cost"])
def test_a_false_objective_is_caught(policy: str) -> None:
    case = by_hand(policy, [[4.0, 1.0], [6.0, 2.0]], [1, 1], steps_remaining=[9, 8])
    answer = ask(case)
    false = replace(answer, objective=answer.objective * (1 + 1e-5))
    assert "inconsistent" in judge(case, false).faults


def test_an_answer_that_says_that_it_is_inexact_is_flagged_not_wrong() -> None:
    case = by_hand("max_total_throughput", [[4.0, 1.0], [6.0, 2.0]], [1, 1])
    answer = ask(case)
    less = _less_than_possible(answer)
    objective = answer.objective * 0.99
    honest = replace(less, objective=objective, status="optimal_inaccurate", gap=0.02)
    found = judge(case, honest)
    assert found.flagged
    assert not found.wrong
    assert "bound" in judge(case, replace(honest, gap=1e-3)).faults


def test_cases_are_determined_by_policy_number_and_seed() -> None:
    for policy in names():
        first, second = draw(policy, 5, 3), draw(policy, 5, 3)
        assert np.array_equal(first.speed, second.speed)
        assert not np.array_equal(draw(policy, 6, 3).speed, first.speed)


@pytest.mark.thorough
def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    cases = plan(6, ["isolated", "max_total_throughput", "min_cost"])
    part = run(cases[:3], 0, file, 1)
    with file.open("a") as torn:
        torn.write('{"seed": 0, "policy": "min_')
    whole = run(cases, 0, file, 1)
    assert [line["seconds"] for line in whole[:3]] == [line["seconds"] for line in part]
    again = run(cases, 0, None, 2)
    assert counts(whole).equals(counts(again))
    assert len(run(cases, 0, file, 1)) == 6


def test_an_error_is_a_failure() -> None:
    line = record("isolated", 0, 0) | {"outcome": "failed"}
    assert is_wrong(line)


def test_filling_in_fractions_is_that_in_floating_point() -> None:
    for number in range(3):
        facts = Facts(draw("hierarchical_fairness", number, 7))
        unit = facts.equal_share / facts.scale
        exact = exact_fill(facts, lambda active: rates(facts, active) * unit)  # noqa: B023
        np.testing.assert_allclose(fill_tree(facts), exact, rtol=1e-9, atol=1e-9 * facts.fast.max())


def test_fractions_know_slivers() -> None:
    """Two jobs share one GPU as 10**20 to 1; a third has another GPU, and the first a limit."""
    speeds = np.array([[-1.0, 0, 0], [0, -1.0, 0], [0, 0, -1.0]])
    limits = np.array([[1.0, 1.0, 0], [0, 0, 1.0]])
    tableau = Tableau(np.concatenate([speeds, limits]), np.array([0.0, 0, 0, 1, 1]))
    one, none = Fraction(1), Fraction(0)
    first, dual = tableau.rise(np.array([10**20 * one, one, one, none, none]))
    assert first == Fraction(1, 10**20 + 1)
    assert (dual[:3] > 0).tolist() == [True, True, False]
    second, dual = tableau.rise(np.array([none, none, one, none, none]))
    assert first + second == 1
    assert (dual[:3] > 0).tolist() == [False, False, True]


def test_policies_about_entities_and_power_are_judged() -> None:
    """Each answer is right; half of it, or what breaks a limit, is not."""
    for policy, spoilt in (("fair_over_time", "off"), ("cohort", "off"), ("power_capped", "off")):
        for number in range(6):
            case = draw(policy, number, 5)
            answer = ask(case)
            assert judge(case, answer).certified, (policy, number)
            half = replace(answer, X=answer.X / 2, throughput=answer.throughput / 2)
            assert spoilt in judge(case, half).faults, (policy, number)
    case = draw("power_capped", 0, 5)
    low = replace(case, options=case.options | {"cap_w": case.options["cap_w"] / 3})
    assert "violated" in judge(low, ask(case)).faults
    case = next(c for c in (draw("cohort", n, 5) for n in range(40)) if c.options["borrowing"])
    none = replace(case, options=case.options | {"borrowing": dict.fromkeys(case.entity, 0.0)})
    none.options["quotas"].update(dict.fromkeys(case.entity, 0.1))
    assert "violated" in judge(none, ask(case)).faults
