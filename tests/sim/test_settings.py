from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import apportion as ap
from apportion.cli.parser import parse
from apportion.errors import InputError
from apportion.mechanism.offers import get_scheduler
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


def test_the_mechanism_follows_from_who_decides_and_from_settings() -> None:
    dally = get_scheduler("dally")
    assert mechanism_for([FIFO()], None, {}) == ap.Rounds()
    assert mechanism_for([FIFO(), dally], None, {}) == ap.Leases()
    assert mechanism_for([FIFO()], None, {"lease_seconds": 60.0}) == ap.Leases(seconds=60.0)
    assert mechanism_for([FIFO()], "exact", {}) == ap.Exact()
    assert mechanism_for([FIFO()], ap.Rounds(seconds=9.0), {}) == ap.Rounds(seconds=9.0)


def test_what_carry_over_is_by_default_follows_from_when_the_policy_is_solved() -> None:
    assert ap.Rounds().carry_over is True
    assert ap.Rounds(resolve_seconds=1920).carry_over is False
    assert ap.Rounds(resolve_seconds=1920, carry_over=True).carry_over is True


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
    for _ in range(20):
        told: dict[str, Any] = {}
        for setting in kind.settings():
            if rng.random() < 0.5:
                drawn: dict[str, Any] = {"str": "one of a few", "Any": None}
                drawn |= {"bool": bool(rng.random() < 0.5), "float": float(rng.uniform(1, 300))}
                drawn["float | Mapping[str, float]"] = drawn["float"]
                named = {"network": "alpha_beta", "placement": "cassini"}.get(setting.name)
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
        words = [
            word
            for name, value in whole.items()
            if value is not None
            for word in (f"--{name.replace('_', '-')}", _as_word(value))
        ]
        args = parse(["compare", "--mechanism", mechanism, *words])
        for name, value in whole.items():
            read = getattr(args, name)
            assert (read == "yes" if isinstance(value, bool) else read) == value


def _enough(told: dict[str, Any]) -> dict[str, Any]:
    """Rounds must be longer than what a preemption costs, and some texts be one of a few."""
    overhead = told.get("preemption_overhead_seconds", 0.0)
    choices = {
        **{"counted_over": "cluster", "engine": "plain", "order": "srsf"},
        **{"gang_restart": "edl", "gang_sizes": "every", "goodputs": "fitted"},
    }
    enough: dict[str, Any] = {name: choices[name] for name in choices.keys() & told.keys()}
    if "round_seconds" in told:
        enough["round_seconds"] = overhead + told["round_seconds"]
    return enough


def _as_word(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def test_a_value_runs_as_its_names_do() -> None:
    workload = ap.generate_workload(jobs=12, seed=1)
    by_name = ap.simulate("fifo", workload, "v100=2,k80=2", round_seconds=60, placement="random")
    value = ap.Rounds(seconds=60, placement="random")
    by_value = ap.simulate("fifo", workload, "v100=2,k80=2", mechanism=value)
    assert by_value.jobs.equals(by_name.jobs)
    assert by_value.settings == by_name.settings
    compared = ap.compare(["fifo"], workload, "v100=2,k80=2", mechanism=value, n_jobs=1)
    assert compared["fifo"].jobs.equals(by_name.jobs)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ap.Rounds(seconds=0), "round_seconds is 0"),
        (lambda: ap.Rounds(seconds="x"), "^round_seconds is 'x'"),  # type: ignore[arg-type]
        (lambda: ap.Rounds(preemption_overhead_seconds=360), "less than round_seconds"),
        (lambda: ap.Rounds(leases="no"), "leases is 'no'"),  # type: ignore[arg-type]
        (lambda: ap.Rounds(seconds=-1), "^round_seconds is -1"),
        (lambda: ap.Leases(seconds=-1), "^lease_seconds is -1"),
        (lambda: ap.Leases(seconds="60"), "^lease_seconds is '60'"),  # type: ignore[arg-type]
        (lambda: ap.Leases(checkpoint_seconds_per_gpu=np.nan), "checkpoint_seconds_per_gpu is nan"),
        (lambda: ap.Exact(resolve_seconds=-1), "resolve_seconds is -1"),
        (lambda: ap.Rounds(network="tabel1"), "Unknown network 'tabel1'. Did you mean 'table1'"),
        (lambda: ap.Leases(network="tabel1"), "Did you mean 'table1'.* Valid: none, table1,"),
        (lambda: ap.Queue(network="alphabeta"), "Did you mean 'alpha_beta'"),
        (lambda: ap.Rounds(placement="x"), "Unknown placement 'x'. Valid: consolidated, "),
        (lambda: ap.Leases(placement="bestfit"), "Did you mean 'best_fit'"),
        (lambda: ap.Queue(placement="radnom"), "Did you mean 'random'"),
        (lambda: mechanism_for([FIFO()], "rounds", {"network": "x"}), "Unknown network 'x'"),
        (lambda: mechanism_for([FIFO()], "round", {}), "Did you mean 'rounds'"),
        (lambda: mechanism_for([FIFO()], 3, {}), "mechanism"),  # type: ignore[arg-type]
        (lambda: mechanism_for([FIFO()], "rounds", {"round_seconds": "x"}), "round_seconds is 'x'"),
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


