from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.sim.elastic.by_hand import application

import apportion as ap
from apportion.cli.parser import parse
from apportion.errors import InputError
from apportion.mechanism.deciders import get_scheduler
from apportion.mechanisms import MECHANISMS
from apportion.policies import FIFO, get_policy
from apportion.sim.settings import mechanism_for


@dataclasses.dataclass(frozen=True)
class InOrder(ap.QueueScheduler):
    """First come, first served."""

    name = "in_order"

    def queue(self, jobs: Any, now_s: float) -> Any:
        return ((job, [0]) for job in jobs.active)


SETTINGS = {each.name: each for kind in MECHANISMS.values() for each in kind.settings()}


def _decider(mechanism: str) -> Any:
    """Return who may decide under a mechanism."""
    special = {
        "queue": InOrder(),
        "iterations": ap.GatedScheduler(),
        "configurations": get_policy("sia"),
    }
    return special.get(mechanism, FIFO())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_setting_that_a_mechanism_does_not_heed_is_refused_whatever_its_value(
    mechanism: str,
) -> None:
    own = {each.name for each in MECHANISMS[mechanism].settings()}
    for name in SETTINGS.keys() - own:
        for value in (SETTINGS[name].default, object(), 77.0):
            if value is not None:
                with pytest.raises(InputError, match=f"^{name}=.* does nothing to '{mechanism}'"):
                    mechanism_for([_decider(mechanism)], mechanism, {name: value})
        mechanism_for([_decider(mechanism)], mechanism, {name: None})


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_names_and_values_say_the_same(mechanism: str) -> None:
    kind = MECHANISMS[mechanism]
    rng = np.random.default_rng(3)
    for _ in range(5):
        told: dict[str, Any] = {}
        for setting in kind.settings():
            if rng.random() < 0.5:
                drawn: dict[str, Any] = {"str": "one of a few", "Any": None}
                drawn |= {"bool": bool(rng.random() < 0.5), "float": float(rng.uniform(1, 300))}
                for kinds in ("float", "float | str"):
                    drawn[f"{kinds} | Mapping[str, float]"] = drawn["float"]
                right = {"network": "alpha_beta", "placement": "cassini", "all_reduce": "ring"}
                named = right.get(setting.name)
                told[setting.name] = named or drawn[setting.kind.removesuffix(" | None")]
        told.pop("checkpoint_interval_s", None)  # for runs that serve requests only
        told |= _enough(told)
        by_name = mechanism_for([_decider(mechanism)], mechanism, told)
        fields = {each.field: each.name for each in kind.settings()}
        whole = by_name.by_name()
        assert whole.pop("mechanism") == mechanism
        assert kind(**{field: whole[name] for field, name in fields.items()}) == by_name
        assert {name: whole[name] for name in told} == told
        assert mechanism_for([_decider(mechanism)], mechanism, whole) == by_name
        words = [f"{name}={_as_word(each)}" for name, each in whole.items() if each is not None]
        args = parse(["compare", "--mechanism", f"{mechanism}({', '.join(words)})"])
        for name, value in whole.items():
            assert getattr(args, name) == value


BY_TYPE = [
    pytest.param(kind.name, setting.name, id=f"{kind.name} {setting.name}")
    for kind in MECHANISMS.values()
    for setting in kind.settings()
    if "Mapping[str, float]" in setting.kind
]


