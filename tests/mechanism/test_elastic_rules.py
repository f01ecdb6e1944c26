"""AFS-L and shortest first against the rules as written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.oracles import elastic_values as values

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.elastic import ElasticJobs, ElasticRule
from apportion.mechanism.elastic.greedy import base_workers, elastic_share


@pytest.mark.parametrize("over", ["after", "before"])
def test_elastic_share_is_the_rule(over: str) -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        jobs, most = int(rng.integers(1, 6)), int(rng.integers(1, 6))
        step = rng.integers(0 if seed % 3 else 1, 9, (jobs, most))
        speed = np.cumsum(step, axis=1) / 8 + 1 / 8
        if seed % 4 == 0:
            speed = rng.integers(1, 9, (jobs, most)) / 8  # may fall
        left = rng.integers(1, 4 if seed % 5 == 0 else 100, jobs)
        gpus = int(rng.integers(0, 13))
        want = values.afs(speed.tolist(), left.tolist(), gpus, a_over=over)
        got = elastic_share(speed, left, gpus, over=over)  # type: ignore[arg-type]
        assert got.tolist() == want, seed


def test_which_speed_the_gain_is_relative_to_matters() -> None:
    two, left = [[1, 1.6], [1.0, 2.0]], [1, 10]
    assert elastic_share(two, left, 3).tolist() == [1, 2]
    assert elastic_share(two, left, 3, over="before").tolist() == [2, 1]
    assert elastic_share([[0.0, 1.0]], [1], 2).tolist() == [0]  # one GPU makes it no faster
    assert elastic_share(np.zeros((0, 4)), [], 2).tolist() == []


def test_base_workers_on_one_type_are_shortest_first() -> None:
    for seed in range(100):
        rng = np.random.default_rng(seed)
        seconds, base = rng.integers(1, 9, 6), rng.integers(1, 5, 6)
        gpus = int(rng.integers(0, 20))
        want = values.lyra_base(seconds.tolist(), base.tolist(), gpus)
        got = base_workers(seconds[:, None], base[:, None], [gpus], np.zeros(6, dtype=bool))
        assert got.tolist() == want


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(InputError, match="shape"):
        elastic_share([1.0, 2.0], [1.0], 3)
    with pytest.raises(InputError, match="finite"):
        elastic_share([[np.nan]], [1.0], 3)
    with pytest.raises(InputError, match="gpus"):
        elastic_share([[1.0]], [1.0], -1)
    with pytest.raises(InputError, match="over"):
        elastic_share([[1.0]], [1.0], 1, over="later")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda jobs: None, "answers None.*an array of 1 places"),
        (lambda jobs: [], r"answers \[\]"),
        (lambda jobs: [0, 1, 1], "an array of 1 places"),
        (lambda jobs: [[0], [1, 2]], "no array"),
        (lambda jobs: [999], "answers 999 for job .*from 0 to 7, -1 for none"),
        (lambda jobs: [-2], "answers -2 for job"),
        (lambda jobs: [0.9], "answers 0.9 for job"),
        (lambda jobs: [np.nan], "answers nan for job"),
        (lambda jobs: [True], "answers True for job"),
        (lambda jobs: ["a"], "answers 'a' for job"),
        (lambda jobs: jobs.gpus.sort(), "read-only"),
    ],
)
def test_answers_that_cannot_be_are_refused(answer: Any, message: str) -> None:
    @dataclass(frozen=True, repr=False)
    class Says(ElasticRule):
        name = "says"

        def choose(self, jobs: ElasticJobs) -> Any:
            return answer(jobs)

    load = ap.generate_elastic_workload(1, hours=0.05, seed=1)
    with pytest.raises(ValueError, match=message):  # numpy's, where an array is only to be read
        ap.simulate(Says(), load, "v100=8")
