from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import ranges_of_seeds, sampled

import apportion as ap
from apportion.cli.parser import parse
from apportion.sim.beliefs import Agnostic, Told
from apportion.sim.beliefs.estimated import Estimated

if TYPE_CHECKING:
    from apportion.sim import Workload

pytestmark = pytest.mark.usefixtures("free_starts")

CLUSTER = "v100=8,p100=8,k80=8"


def some_jobs(seed: int, jobs: int = 25) -> Workload:
    return ap.generate_workload(jobs=jobs, seed=seed, jobs_per_hour=8, scale_factors="gavel")


@pytest.mark.parametrize("mechanism", ["rounds", "exact"])
def test_what_is_told_by_default_is_the_truth(mechanism: Any) -> None:
    ways: list[dict[str, Any]] = [{}, {"speeds": "told"}, {"beliefs": Told()}]
    runs = [
        ap.simulate("max_min_fairness", some_jobs(1, 8), CLUSTER, mechanism=mechanism, **told)
        for told in ways
    ]
    assert runs[0].jobs.equals(runs[1].jobs)
    assert runs[0].jobs.equals(runs[2].jobs)


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 3))
def test_who_knows_every_type_by_heart_does_as_well_as_who_is_told(seeds: range) -> None:
    known = Estimated(references=26, rows="type", noise=1e-4, optimism=0.0)
    for seed in seeds:
        told = ap.simulate("max_min_fairness", some_jobs(seed), CLUSTER)
        estimated = ap.simulate("max_min_fairness", some_jobs(seed), CLUSTER, beliefs=known)
        expected = told.summary()["mean_jct_s"]
        assert estimated.summary()["mean_jct_s"] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("mechanism", ["rounds", "exact"])
@pytest.mark.parametrize("rows", sampled(["job", "type"], 2))
def test_jobs_are_as_fast_as_they_are_whatever_is_believed(mechanism: Any, rows: Any) -> None:
    workload = some_jobs(2, jobs=14)
    beliefs = Estimated(references=8, rows=rows, seed=3)
    run = ap.simulate("max_min_fairness", workload, CLUSTER, mechanism=mechanism, beliefs=beliefs)
    again = ap.simulate("max_min_fairness", workload, CLUSTER, mechanism=mechanism, beliefs=beliefs)
    assert run.jobs.equals(again.jobs)
    steps = (run.received * workload.throughput_of(CLUSTER)).sum(axis=1)
    if mechanism == "rounds":  # exact shares hold several types at once, for parts of the time
        np.testing.assert_allclose(steps, workload.jobs["total_steps"], rtol=1e-6)
        ap.check_schedule(run, workload, CLUSTER)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"speeds": "estimate"}, "Did you mean 'estimated'"),
        ({"speeds": "estimated", "references": 27}, "has throughputs of 26 job types only"),
        ({"speeds": "estimated", "references": 2.5}, "references is 2.5"),
        ({"speeds": "estimated", "optimism": -1}, "optimism is -1"),
        ({"speeds": "estimated", "rows": "jobs"}, "Did you mean 'job'"),
        ({"rows": "type"}, "rows='type' is for speeds='estimated'"),
        ({"references": 3}, "references=3 is for speeds='estimated'"),
        ({"speeds": "agnostic", "optimism": 3.0}, "optimism=3.0 is for speeds='estimated'"),
        ({"speeds": "estimated", "learn_pairs": True}, "go with speeds='told' only"),
        ({"speeds": "agnostic", "beliefs": Agnostic()}, "none of the three with beliefs="),
        ({"learn_pairs": True, "mechanism": "leases"}, "does nothing to 'leases'"),
    ],
)
def test_what_cannot_be_told_is_refused(told: dict[str, Any], message: str) -> None:
    with pytest.raises(ap.InputError, match=message):
        ap.simulate("fifo", some_jobs(0, jobs=2), CLUSTER, **told)


@pytest.mark.parametrize(
    "option",
    [
        *({"references": -1}, {"optimism": "x"}, {"noise": -0.1}),
        *({"rows": "jobs"}, {"seed": 1.5}),
    ],
)
def test_options_of_estimates_are_checked(option: dict[str, Any]) -> None:
    with pytest.raises(ap.InputError, match=next(iter(option))):
        Estimated(**option)


def test_the_command_line_knows_them() -> None:
    args = parse(["compare", "--speeds", "estimated(references=8,optimism=0.5)"])
    assert (args.speeds, args.references, args.optimism) == ("estimated", 8, 0.5)
    assert parse(["compare", "--speeds", "estimated(rows=type)"]).rows == "type"


@pytest.mark.parametrize("rows", ["job", "type"])
def test_optimism_and_rows_are_settings_too(rows: Any) -> None:
    load, told = some_jobs(3, jobs=6), Estimated(optimism=0.5, rows=rows)
    by_name = ap.simulate("fifo", load, CLUSTER, speeds="estimated", optimism=0.5, rows=rows)
    assert (by_name.settings["optimism"], by_name.settings["rows"]) == (0.5, rows)
    assert by_name.jobs.equals(ap.simulate("fifo", load, CLUSTER, beliefs=told).jobs)
    with pytest.raises(ap.InputError, match="'worth' must be a finite number >= 0"):
        parse(["compare", "--speeds", "estimated(optimism=worth)"])
