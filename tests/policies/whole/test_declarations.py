"""Policies that decide in whole numbers are short declarations and keep the contract."""

from __future__ import annotations

import pytest
from tests.seeds import sampled

from apportion.policies import WHOLE, Policy, get_policy, policy_table
from apportion.testing import check_policy

EVERY = [policy for kind in WHOLE.values() for policy in kind]


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: policy.name)
def test_a_declaration_displays_its_problem(policy: type[Policy]) -> None:
    assert policy.integral
    assert "::\n" in (policy.__doc__ or "")
    row = policy_table().set_index("name").loc[policy.name]
    assert str(row.problem).startswith(("max over", "min over", "lex max over"))
    assert str(row.source) == policy.source
    assert type(get_policy(policy.name)) is policy


@pytest.mark.parametrize("name", sampled(["sia", "pollux", "deepboot", "optimus"], 2))
def test_elastic_policies_keep_the_contract(name: str) -> None:
    check_policy(name)
