"""A session after anything that happened to it: as `solve` would have it, copied, in threads."""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
import random
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.policies.registry import BUILT_IN, SPECIALISED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apportion.policies import Session

TYPES = {"v100": 9.0, "p100": 4.0, "k80": 1.0}
COPIES: dict[str, Callable[[Session], Session]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda s: pickle.loads(pickle.dumps(s)),
}


def _policies() -> list[str]:
    """Names of all policies that a session takes."""
    taken = []
    for each in (*BUILT_IN, *SPECIALISED):
        for name in (each.name, f"{each.name}_agnostic"):
            try:
                ap.session(name, dict.fromkeys(TYPES, 1))
            except ap.InputError:
                continue
            taken.append(name)
    return taken


POLICIES = _policies()


class Told:
    """What was said to a session, kept beside it."""

    def __init__(self, policy: str, rng: random.Random) -> None:
        self.policy, self.rng = policy, rng
        self.gpus = {"v100": 4, "p100": 3, "k80": 6}
        self.speeds: dict[str, dict[str, float]] = {}
        self.facts: dict[str, dict[str, Any]] = {}
        self.number = 0

    def drawn(self) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, Any]]]:
        """Draw some jobs, of which different things are known, on some of the types."""
        speeds, facts, rng = {}, {}, self.rng
        for _ in range(rng.choice([1, 1, 2, 3])):
            job, self.number = f"job-{self.number}", self.number + 1
            on = rng.sample(list(TYPES), rng.randint(1, 3))
            speeds[job] = {name: TYPES[name] * rng.choice([0.5, 1.0, 1.5]) for name in on}
            facts[job] = {"arrival_s": 10.0 * self.number, "entity": rng.choice("ab")}
            facts[job] |= {"steps_remaining": 1e3 * rng.randint(1, 4), "deadline_s": 1e5}
            others = {"weight": 2.0, "elapsed_s": 50.0, "total_steps": 9e3, "duration_s": 3.0}
            facts[job] |= {name: others[name] for name in rng.sample(list(others), 2)}
            if self.policy.startswith("allox") or rng.random() < 0.6:
                continue
            facts[job]["scale_factor"] = 2
        return speeds, facts

    def fits(self, gpus: dict[str, int]) -> bool:
        """Whether each job can run on some type."""
        return sum(gpus.values()) > 0 and all(
            any(gpus.get(name, 0) >= self.facts[job].get("scale_factor", 1) for name in speeds)
            for job, speeds in self.speeds.items()
        )

    def table(self) -> pd.DataFrame:
        """Return what was said in one table."""
        defaults = {"weight": 1.0, "elapsed_s": 0.0, "scale_factor": 1}
        facts = {job: {**defaults, **known} for job, known in self.facts.items()}
        table = pd.DataFrame.from_dict(facts, orient="index")
        return table.drop(columns=["total_steps", "duration_s"], errors="ignore")

    def anew(self) -> ap.Allocation:
        """Solve for what was said, as if it were all new."""
        speeds = {
            job: {name: own.get(name, 0.0) for name in self.gpus}
            for job, own in self.speeds.items()
        }
        return ap.solve(self.policy, speeds, workers=self.gpus, jobs=self.table())


def add(s: Session, told: Told) -> None:
    speeds, facts = told.drawn()
    gone = {name for own in speeds.values() for name in own if name not in told.gpus}
    known = gone <= set(TYPES)
    before = dict(told.speeds), dict(told.facts)
    told.speeds |= speeds
    told.facts |= facts
    if known and told.fits(told.gpus):
        s.add(speeds, facts)
        return
    told.speeds, told.facts = before
    with pytest.raises(ap.InputError):
        s.add(speeds, facts)


def remove(s: Session, told: Told) -> None:
    going = told.rng.sample(list(told.speeds), min(len(told.speeds), told.rng.randint(1, 2)))
    s.remove(going)
    for job in going:
        del told.speeds[job], told.facts[job]


def update(s: Session, told: Told) -> None:
    jobs = told.rng.sample(list(told.speeds), min(2, len(told.speeds)))
    changes = [{"weight": 3.0}, {"steps_remaining": 77.0, "elapsed_s": 5.0}]
    new = dict(zip(jobs, changes, strict=False))
    s.update(new)
    for job, facts in new.items():
        told.facts[job] = told.facts[job] | facts


def capacity(s: Session, told: Told) -> None:
    name, gpus = told.rng.choice(list(told.gpus)), told.rng.choice([0, 1, 2, 5, 8])
    _move(told, told.gpus | {name: gpus}, lambda: s.set_capacity(name, gpus))


def cluster(s: Session, told: Told) -> None:
    names = told.rng.sample(list(TYPES), told.rng.randint(1, 3))
    gpus = {name: told.rng.randint(1, 6) for name in names}
    _move(told, gpus, lambda: s.set_cluster(gpus))


def _move(told: Told, gpus: dict[str, int], call: Callable[[], None]) -> None:
    if told.fits(gpus):
        call()
        told.gpus = gpus
        return
    with pytest.raises(ap.InputError):
        call()


