from __future__ import annotations

from typing import Any

import pytest

from apportion.errors import InputError
from apportion.mechanism.deciders import DECIDERS
from apportion.names import POLICY_NAMES
from apportion.policies import MaxMinFairness, Policy
from apportion.sim.deciders import get_decider


def test_names_that_are_known_need_no_look_at_installed_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(**wanted: Any) -> None:
        raise AssertionError(f"installed packages were asked for {wanted}")

    monkeypatch.setattr("apportion.registry.offered", refuse)
    for name in POLICY_NAMES:
        found = get_decider(name)
        assert isinstance(found, Policy)
        assert found.name == name
    assert get_decider("max_min_fairness_agnostic") == MaxMinFairness(heterogeneity_aware=False)
    for name, found in DECIDERS.items():
        assert get_decider(name) is found


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"Unknown scheduler 'daly'. Did you mean 'dally'"):
        get_decider("daly")
    with pytest.raises(InputError, match=r"Unknown policy 'fifi'. Did you mean 'fifo'"):
        get_decider("fifi")
