from __future__ import annotations

import inspect
from typing import Any

import pytest

from apportion.comparison import compare
from apportion.errors import InputError
from apportion.mechanism.offers import get_scheduler
from apportion.policies import FIFO
from apportion.sim.engine import simulate
from apportion.sim.settings import MECHANISMS, settings_for

NOT_SETTINGS = {"policy", "policies", "workload", "cluster", "mechanism", "progress", "n_jobs"}
NOT_SETTINGS |= {"out", "resume", "origin"}


@pytest.mark.parametrize("function", [simulate, compare], ids=["simulate", "compare"])
def test_defaults_of_the_functions_are_those_of_the_mechanisms(function: Any) -> None:
    for name, parameter in inspect.signature(function).parameters.items():
        if name in NOT_SETTINGS:
            continue
        defaults = [settings[name] for settings in MECHANISMS.values() if name in settings]
        assert defaults, name
        assert parameter.default is None or all(parameter.default == each for each in defaults)


def test_the_mechanism_follows_from_who_decides_and_from_settings() -> None:
    dally = get_scheduler("dally")
    assert settings_for([FIFO()], None, {})["mechanism"] == "rounds"
    assert settings_for([FIFO(), dally], None, {})["mechanism"] == "leases"
    assert settings_for([FIFO()], None, {"lease_seconds": 60.0})["mechanism"] == "leases"
    assert settings_for([FIFO()], "ideal", {})["mechanism"] == "ideal"


def test_settings_of_other_mechanisms_pass_only_with_their_defaults() -> None:
    dally = get_scheduler("dally")
    assert "round_seconds" not in settings_for([dally], None, {"round_seconds": 360.0})
    for name, value in (("round_seconds", 60.0), ("leases", False), ("pair_estimates", object())):
        with pytest.raises(InputError, match=f"{name}=.* is for the mechanism 'rounds' or 'ideal'"):
            settings_for([dally], None, {name: value})


def test_an_unknown_setting_gets_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean 'lease_seconds'"):
        settings_for([FIFO()], None, {"lease_second": 1.0})
