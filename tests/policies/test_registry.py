from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.names import OTHER_POLICY_NAMES, OTHER_SCHEDULER_NAMES, standard
from apportion.policies import (
    BUILT_IN,
    Makespan,
    MaxMinFairness,
    MinCostWithSLOs,
    Policy,
    get_policy,
    policy_table,
    register,
)
from apportion.policies.registry import POLICIES

if TYPE_CHECKING:
    from apportion.policies import Problem


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


@pytest.mark.parametrize("name", [*OTHER_POLICY_NAMES, "LAS", "Max-Min-Fairness", "ftf_agnostic"])
def test_policies_are_known_by_what_users_call_them(name: str) -> None:
    policy = get_policy(name)
    assert policy.name == standard(name.removesuffix("_agnostic"), OTHER_POLICY_NAMES)
    assert getattr(policy, "heterogeneity_aware", True) is not name.endswith("_agnostic")


def test_other_names_stand_for_what_there_is_and_hide_nothing() -> None:
    assert set(OTHER_POLICY_NAMES.values()) <= set(POLICIES)
    assert not set(OTHER_POLICY_NAMES) & {*POLICIES, *ap.DECIDERS}
    assert set(OTHER_SCHEDULER_NAMES.values()) <= set(ap.DECIDERS)
    assert not set(OTHER_SCHEDULER_NAMES) & {*POLICIES, *ap.DECIDERS, *OTHER_POLICY_NAMES}
    assert ap.get_scheduler("SRSF").name == "srsf_1"


def test_a_scheduler_in_place_of_a_policy_names_the_policy_that_states_it() -> None:
    with pytest.raises(InputError, match=r"'themis' is a scheduler.*is 'finish_time_fairness'"):
        get_policy("themis")


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


@dataclass(frozen=True)
class Unnamed(Policy):
    """The most throughput."""

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(p.total(p.throughput))


def test_a_policy_without_a_name_has_that_of_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name and source are for tables; nothing else asks for them."""
    racks = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4, accelerator="v100")
    workload = ap.generate_workload(jobs=3, seed=1)
    for mechanism in ("rounds", "exact", "leases"):
        assert ap.simulate(Unnamed(), workload, racks, mechanism=mechanism).policy == "Unnamed"
    monkeypatch.setitem(POLICIES, "Unnamed", Unnamed)
    last = policy_table().set_index("name").loc["Unnamed"]
    assert list(last) == ["The most throughput.", ""]


def test_the_table_lists_every_policy() -> None:
    table = policy_table()
    assert list(table.columns) == ["name", "problem", "source"]
    assert {policy.name for policy in BUILT_IN} <= set(table["name"])
    assert (table != "").to_numpy().all()
