from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.sim.standing import StandingClasses

POLICIES = ("max_min_fairness", "max_min_fairness_agnostic", "max_total_throughput")


@pytest.fixture(scope="module")
def crowd() -> ap.Workload:
    return ap.generate_workload(jobs=24, seed=3, scale_factors="gavel", jobs_per_hour=8)


@pytest.mark.parametrize("policy", POLICIES)
def test_keeping_a_policy_warm_does_not_change_what_jobs_get(
    policy: str, crowd: ap.Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm = ap.simulate(policy, crowd, "v100=8,p100=8,k80=8", mechanism="exact")
    monkeypatch.setattr(StandingClasses, "of", lambda *_: None)
    anew = ap.simulate(policy, crowd, "v100=8,p100=8,k80=8", mechanism="exact")
    assert warm.solves == anew.solves
    np.testing.assert_allclose(warm.jobs["jct_s"], anew.jobs["jct_s"], rtol=1e-7)


def test_only_policies_over_counts_are_kept_warm(
    crowd: ap.Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, of = [], StandingClasses.of

    def noted(*asked: Any) -> StandingClasses | None:
        kept.append(of(*asked))
        return kept[-1]

    monkeypatch.setattr(StandingClasses, "of", noted)
    for policy in ("max_min_fairness", "makespan"):
        ap.simulate(policy, crowd, "v100=8,p100=8,k80=8", mechanism="exact")
    assert [standing is None for standing in kept] == [False, True]