@pytest.mark.parametrize(("mechanism", "name"), BY_TYPE)
def test_what_is_said_by_job_type_says_it_of_each(
    mechanism: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    elastic = mechanism == "configurations"
    load: Any = _elastic() if elastic else _crowd()
    types = load.jobs["application" if elastic else "job_type"]
    decider = "deepboot" if elastic else _decider(mechanism)
    others: dict[str, Any] = {
        "leases": {"network": "none"},
        "iterations": {},
        "configurations": {"gang_restart": "afe"},
    }.get(mechanism, {})

    def run(value: Any) -> Any:
        told = {"mechanism": mechanism, name: value} | others
        return ap.simulate(decider, load, "v100=4", **told).jobs

    alike, by_type = run(200.0), run(dict.fromkeys(types, 200.0))
    pd.testing.assert_frame_equal(alike, by_type, check_exact=True)
    first = types.iloc[0]
    apart = run({first: 200.0, "others": 0.5})
    each = {kind: 200.0 if kind == first else 0.5 for kind in types}
    pd.testing.assert_frame_equal(apart, run(each), check_exact=True)
    assert not apart.equals(alike)
    unknown = next(kind for kind in types if kind != first)
    wrong = rf"{name}.* has no seconds for the job type '{unknown}', only for '{first}'; add it"
    with pytest.raises(InputError, match=wrong):
        run({first: 200.0})
    near, typo = unknown, unknown[0] + unknown[2:]
    with pytest.raises(InputError, match=rf"type in {name} '{typo}'. Did you mean '{near}'"):
        run({first: 200.0, typo: 200.0, "others": 0.5})
    with pytest.raises(InputError, match=rf"Unknown job type in {name} 'zzz'"):
        run({"zzz": 200.0, "others": 0.5})
    with caplog.at_level("WARNING"):  # a table may list more than a workload has
        more = run({first: 200.0, "zzz": 7.0, "others": 0.5})
    assert f"No job is of the types in {name}: 'zzz'." in caplog.text
    pd.testing.assert_frame_equal(apart, more, check_exact=True)
    with pytest.raises(InputError, match=rf"{name}\['{first}'\] is -1"):
        run({first: -1.0, "others": 0.5})


def _elastic() -> ap.ElasticWorkload:
    """Three short jobs of three applications, that grow and shrink as they come."""
    names = ["first", "second", "third"]
    columns = {"arrival_s": [0.0, 200.0, 400.0], "application": names, "gpus": 1, "batch": 64}
    return ap.ElasticWorkload("three", pd.DataFrame(columns), dict.fromkeys(names, application()))


def _crowd() -> ap.Workload:
    """Draw more jobs than can run at once, of models that everybody knows."""
    rng, models = np.random.default_rng(5), ("VGG16", "ResNet-50", "LSTM-PTB")
    index = pd.MultiIndex.from_product([models, [1, 2]], names=["job_type", "scale_factor"])
    columns = {
        "job_type": [models[k % 3] for k in range(8)],
        "scale_factor": rng.choice([1, 2], 8),
        "arrival_s": np.sort(rng.uniform(0, 200, 8)),
        "total_steps": rng.integers(200, 3000, 8).astype(float),
    }
    return ap.Workload("crowd", pd.DataFrame(columns), pd.DataFrame({"v100": 0.5}, index))


@pytest.mark.parametrize("mechanism", ["rounds", "queue", "leases", "iterations"])
def test_a_job_alone_loses_what_its_type_loses_at_a_start(mechanism: str) -> None:
    load, each = _crowd(), {"VGG16": 7.0, "ResNet-50": 0.0, "others": 21.5}
    rows = load.jobs.assign(scale_factor=1, arrival_s=0.0)
    for row in (rows.iloc[[0]], rows.iloc[[1]], rows.iloc[[2]]):
        alone = ap.Workload("alone", row, load.throughputs)
        told: dict[str, Any] = {"mechanism": mechanism, "preemption_overhead_seconds": each}
        if mechanism == "leases":
            told |= {"network": "none", "checkpoint_seconds_per_gpu": 0.0}
        jobs = ap.simulate(_decider(mechanism), alone, "v100=4", **told).jobs
        lost_s = each.get(row["job_type"].iloc[0], each["others"])
        worked_s = float(row["total_steps"].iloc[0]) / 0.5
        assert jobs["jct_s"].iloc[0] == pytest.approx(worked_s + lost_s)


def _enough(told: dict[str, Any]) -> dict[str, Any]:
    """Rounds must be longer than what a preemption costs, and some texts be one of a few."""
    overhead = told.get("preemption_overhead_seconds", 0.0)
    choices = {
        **{"counted_over": "cluster", "order": "srsf", "all_reduce": "ring"},
        **{"gang_restart": "edl", "gang_sizes": "every", "goodputs": "fitted"},
    }
    enough: dict[str, Any] = {name: choices[name] for name in choices.keys() & told.keys()}
    if "round_seconds" in told:
        enough["round_seconds"] = overhead + told["round_seconds"]
    return enough


def _as_word(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ap.Rounds(seconds=0), "round_seconds is 0"),
        (lambda: ap.Rounds(preemption_overhead_seconds=360), "less than round_seconds"),
        (lambda: ap.Rounds(leases="no"), "leases is 'no'"),  # type: ignore[arg-type]
        (lambda: ap.Leases(seconds="60"), "^lease_seconds is '60'"),  # type: ignore[arg-type]
        (lambda: ap.Exact(resolve_seconds=-1), "resolve_seconds is -1"),
        (lambda: ap.Rounds(network="tabel1"), "Unknown network 'tabel1'. Did you mean 'table1'"),
        (lambda: ap.Leases(network="tabel1"), "Did you mean 'table1'.* Valid: none, table1,"),
        (lambda: ap.Leases(network="cassini(candidates=4)"), r"CassiniNetwork\(candidates=4\)"),
        (lambda: ap.Leases(placement="lwf_1(kappa=2)"), r"in Python, .*least_workload_first"),
        (lambda: ap.Rounds(placement="x"), "Unknown placement 'x'. Valid: consolidated, "),
        (lambda: mechanism_for([FIFO()], "round", {}), "Did you mean 'rounds'"),
        (lambda: mechanism_for([FIFO()], 3, {}), "mechanism"),  # type: ignore[arg-type]
        (lambda: mechanism_for([FIFO()], None, {"lease_second": 1.0}), "mean 'lease_seconds'"),
        (
            lambda: mechanism_for([FIFO()], ap.Rounds(), {"round_seconds": 9.0}),
            r"mechanism=Rounds\(seconds=9.0\)",
        ),
        (
            lambda: mechanism_for([get_scheduler("dally")], ap.Rounds(), {}),
            "'dally' is a scheduler, which works by leases",
        ),
    ],
)
def test_wrong_settings_are_named(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
