"""Steps of one's own kind do what those of the package do: each stands here for one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap
from apportion.elastic import AnySteps, GpuSpeeds, StepSeconds
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

TOLD = {1: 100.0, 2: 190.0, 4: 350.0, 16: 600.0}
CLUSTER = {"t4": 16}


@dataclass(frozen=True)
class OwnModel:
    """Seconds by placement and batch, worked out by another."""

    inner: Any
    factor: float = 1.0

    def at(self, placement: Sequence[int], local_batch: float) -> StepSeconds:
        found = self.inner.at(placement, local_batch)
        return StepSeconds(found.step_s * self.factor, found.synchronisation_s * self.factor, False)

    def observations(self) -> Any:
        return self.inner.observations()


class OwnSpeeds:
    """Speeds by number of GPUs, by another formula than that of the package."""

    def by_gpus(self, gpus: np.ndarray) -> np.ndarray:
        speeds = np.interp(gpus, list(TOLD), list(TOLD.values()))
        return np.where(np.asarray(gpus) > max(TOLD), 0.0, speeds)

    def at(self, placement: Sequence[int], local_batch: float) -> StepSeconds:
        return StepSeconds(1.0 / float(self.by_gpus(np.array([sum(placement)]))[0]), 0.0, False)


class OnlyAt:
    """Neither steps to fit to, nor speeds by number of GPUs."""

    def at(self, placement: Sequence[int], local_batch: float) -> StepSeconds:
        return StepSeconds(1.0, 0.0, False)


def with_steps(make: Callable[[str, Any], AnySteps]) -> ap.ElasticWorkload:
    drawn = ap.generate_elastic_workload(4, hours=0.5, seed=0)
    told = {n: replace(each, steps=make(n, each.steps)) for n, each in drawn.applications.items()}
    return replace(drawn, applications=told)


PAIRS: dict[str, tuple[ap.ElasticWorkload, ap.ElasticWorkload]] = {
    "by placement": (with_steps(lambda _, old: OwnModel(old)), with_steps(lambda _, old: old)),
    "by gpus": (
        with_steps(lambda *_: OwnSpeeds()),
        with_steps(lambda name, _: GpuSpeeds(name, TOLD)),
    ),
}


@pytest.mark.parametrize("kind", PAIRS)
@pytest.mark.parametrize("policy", sampled(["pollux", "sia", "tiresias"], 3))
def test_runs_are_those_of_the_kind_of_the_package(kind: str, policy: str) -> None:
    own, known = (ap.simulate(policy, each, CLUSTER) for each in PAIRS[kind])
    pd.testing.assert_frame_equal(own.jobs, known.jobs)


@pytest.mark.parametrize("kind", PAIRS)
def test_comparisons_sweeps_and_rigid_jobs_take_them(kind: str) -> None:
    runs = [ap.compare(["sia", "optimus"], each, CLUSTER, n_jobs=2) for each in PAIRS[kind]]
    swept = [ap.sweep(["sia"], each, CLUSTER, seeds=[0]).table() for each in PAIRS[kind]]
    rigid = [each.rigid(["t4"]).throughputs for each in PAIRS[kind]]
    pd.testing.assert_frame_equal(rigid[0], rigid[1])
    for name, run in runs[0].runs.items():
        pd.testing.assert_frame_equal(run.jobs, runs[1].runs[name].jobs)
    assert swept[0]["mean_jct_s"].tolist() == swept[1]["mean_jct_s"].tolist()


def test_what_a_kind_lacks_is_refused_where_it_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"The steps of '.*' are .*; they must have at\("):
        with_steps(lambda *_: OnlyAt)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"OwnModel, which has no plain\(\)"):
        PAIRS["by placement"][0].save(tmp_path / "own.csv")
    with pytest.raises(InputError, match=r"OnlyAt has no observations\(\)"):
        ap.simulate("pollux", with_steps(lambda *_: OnlyAt()), CLUSTER)
    with pytest.raises(InputError, match=r"are told by number of GPUs"):
        ap.simulate("pollux", PAIRS["by gpus"][0], CLUSTER, goodputs="fitted")