def test_mechanisms_are_values() -> None:
    assert ap.Rounds(seconds=60) == ap.Rounds(seconds=60.0)
    assert len({ap.Rounds(), ap.Rounds(), ap.Exact()}) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        ap.Rounds().seconds = 3.0  # type: ignore[misc]


def test_an_unknown_setting_is_answered_with_each_valid_name_once() -> None:
    with pytest.raises(InputError) as error:
        mechanism_for([FIFO()], None, {"round_second": 60})
    valid = str(error.value).rstrip(".").partition("Valid: ")[2].split(", ")
    assert valid == list(SETTINGS)


@pytest.mark.parametrize("kind", MECHANISMS.values())
def test_a_mechanism_that_is_not_called_is_named(kind: Any) -> None:
    with pytest.raises(InputError, match=rf"write mechanism={kind.__name__}\(\)"):
        mechanism_for([FIFO()], kind, {})


def test_the_old_name_of_exact_shares_is_read_and_the_new_one_written() -> None:
    workload = ap.generate_workload(jobs=2)
    runs = [
        ap.simulate("fifo", workload, "v100=2,k80=2", mechanism=each)
        for each in (ap.Exact(), "exact", "ideal")
    ]
    assert [run.settings["mechanism"] for run in runs] == ["exact"] * 3
    assert all(run.jobs.equals(runs[0].jobs) for run in runs)
    with pytest.raises(InputError, match="Valid: rounds, exact, leases, queue"):
        mechanism_for([FIFO()], "perfect", {})


OF_SPEEDS: list[dict[str, Any]] = [
    {"speeds": "estimated"},
    {"speeds": "told"},
    {"speeds": "estimated", "references": 3, "optimism": 0.5},
    {"optimism": 1.0},
]


@pytest.mark.parametrize("told", OF_SPEEDS, ids=str)
def test_schedulers_that_ask_for_no_speeds_are_told_none(told: dict[str, Any]) -> None:
    workload, racks = ap.generate_rack_workload(jobs=3, seed=0), ap.Cluster.of_racks(1)
    first = next(iter(told))
    alone = rf"^{first}=.* is for policies; 'dally' is a scheduler, which asks for no speeds"
    with pytest.raises(InputError, match=alone):
        ap.simulate("dally", workload, racks, **told)
    with pytest.raises(InputError, match="'dally' and 'tiresias' are schedulers, which ask for"):
        ap.compare(["dally", "tiresias"], workload, racks, n_jobs=1, **told)


def test_what_one_policy_heeds_may_be_shared_with_schedulers() -> None:
    workload, racks = ap.generate_rack_workload(jobs=6, seed=0), ap.Cluster.of_racks(1)
    told = OF_SPEEDS[2]
    deciders = ["dally", "max_min_fairness"]
    both = ap.compare(deciders, workload, racks, n_jobs=1, mechanism="leases", **told)
    assert both["dally"].jobs.equals(ap.simulate("dally", workload, racks).jobs)
    policy = ap.simulate("max_min_fairness", workload, racks, mechanism="leases", **told)
    assert both["max_min_fairness"].jobs.equals(policy.jobs)
    assert both["max_min_fairness"].settings["references"] == 3
    assert "references" not in both["dally"].settings
    sweep = ap.sweep(deciders, [workload], racks, n_jobs=1, mechanism="leases", **told)
    makespan = sweep.table().set_index("policy")["makespan_s"]
    assert makespan["dally"] == both["dally"].summary()["makespan_s"]
