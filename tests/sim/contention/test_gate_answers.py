"""Gates that answer what is no answer, or put it off for ever."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import apportion as ap
from apportion.errors import InputError, SolveError


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