EVENTS = (add, add, add, remove, update, capacity, cluster)


def check(s: Session, told: Told) -> None:
    assert s.jobs == list(told.speeds)
    assert dict(s.cluster.gpus) == told.gpus
    if not told.speeds:
        with pytest.raises(ap.InputError, match="no jobs"):
            s.solve()
        return
    found, expected = s.solve(), told.anew()
    assert found.X.columns.tolist() == list(told.gpus)
    assert found.objective == pytest.approx(expected.objective, rel=1e-6, nan_ok=True)
    pd.testing.assert_frame_equal(found.X, expected.X[found.X.columns], atol=1e-5, rtol=0)


def play(policy: str, seed: int, events: int) -> None:
    rng = random.Random(f"{policy} {seed}")
    told, s = Told(policy, rng), ap.session(policy, {"v100": 4, "p100": 3, "k80": 6})
    for _ in range(events):
        rng.choice(EVENTS)(s, told)
        if rng.random() < 0.3:
            made = rng.choice(list(COPIES.values()))(s)
            s.set_cluster("v100=9,p100=9,k80=9")  # of the one that is left behind
            s.remove(s.jobs)
            s = made
        if rng.random() < 0.5:
            check(s, told)
    check(s, told)


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 40))
def test_whatever_happened_the_next_solve_is_a_fresh_one(seeds: range) -> None:
    for seed in seeds:
        for policy in POLICIES if seed else POLICIES[:: len(POLICIES) // 3]:
            play(policy, seed, events=5 if not seed else 12)


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_has_the_state_and_shares_nothing(how: str) -> None:
    s = ap.session(ap.MaxMinFairness(heterogeneity_aware=False), "v100=2,k80=1")
    s.add({"a": {"v100": 3.0}, 7: {"k80": 1.0, "v100": 2.0}}, {"a": {"weight": 2.0}, 7: {}})
    before = s.solve()
    other = COPIES[how](s)
    assert other.policy == s.policy
    other.remove(["a"])
    other.add({"c": {"k80": 5.0}})
    assert (s.jobs, other.jobs) == (["a", 7], [7, "c"])
    pd.testing.assert_frame_equal(s.solve().X, before.X)
    s.close()
    assert other.solve().status == "optimal"
    with pytest.raises(ap.InputError, match="closed"):
        COPIES[how](s).solve()


def test_options_of_tiers_come_as_jobs_bring_them() -> None:
    options = pd.MultiIndex.from_product([["v100"], ["machine", "network"]])
    speeds = pd.DataFrame([[9.0, 5.0], [4.0, 3.0]], ["a", "b"], options)
    s = ap.session("max_min_fairness", "v100=8,k80=4")
    s.add(speeds.iloc[:1, :1])
    s.add(speeds.iloc[1:])
    with pytest.raises(ap.InputError, match="2 levels"):
        s.add({"c": {"v100": 1.0}})
    filled = speeds.mask(pd.DataFrame([[False, True], [False, False]], ["a", "b"], options), 0.0)
    expected = ap.solve("max_min_fairness", filled, workers="v100=8,k80=4")
    for each in (s, *(made(s) for made in COPIES.values())):
        pd.testing.assert_frame_equal(each.solve().X, expected.X, atol=1e-7)


def test_a_type_that_no_cluster_had_has_no_capacity() -> None:
    s = ap.session("max_min_fairness", "v100=2,k80=1")
    s.set_cluster("v100=2")
    s.add({"a": {"v100": 3.0}})
    with pytest.raises(ap.InputError, match="Did you mean 'v100'"):
        s.set_capacity("v10", 3)


@pytest.fixture
def impatient() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def in_threads(work: Callable[[int], None], threads: int = 4) -> None:
    raised: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            raised.append(error)

    started = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for each in started:
        each.start()
    for each in started:
        each.join()
    assert not raised


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "operations", [pytest.param(120), pytest.param(10_000, marks=pytest.mark.slow)]
)
def test_threads_that_share_a_session_take_turns(operations: int) -> None:
    """Each result is that of the jobs that it names, and who added jobs finds them there."""
    s = ap.session("max_min_fairness", "v100=8,k80=8")
    stay = {f"j{i}": {"v100": 1.0 + i % 3, "k80": 0.5 + i % 2} for i in range(20)}
    s.add(stay)
    found: dict[tuple[str, ...], list[Any]] = {}

    def work(number: int) -> None:
        for turn in range(operations // 12):
            job = f"t{number}-{turn}"
            s.add({job: {"v100": 5.0 + number, "k80": 1.0}})
            result = s.solve()
            assert job in result.X.index
            kinds = tuple(sorted(str(name)[:2] for name in result.X.index))
            found.setdefault(kinds, []).append(result)
            s.remove([job])

    in_threads(work)
    assert s.jobs == list(stay)
    for kinds, results in found.items():
        guests = {kind: {"v100": 5.0 + int(kind[1]), "k80": 1.0} for kind in kinds[20:]}
        speeds = stay | guests
        expected = ap.solve("max_min_fairness", speeds, workers="v100=8,k80=8")
        for result in results:
            assert result.objective == pytest.approx(expected.objective, rel=1e-8)


@pytest.mark.thorough
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("turns", [1, pytest.param(15, marks=pytest.mark.slow)])
def test_calls_in_threads_have_the_bytes_of_calls_in_turn(turns: int) -> None:
    """Solves, sessions and simulations, each beside others of other policies."""
    workload = ap.generate_workload(jobs=4, seed=1, jobs_per_hour=60.0)
    told = Told("all", random.Random(0))
    told.speeds, told.facts = speeds, facts = told.drawn()
    table = told.table()

    def solved(policy: str) -> bytes:
        found = ap.solve(policy, speeds, workers=told.gpus, jobs=table)
        return bytes(found.X.to_numpy().tobytes())

    def kept(policy: str) -> bytes:
        with ap.session(policy, told.gpus) as s:
            s.add(speeds, facts)
            return bytes(s.solve().X.to_numpy().tobytes())

    def simulated(policy: str) -> bytes:
        run = ap.simulate(policy, workload, "v100=1,p100=1,k80=1")
        return bytes(run.jobs["completion_s"].to_numpy().tobytes())

    few = [policy for policy in POLICIES if not policy.startswith("allox")]
    calls: list[tuple[Callable[[str], bytes], str]] = [
        (call, policy) for policy in few for call in (solved, kept)
    ]
    calls += [(simulated, policy) for policy in ("max_min_fairness", "fifo", "makespan")]
    if turns == 1:
        calls = calls[::12] + calls[-2:]
    in_turn = {(call, policy): call(policy) for call, policy in calls}

    def work(number: int) -> None:
        for seed in range(turns):
            order = np.random.default_rng([number, seed]).permutation(len(calls))
            for place in order.tolist():
                call, policy = calls[place]
                assert call(policy) == in_turn[call, policy], (call, policy)

    in_threads(work)


ODD: list[Any] = [
    *(None, True, -1, 0, 1.5, float("nan"), float("inf"), 10**400, "", "x", "v100", "\ud800"),
    *([], {}, [[]], [None], ["v100", "v100"], {"a": 1}, [["v100", -1]]),
]


def places(content: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every way to a part of an object of JSON."""
    parts = content.items() if isinstance(content, dict) else enumerate(content)
    for name, part in parts:
        yield (*above, name)
        if isinstance(part, dict | list):
            yield from places(part, (*above, name))


def spoilt(content: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Put something odd in the place of a part, take it away, or add another."""
    content = copy.deepcopy(content)
    *above, name = rng.choice(list(places(content)))
    there: Any = content
    for each in above:
        there = there[each]
    how = rng.choice(["odd", "odd", "gone", "more"])
    if how == "gone":
        del there[name]
    elif how == "odd":
        there[name] = copy.deepcopy(rng.choice(ODD))
    elif isinstance(there, list):
        there.append(there[name])
    else:
        there["strange"] = rng.choice(ODD)
    return content


@pytest.mark.parametrize("seeds", ranges_of_seeds(60, 6000, 500))
def test_spoilt_allocations_are_refused_or_usable(seeds: range) -> None:
    s = ap.session("max_min_fairness", ap.Cluster({"v100": 4, "k80": 2}, {"v100": 2, "k80": 1}, 2))
    s.add({"a": {"v100": 2.0, "k80": 1.0}, "b": {"v100": 1.0}})
    solved = s.solve().to_dict()
    for seed in seeds:
        rng = random.Random(seed)
        with contextlib.suppress(ap.ApportionError):
            found = ap.Allocation.from_dict(spoilt(solved, rng))
            assert ap.Allocation.from_json(found.to_json()).status == found.status


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "wonderful"}, "status of the allocation 'wonderful'"),
        ({"objective": 1e400}, "objective of the allocation is inf"),
        ({"objective": "1"}, "objective of the allocation is '1'; it must be a number"),
        ({"gap": -0.5}, "gap of the allocation is -0.5"),
        ({"prices": [1e400, 0.0]}, "A price of the allocation is infinite"),
        ({"X": [[-1.0, 0.0]]}, "X of the allocation"),
        ({"X": [[1e400, 0.0]]}, "X of the allocation"),
        ({"prises": []}, "Did you mean 'prices'"),
        ({"jobs": "a"}, "jobs of the allocation is 'a'; it must be a list"),
        ({"integral": 1}, "integral of the allocation is 1; it must be true or false"),
    ],
    ids=str,
)
def test_allocations_that_are_none(change: dict[str, Any], message: str) -> None:
    solved = ap.solve("fifo", {"a": {"v100": 1.0, "k80": 0.5}}, workers="v100=1,k80=1")
    with pytest.raises(ap.InputError, match=message):
        ap.Allocation.from_dict({**solved.to_dict(), **change})
    text = json.dumps({**solved.to_dict(), **change}).replace("Infinity", "1e400")
    with pytest.raises(ap.InputError, match=message):
        ap.Allocation.from_json(text)
