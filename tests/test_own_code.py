"""Errors of parts of one's own name the function, the file and the line, whatever calls them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

import apportion as ap
from apportion.cli import main
from apportion.errors import InputError
from apportion.own_code import answered_by, place_of, said_with_place
from apportion.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

PARTS = dedent(
    """
    from dataclasses import dataclass

    import cvxpy as cp

    import apportion as ap
    from apportion.elastic import ElasticRule
    from apportion.mechanism.placements import Strategy
    from apportion.policies import register


    def faulty():
        raise KeyError("nothing")  # here


    @register
    @dataclass(frozen=True)
    class Poor(ap.Policy):
        name = "poor"

        def objective(self, p):
            return faulty()


    @register
    @dataclass(frozen=True)
    class Crooked(ap.Policy):
        name = "crooked"

        def objective(self, p):  # here, crooked
            return cp.Maximize(cp.sum_squares(p.X))


    @register
    @dataclass(frozen=True)
    class Misshapen(ap.Policy):
        name = "misshapen"

        def objective(self, p):
            return cp.Maximize(cp.sum(p.throughput + [1.0] * 99))  # here, misshapen


    class Greedy(Strategy):
        name = "greedy"

        def choose(self, gang, devices):  # here, greedy
            return [0] * 9


    @dataclass(frozen=True)
    class Misnumbered(ap.QueueScheduler):
        name = "misnumbered"

        def queue(self, jobs, now_s):  # here, misnumbered
            yield 99, [0]


    class Below:
        name = "below"

        def overhead(self, job_type, shape):  # here, below
            return -1.0


    class Mechanism:
        name = "nothing"

        def parts(self, decider, about):  # here, mechanism
            return None


    class Undecided:
        name = "undecided"

        def decide(self, event):  # here, undecided
            return 1


    @dataclass(frozen=True, repr=False)
    class Chance(ElasticRule):
        name = "chance"

        def choose(self, jobs):  # here, chance
            return 5


    @dataclass(frozen=True, repr=False)
    class Turns(ap.Order):
        rule = "turns"

        def turn(self, job):  # here, turns
            return 0.5
    """
)
"""A file of somebody's own; what is wrong stands in lines of their own."""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The file, imported by its name as from anybody's folder."""
    folder = tmp_path_factory.mktemp("somewhere")
    (folder / "somebodys_parts.py").write_text(PARTS)
    known = {group: each.own() for group, each in Registry.all.items()}
    sys.path.insert(0, str(folder))
    module = importlib.import_module("somebodys_parts")
    yield module
    sys.path.remove(str(folder))
    del sys.modules["somebodys_parts"]
    for group, each in Registry.all.items():
        each.take_over(known.get(group, {}))


def line_of(mark: str) -> int:
    lines = PARTS.splitlines()
    return 1 + next(i for i, text in enumerate(lines) if text.endswith(f"# {mark}"))


def simulated(policy: Any, **settings: Any) -> Any:
    workload = ap.generate_workload(jobs=3, seed=1, jobs_per_hour=60, scale_factors={2: 1.0})
    return ap.simulate(policy, workload, "v100=4", **settings)


@pytest.mark.parametrize(
    ("use", "function", "mark"),
    [
        (lambda own: simulated("crooked"), "Crooked.objective", "here, crooked"),
        (lambda own: simulated("misshapen"), "Misshapen.objective", "here, misshapen"),
        (lambda own: simulated("fifo", placement="greedy"), "Greedy.choose", "here, greedy"),
        (lambda own: simulated(own.Misnumbered()), "Misnumbered.queue", "here, misnumbered"),
        (
            lambda own: simulated("fifo", mechanism="rounds", network=own.Below()),
            "Below.overhead",
            "here, below",
        ),
        (
            lambda own: simulated("fifo", mechanism=own.Mechanism()),
            "Mechanism.parts",
            "here, mechanism",
        ),
        (lambda own: simulated(own.Undecided()), "Undecided.decide", "here, undecided"),
        (
            lambda own: ap.simulate(own.Chance(), ap.generate_elastic_workload(2), "v100=4"),
            "Chance.choose",
            "here, chance",
        ),
        (
            lambda own: ap.simulate(
                "ada_srsf", ap.generate_contended_workload(scale=0.01), "v100=64", order=own.Turns()
            ),
            "Turns.turn",
            "here, turns",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_in_a_run_says_where_it_comes_from(
    parts: ModuleType, use: Any, function: str, mark: str
) -> None:
    from apportion.mechanism.placements import PLACEMENTS

    PLACEMENTS["greedy"] = parts.Greedy
    with pytest.raises(InputError) as raised:
        use(parts)
    assert f"{function} (somebodys_parts.py:{line_of(mark)})" in said_with_place(raised.value)


def test_a_command_says_it_in_one_line(
    parts: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    speeds = tmp_path / "speeds.csv"
    speeds.write_text("job,v100\na,1\nb,2\n")
    assert main(["solve", str(speeds), "--policy", "poor", "--cluster", "v100=1"]) == 1
    where = f"raised in faulty (somebodys_parts.py:{line_of('here')})."
    assert capsys.readouterr().err == f"apportion: error: KeyError: 'nothing', {where}\n"


def test_a_comparison_says_it_of_each_policy_that_failed(parts: ModuleType) -> None:
    workload = ap.generate_workload(jobs=2, seed=1)
    compared = ap.compare(["fifo", "poor"], workload, "v100=4", n_jobs=1, raise_on_failure=False)
    where = f"raised in faulty (somebodys_parts.py:{line_of('here')})."
    assert compared.errors == {"poor": f"KeyError: 'nothing', {where}"}


@pytest.mark.parametrize("part", [ap.Rounds(), ap.get_policy("fifo"), len, Path(), 3, None])
def test_what_comes_with_packages_is_nobodys_own(part: Any) -> None:
    assert answered_by(part, "objective") == ""


def test_an_error_of_who_calls_the_package_is_none_of_its_parts() -> None:
    with pytest.raises(InputError) as raised:
        ap.simulate("fifo", ap.generate_workload(jobs=1), "v100=zero")
    assert place_of(raised.value) is None
    assert said_with_place(raised.value) == str(raised.value)
