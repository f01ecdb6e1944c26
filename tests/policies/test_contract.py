from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.seeds import sampled

from apportion.policies import BUILT_IN, MinCostWithSLOs, Policy, get_policy, policy_table
from apportion.testing import check_policy

QUICK = [policy for policy in BUILT_IN if policy.name != "strategy_proof"]


@pytest.mark.parametrize("policy", sampled(QUICK, 6), ids=lambda policy: policy.name)
def test_built_in_policies_keep_the_contract(policy: Any) -> None:
    check_policy(policy())


@pytest.mark.parametrize("policy", sampled(QUICK, 6), ids=lambda policy: policy.name)
def test_agnostic_policies_keep_the_contract(policy: Any) -> None:
    check_policy(policy(heterogeneity_aware=False))


@pytest.mark.slow
def test_the_policy_that_takes_long_keeps_the_contract() -> None:
    check_policy("strategy_proof")


@pytest.mark.slow
def test_the_agnostic_policy_that_takes_long_keeps_the_contract() -> None:
    check_policy("strategy_proof_agnostic")


@pytest.mark.thorough
def test_strict_deadlines_keep_the_contract() -> None:
    check_policy(MinCostWithSLOs(strict=True))


@pytest.mark.parametrize("policy", BUILT_IN, ids=lambda policy: policy.name)
def test_built_in_policies_describe_themselves(policy: type[Policy]) -> None:
    assert policy.name
    rows = policy_table().set_index("name")
    assert rows.problem[policy.name]
    assert rows.source[policy.name] == policy.source
    made = get_policy(f"{policy.name}_agnostic")
    assert type(made) is policy
    assert not made.heterogeneity_aware
    assert made.label == f"{policy.name}_agnostic"
    made_aware: Any = replace(made, heterogeneity_aware=True)  # type: ignore[type-var]
    assert made_aware == get_policy(policy.name)
