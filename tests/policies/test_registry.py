from __future__ import annotations

from dataclasses import dataclass

import pytest

from apportion.errors import InputError
from apportion.policies import (
    BUILT_IN,
    Makespan,
    MaxMinFairness,
    MinCostWithSLOs,
    get_policy,
    policy_table,
    register,
)
from apportion.policies.registry import POLICIES


def test_names_and_policies_are_one_to_one() -> None:
    names = [policy.name for policy in BUILT_IN]
    assert len(set(names)) == len(names)
    for policy in BUILT_IN:
        assert type(get_policy(policy.name)) is policy


def test_a_policy_is_itself() -> None:
    policy = Makespan()
    assert get_policy(policy) is policy


def test_options_reach_the_policy() -> None:
    assert get_policy("min_cost_slos", strict=True) == MinCostWithSLOs(strict=True)
    assert get_policy("makespan_agnostic") == Makespan(heterogeneity_aware=False)


def test_unknown_options_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"option of policy 'min_cost_slos'.*mean 'strict'"):
        get_policy("min_cost_slos", stric=True)


def test_a_registered_policy_has_a_name_and_keeps_it() -> None:
    @dataclass(frozen=True)
    class Mine(MaxMinFairness):
        name = "registered_in_a_test"

    assert register(Mine) is Mine
    assert register(Mine) is Mine
    assert isinstance(get_policy("registered_in_a_test_agnostic"), Mine)

    @dataclass(frozen=True)
    class Other(MaxMinFairness):
        name = "registered_in_a_test"

    assert register(Other) is Other  # as a cell of a notebook that runs again
    assert isinstance(get_policy("registered_in_a_test"), Other)
    del POLICIES["registered_in_a_test"]

    @dataclass(frozen=True)
    class Taken(MaxMinFairness):
        name = "makespan"

    with pytest.raises(InputError, match="already a policy 'makespan'"):
        register(Taken)


def test_the_table_lists_every_policy() -> None:
    table = policy_table()
    assert list(table.columns) == ["name", "problem", "source"]
    assert {policy.name for policy in BUILT_IN} <= set(table["name"])
    assert (table != "").to_numpy().all()
