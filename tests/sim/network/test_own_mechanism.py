"""Networks beside mechanisms of one's own, and job types of which networks know nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.mechanisms import MECHANISMS
from apportion.mechanisms.settings import MechanismSettings
from apportion.sim.network import StaticNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator

RACKS = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=1, accelerator="v100")
KEPT = 0.5
STATIC = StaticNetwork(speed=(1.0, KEPT, 0.25))


class Plain:
    """Has no settings."""

    name = "plain"

    def parts(self, decider: Any, about: Any) -> Any:
        return ap.Rounds(seconds=100.0).parts(decider, about)


class Placeless(Plain):
    """Gives shares, no devices."""

    name = "placeless"

    def parts(self, decider: Any, about: Any) -> Any:
        return ap.Exact().parts(decider, about)


@dataclass(frozen=True, kw_only=True)
class Settings(MechanismSettings):
    """Has a setting by name, and no network."""

    name: ClassVar[str] = "with_settings"

    seconds: float = 100.0

    def parts(self, decider: Any, about: Any) -> Any:
        return ap.Rounds(seconds=self.seconds).parts(decider, about)


@dataclass(frozen=True)
class Chosen(Plain):
    """Knows its own network."""

    network: Any = "none"


def pair(job_type: str = "mine") -> ap.Workload:
    """One job on two GPUs, in two machines of one rack: 1,000 s of compute."""
    index = pd.MultiIndex.from_tuples([(job_type, 2)], names=["job_type", "scale_factor"])
    jobs = pd.DataFrame({"job_type": [job_type], "scale_factor": [2], "total_steps": [1000.0]})
    return ap.Workload("a pair", jobs, pd.DataFrame({"v100": [1.0]}, index))


@pytest.fixture
def registered() -> Iterator[None]:
    MECHANISMS["plain"], MECHANISMS["with_settings"] = Plain, Settings
    yield
    del MECHANISMS["plain"], MECHANISMS["with_settings"]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    "how",
    [Plain(), "plain", Settings(), "with_settings"],
    ids=["value", "name", "settings", "settings by name"],
)
@pytest.mark.parametrize(
    "told",
    [{}, {"network": STATIC}, {"network": "static"}],
    ids=["no network", "network", "its name"],
)
def test_a_network_stands_beside_mechanisms_of_ones_own(how: Any, told: dict[str, Any]) -> None:
    run = ap.simulate("fifo", pair(), RACKS, mechanism=how, **told)
    part = {"static": 0.8}.get(told["network"], KEPT) if told else 1.0
    assert run.jobs["completion_s"].iloc[0] == pytest.approx(1000 / part, rel=1e-9)
    assert run.settings.get("network") == ("static" if told else None)
    compared = ap.compare(["fifo"], pair(), RACKS, mechanism=how, n_jobs=1, **told)
    assert compared.jobs()["jct_s"].tolist() == run.jobs["jct_s"].tolist()


@pytest.mark.parametrize(
    ("how", "told", "words"),
    [
        (Placeless(), {"network": STATIC}, r"does nothing to the mechanism 'placeless', .*place"),
        (Chosen(), {"network": STATIC}, "all settings are in it"),
        (Plain(), {"network": "stattic"}, "Did you mean 'static'"),
        (Plain(), {"topology": "cassini"}, "network=None knows none"),
        (Plain(), {"placement": "packed"}, "all settings are in it"),
        (ap.Rounds(), {"network": STATIC}, r"mechanism=Rounds\(network="),
    ],
)
def test_what_does_nothing_is_refused(how: Any, told: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ap.simulate("fifo", pair(), RACKS, mechanism=how, **told)


@pytest.mark.parametrize("decider", ["dally", "max_min_fairness"])
def test_job_types_without_profiles_are_told_what_helps(decider: str) -> None:
    load = pair("lidar")
    told: dict[str, Any] = {"mechanism": "leases"}
    with pytest.raises(InputError, match="'lidar' has no communication profile") as raised:
        ap.simulate(decider, load, RACKS, **told)
    assert "get_network('table1', cluster=cluster, profiles=...)" in str(raised.value)
    for network in ("none", "static"):  # what it names helps
        assert f"'{network}'" in str(raised.value)
        assert ap.simulate(decider, load, RACKS, network=network, **told).jobs["jct_s"].all()
    with pytest.raises(InputError, match=r"CassiniNetwork\(profiles=...\)"):
        ap.simulate(decider, load, RACKS, network="cassini", **told)
