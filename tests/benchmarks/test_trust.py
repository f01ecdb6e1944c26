"""The oracles of the trust benchmark notice what is wrong, and say what they cannot tell."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from benchmarks.trust.ask import Answer, ask
from benchmarks.trust.case import Case
from benchmarks.trust.definitions.exact import Tableau
from benchmarks.trust.definitions.facts import Facts
from benchmarks.trust.definitions.packing import broken, patterns
from benchmarks.trust.draw import draw
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


@pytest.mark.thorough
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
