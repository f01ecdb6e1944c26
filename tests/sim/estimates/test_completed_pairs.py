"""Pairs that are estimated in a simulation, and completed anew from what runs."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import ranges_of_seeds, sampled

import apportion as ap
from apportion.errors import InputError
from apportion.sim.beliefs import Told
from apportion.sim.beliefs.completed_pairs import CompletedPairs
from apportion.sim.engine.true_state import TrueState

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.sim import Workload

CLUSTER = ap.Cluster.of("v100=3,p100=3,k80=3")
SHARED = "max_min_fairness_space_sharing"


def some_jobs(seed: int, jobs: int = 20) -> Workload:
    return ap.generate_workload(jobs=jobs, seed=seed, jobs_per_hour=8)


def believed_and_true(load: Workload, options: CompletedPairs) -> tuple[Any, Any]:
    truth = TrueState(load, CLUSTER)
    assert truth.beside is not None
    return options.start(truth, load, CLUSTER), truth.beside


@pytest.mark.parametrize("rows", ["job", "type"])
def test_what_was_measured_of_everybody_is_nearly_known(rows: Any) -> None:
    """With all types references and every cell measured estimates are as good as the truth."""
    load = some_jobs(0)
    believed, true = believed_and_true(load, CompletedPairs(99, 1.0, noise=0.0, rows=rows))
    jobs = np.arange(len(load))
    told, real = believed.table(jobs), true.table(jobs)
    speed = load.throughput_of(CLUSTER).to_numpy()[:, None, :]
    off = told.own[np.ix_(told.key, told.key)] - real.own[np.ix_(real.key, real.key)]
    assert np.abs(off / speed).mean() < 0.02


@pytest.mark.parametrize("rows", ["job", "type"])
def test_a_pair_that_ran_is_known_and_forgotten_with_its_jobs(rows: Any) -> None:
    load = some_jobs(1)
    believed, true = believed_and_true(load, CompletedPairs(8, 0.1, noise=0.0, rows=rows))
    jobs = np.arange(len(load))
    before = believed.table(jobs).own
    real = true.own[true.key[0], true.key[1], 0]
    believed.measure(np.array([0]), np.array([1]), np.array([0]))
    after = believed.table(jobs).own
    assert after[0, 1, 0] == pytest.approx(real)
    others = np.abs(after - before)
    others[[0, 1], [1, 0], 0] = 0.0
    assert others.any()  # the rows of the two are completed anew
    less = believed.table(jobs[2:]).own
    assert less.shape == (len(load) - 2, len(load) - 2, 3)


class ColumnMeans:
    """Fills what is missing with the mean of its column."""

    def fit_transform(self, matrix: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            means = np.nan_to_num(np.nanmean(matrix, axis=0))
        return np.where(np.isnan(matrix), means, matrix)


def by_definition(load: Workload, seed: int, share: float, metric: str) -> Any:
    """Pairs by the text: fingerprints, completed, nearest references, and what these make."""
    pairs, rng = load.pairs, np.random.default_rng(seed)
    assert pairs is not None
    places = [pairs.accelerators.index(name) for name in CLUSTER.accelerators]
    normalized = pairs.normalized()[:, :, places]
    sizes = pairs.keys.get_level_values(1)
    (single,) = np.unique(sizes)
    assert single == 1
    references = np.sort(rng.choice(len(pairs.keys), 8, replace=False))
    of_jobs = load.jobs[["job_type", "scale_factor"]].to_numpy().tolist()
    keys = [pairs.keys.get_loc(tuple(each)) for each in of_jobs]
    rows = [
        np.r_[normalized[r, references].ravel(), normalized[references, r].ravel()]
        for r in references
    ]
    for key in keys:
        seen = rng.random((references.size, len(places))) < share
        rng.standard_normal((2, *seen.shape))  # of noise, which is 0
        own, other = normalized[key, references], normalized[references, key]
        # A pair that cannot share has 0 for both.
        own, other = np.where(other == 0, 0.0, own), np.where(own == 0, 0.0, other)
        whole = np.r_[own.ravel(), other.ravel()]
        rows.append(np.where(np.r_[seen.ravel(), seen.ravel()], whole, np.nan))
    completed = ColumnMeans().fit_transform(np.array(rows))
    alike = []
    for row in completed[references.size :]:
        against = completed[: references.size]
        if metric == "cosine":
            length = np.linalg.norm(against, axis=1) * np.linalg.norm(row)
            distance = 1 - against @ row / length
        else:
            distance = np.linalg.norm(against - row, axis=1)
        alike.append(references[int(distance.round(12).argmin())])
    return normalized[np.ix_(alike, alike)]


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 60))
def test_the_nearest_reference_is_that_of_the_text(metric: Any, seeds: range) -> None:
    for seed in seeds:
        load = some_jobs(seed, jobs=10)
        options = CompletedPairs(
            *(8, 0.3 + 0.1 * (seed % 8)),
            noise=0.0,
            seed=seed,
            source="nearest",
            metric=metric,
            imputer=ColumnMeans(),
        )
        believed, true = believed_and_true(load, options)
        jobs = np.arange(len(load))
        speed = load.throughput_of(CLUSTER).to_numpy()[:, None, :]
        expected = by_definition(load, seed, options.measured_share, metric)
        found = believed.table(jobs).own / speed
        runs = (expected > 0) & (expected.transpose(1, 0, 2) > 0)
        np.testing.assert_allclose(found, np.where(runs, expected, 0.0), atol=1e-9)
        believed.measure(np.array([0]), np.array([1]), np.array([2]))
        measured = true.own[true.key[0], true.key[1], 2]
        assert believed.table(jobs).own[0, 1, 2] == pytest.approx(measured)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sampled(["completed", "nearest"], 2))
def test_estimates_of_pairs_have_names(name: Any, tmp_path: Path) -> None:
    load = some_jobs(3, jobs=12)
    by_name = ap.simulate(SHARED, load, CLUSTER, pair_estimates=name, references=8, seed=4)
    assert by_name.settings["references"] == 8
    assert by_name.settings["pair_estimates"] == name
    value = Told(CompletedPairs(8, source=name, seed=4))
    by_value = ap.simulate(SHARED, load, CLUSTER, beliefs=value, seed=4)
    assert by_name.jobs.equals(by_value.jobs)
    told: dict[str, Any] = {"pair_estimates": name, "references": 8}
    swept = ap.sweep([SHARED], [load], CLUSTER, seeds=[4], n_jobs=1, **told)
    assert swept.rows[0]["mean_jct_s"] == by_name.summary()["mean_jct_s"]
    origin = {"generate_jobs": 12, "jobs_per_hour": 8.0, "seed": 4}
    drawn = ap.generate_workload(jobs=12, seed=4, jobs_per_hour=8)
    compared = ap.compare(
        [SHARED], drawn, CLUSTER, pair_estimates=name, references=8, seed=4, origin=origin, n_jobs=1
    )
    assert "--pair-estimates" in str(compared.command)
    assert name in str(compared.command)
    assert "references=8" in str(compared.command)
    with pytest.raises(InputError, match=r"Unknown pair_estimates 'nearst'. Did you mean"):
        ap.simulate(SHARED, load, CLUSTER, pair_estimates="nearst")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Unknown source 'nearst'"):
        CompletedPairs(source="nearst")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "option",
    [
        *({"references": 0}, {"references": 2.5}, {"measured_share": 1.5}),
        *({"noise": np.nan}, {"rows": "jobs"}, {"seed": -1}),
    ],
)
def test_options_are_checked(option: dict[str, Any]) -> None:
    with pytest.raises(ap.InputError, match=next(iter(option))):
        CompletedPairs(**option)


@pytest.mark.parametrize("option", [{"pair_estimates": 3}, {"learn_pairs": 1}, {"rows": "x"}])
def test_what_is_told_is_checked(option: dict[str, Any]) -> None:
    with pytest.raises(ap.InputError, match=next(iter(option))):
        Told(**option)
