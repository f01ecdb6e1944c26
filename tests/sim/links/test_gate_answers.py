"""Gates and laws of one's own that answer what is no answer, or put it off for ever."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import ranges_of_seeds
from tests.sim.links.drawn import drawn, play

import apportion as ap
from apportion.errors import InputError, SolveError
from apportion.mechanism.gates import HOLD, START
from apportion.sim.links import ETHERNET_10G, LinkEngine

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Answers:
    """Answer the same as long after now as said."""

    answer: object
    name: str = "mine"

    def decide(self, now_s: float, flow: object, links: object) -> float:
        return now_s + self.answer if type(self.answer) is float else self.answer  # type: ignore[return-value]


def _run(gate: Answers) -> None:
    workload = ap.generate_contended_workload(seed=0, scale=0.002)
    few = ap.Workload("few", workload.jobs.iloc[:3], workload.throughputs)
    ap.simulate("ada_srsf", few, ap.Cluster({"v100": 64}, gpus_per_machine=4), gate=gate)


@pytest.mark.parametrize("answer", [None, "start", True, float("nan")])
def test_answers_that_are_no_times(answer: object) -> None:
    with pytest.raises(InputError, match="The gate 'mine' answers"):
        _run(Answers(answer))


@pytest.mark.parametrize("later_s", [1e-12, 1.0])
def test_answers_that_are_put_off_for_ever(later_s: float) -> None:
    with pytest.raises(SolveError, match=r"'mine' to let it send .* asked again 100,000 times"):
        _run(Answers(later_s))


@dataclass(frozen=True)
class InPairs:
    """Let transfers start when two wait."""

    name: str = "in pairs"

    def decide(self, now_s: float, flow: object, links: Any) -> float:
        return START if len(links.waiting) + len(links.flows) > 1 else HOLD


def test_who_waits_for_a_job_to_come_stands_not_still() -> None:
    workload = ap.generate_contended_workload(seed=0, scale=0.002)
    wide = workload.jobs[workload.jobs["scale_factor"] == 8].iloc[:2]
    jobs = wide.assign(arrival_s=[500.0, 0.0], total_steps=1.0)
    few = ap.Workload("few", jobs, workload.throughputs)
    cluster = ap.Cluster({"v100": 16}, gpus_per_machine=4)
    run = ap.simulate("ada_srsf", few, cluster, gate=InPairs())
    assert (run.jobs["completion_s"] > 500).all()


class Law:
    """Another law's rates, or what is made of them."""

    startup_s = 0.0

    def __init__(self, law: Any, made: Callable[[list[float]], Any] = list) -> None:
        self._law, self._made = law, made
        self.s_per_byte, self.penalty_s_per_byte = law.s_per_byte, law.penalty_s_per_byte
        self.asked: list[int] = []

    def rates(self, flows: Any) -> Any:
        self.asked.append(len(flows))
        return self._made(self._law.rates(flows))


BAD_RATES: list[Any] = [-1, 0.0, math.inf, -math.inf, math.nan, None, "1", True, 1e-300, 1e300]


def refused(seed: int) -> str:
    """Return why a drawn case is refused of which one rate is bad, missing, or one too many."""
    rng, case = np.random.default_rng([seed, 13]), drawn(seed)
    good = Law(case.sharing)
    as_it_is = pytest.approx(play(LinkEngine(*case[:4]), case), rel=1e-9)
    assert play(LinkEngine(*case[:2], good, case.gate), case) == as_it_is
    as_array = Law(case.sharing, np.array)
    assert play(LinkEngine(*case[:2], as_array, case.gate), case) == as_it_is
    calls = [call for call, transfers in enumerate(good.asked) if transfers]
    if not calls:
        return ""
    call = int(rng.choice(calls))
    place, bad = int(rng.integers(good.asked[call])), rng.integers(len(BAD_RATES) + 2)

    def spoilt(rates: list[float]) -> Any:
        if len(law.asked) - 1 != call:
            return rates
        if bad < len(BAD_RATES):
            return [*rates[:place], BAD_RATES[bad], *rates[place + 1 :]]
        return rates[:place] if bad == len(BAD_RATES) else [*rates, 1.0]

    law = Law(case.sharing, spoilt)
    names = [f"job {job} of mine" for job in range(len(case.jobs))]
    with pytest.raises(InputError) as found:
        play(LinkEngine(*case[:2], law, case.gate, None, names), case)
    return str(found.value)


@pytest.mark.parametrize("seeds", ranges_of_seeds(4, 300))
def test_rates_of_ones_own_law_are_checked_wherever_they_are_asked_for(seeds: range) -> None:
    said = [why for why in map(refused, seeds) if why]
    assert len(said) > len(seeds) // 2
    for why in said:
        assert "the law 'Law' of sharing links" in why
        assert re.search(r"job 'job \d+ of mine'", why)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"s_per_byte": math.nan}, "s_per_byte of the law 'Law' is nan"),
        ({"penalty_s_per_byte": -1.0}, "penalty_s_per_byte of the law 'Law' is -1.0"),
        ({"startup_s": "soon"}, "startup_s of the law 'Law' is 'soon'"),
        ({"rates": 3}, "has no rates"),
    ],
)
def test_figures_of_ones_own_law_are_checked(changed: dict[str, Any], words: str) -> None:
    workload = ap.generate_contended_workload(seed=0, scale=0.002)
    law = Law(ETHERNET_10G)
    vars(law).update(changed)
    with pytest.raises(InputError, match=words):
        ap.simulate("ada_srsf", workload, {"v100": 64}, sharing=law)
