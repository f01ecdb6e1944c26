from __future__ import annotations

import inspect
from typing import Any

import pytest

from apportion.errors import InputError
from apportion.experiments import compare
from apportion.mechanism.offers import get_scheduler
from apportion.policies import FIFO
from apportion.sim import generate_workload
from apportion.sim.settings import MECHANISMS, settings_for
from apportion.sim.simulate import simulate

NOT_SETTINGS = {"policy", "policies", "workload", "cluster", "mechanism", "progress", "n_jobs"}
NOT_SETTINGS |= {"out", "resume", "origin", "raise_on_failure"}


@pytest.mark.parametrize("function", [simulate, compare], ids=["simulate", "compare"])
def test_settings_that_are_not_given_can_be_told_from_those_that_are(function: Any) -> None:
    for name, parameter in inspect.signature(function).parameters.items():
        if name in NOT_SETTINGS:
            continue
        assert any(name in settings for settings in MECHANISMS.values()), name
        # Anything else could not be told from a value that was given.
        assert parameter.default == (0 if name == "seed" else None)


def test_the_mechanism_follows_from_who_decides_and_from_settings() -> None:
    dally = get_scheduler("dally")
    assert settings_for([FIFO()], None, {})["mechanism"] == "rounds"
    assert settings_for([FIFO(), dally], None, {})["mechanism"] == "leases"
    assert settings_for([FIFO()], None, {"lease_seconds": 60.0})["mechanism"] == "leases"
    assert settings_for([FIFO()], "ideal", {})["mechanism"] == "ideal"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_setting_that_a_mechanism_does_not_heed_is_refused_whatever_its_value(
    mechanism: str,
) -> None:
    names = {name: value for settings in MECHANISMS.values() for name, value in settings.items()}
    for name in names.keys() - MECHANISMS[mechanism].keys():
        for value in (names[name], object(), 77.0):
            if value is not None:
                with pytest.raises(InputError, match=f"^{name}=.* does nothing to '{mechanism}'"):
                    settings_for([FIFO()], mechanism, {name: value})
        assert name not in settings_for([FIFO()], mechanism, {name: None})


@pytest.mark.parametrize("function", [simulate, compare], ids=["simulate", "compare"])
def test_a_network_needs_leases(function: Any) -> None:
    workload, decides = generate_workload(jobs=1), "fifo" if function is simulate else ["fifo"]
    for mechanism in ("rounds", "ideal"):
        with pytest.raises(InputError, match="network='table1' is for the mechanism 'leases'"):
            function(decides, workload, "v100=1", mechanism=mechanism, network="table1")


def test_an_unknown_setting_gets_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean 'lease_seconds'"):
        settings_for([FIFO()], None, {"lease_second": 1.0})
