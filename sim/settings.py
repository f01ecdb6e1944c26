"""The mechanism of a simulation, from a value or from names, as `simulate` and others are told."""

from __future__ import annotations

from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from apportion.checks import as_float, choice, seed, whole, yes_no
from apportion.errors import InputError, unknown_name, written
from apportion.estimators.speeds.estimated import ROWS, checked_optimism
from apportion.mechanism.own import is_own
from apportion.mechanisms import MECHANISMS, mechanism_name
from apportion.mechanisms.settings import MechanismSettings, settings_of
from apportion.mechanisms.start_costs import MEASURED, RESTART_S
from apportion.sim.deciders import (
    ELASTIC,
    check_passed_over,
    check_who_decides,
    manner_of,
    settings_heeded_by,
    usual_mechanism,
)
from apportion.sim.own_mechanism import OwnMechanism, left_to_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.mechanisms import Mechanism
    from apportion.sim.deciders import AnyDecider


def mechanism_for(
    deciders: Iterable[AnyDecider],
    mechanism: Mechanism | str | None,
    given: Mapping[str, Any],
    *,
    elastic: bool | None = None,
) -> Any:
    """Return the mechanism that a simulation is to run by.

    A setting that only another mechanism heeds must not be given, whatever its value: nothing that
    was asked for is passed over in silence.

    Parameters
    ----------
    deciders
        Policies and schedulers that are to run, all by the same mechanism.
    mechanism
        A value, or the name of one. None chooses the `usual_mechanism` of the first decider.
    given
        Settings by name, for a mechanism that is no value. None says that it was not given.
    elastic
        Whether jobs are elastic, if that is known: these run by ``"configurations"``.

    Raises
    ------
    InputError
        For an unknown mechanism, one that a scheduler does not work by, a setting of another one,
        or a value out of range.
    """
    told = {name: value for name, value in given.items() if value is not None}
    deciders = list(deciders)
    if mechanism is None:
        usual = [usual_mechanism(each, deciders, told) for each in deciders[:1]] or ["rounds"]
        mechanism = ELASTIC if elastic else usual[0]
    if isinstance(mechanism, type) and hasattr(mechanism, "parts"):
        kind = mechanism.__name__
        raise InputError(f"mechanism is the class {kind}; write mechanism={kind}().")
    chosen: Any = mechanism
    if hasattr(chosen, "parts"):
        beside = left_to_run(mechanism, told)
        _refuse_beside(mechanism, {name: told[name] for name in told if name not in beside})
        ready = isinstance(mechanism, MechanismSettings) and not beside
        chosen = chosen if ready else OwnMechanism(chosen, beside=beside)
    elif is_own(mechanism):
        kind = type(mechanism).__name__
        raise InputError(
            f"mechanism is a {kind}, which decides itself and stands in place of the policy: "
            f"simulate({kind}(...), workload, cluster)."
        )
    else:
        chosen = _named(mechanism_name(mechanism), told)
    if chosen.name in MECHANISMS.keys() - MECHANISMS.added():  # whom others take, they know
        check_who_decides(deciders, chosen.name)
        check_passed_over(deciders, chosen)
    if elastic is not None:
        check_elastic(chosen, elastic=elastic)
    return chosen


def _named(name: str, told: Mapping[str, Any]) -> Any:
    """Return the mechanism of a name, with these settings."""
    kind = MECHANISMS[name]
    beside = left_to_run(kind, told)
    for setting in [each for each in told if each not in beside]:
        check_heeded(setting, told[setting], [name])
    if not (isinstance(kind, type) and issubclass(kind, MechanismSettings)):
        return OwnMechanism(kind() if isinstance(kind, type) else kind, name, beside)
    made = kind.of(told)
    return OwnMechanism(made, name, beside) if beside else made


def _refuse_beside(mechanism: Any, told: Mapping[str, Any]) -> None:
    """Refuse settings by name beside a mechanism that has them all."""
    for name, value in told.items():
        fields = {each.name: each.field for each in settings_of(mechanism)}
        kind = type(mechanism).__name__
        instead = f"{fields[name]}={written(value)}" if name in fields else "..."
        raise InputError(
            f"{name}={written(value)} stands beside a mechanism that is a value; all settings are "
            f"in it: mechanism={kind}({instead})."
        )


def check_heeded(name: str, value: object, mechanisms: Iterable[str]) -> None:
    """Refuse a setting that none of the mechanisms would look at; of what is told of speeds none.

    Raises
    ------
    InputError
        With the mechanisms that it is for, or for an unknown name with those that there are.
    """
    if name in BELIEFS or any(name in settings_heeded_by(each) for each in mechanisms):
        return
    homes = [home for home in MECHANISMS if name in settings_heeded_by(home)]
    if not homes:
        each = (setting.name for kind in MECHANISMS.values() for setting in settings_of(kind))
        raise unknown_name("setting", name, list(dict.fromkeys(each)))
    raise _does_nothing(name, value, homes, *mechanisms)


def _does_nothing(name: str, value: object, homes: Iterable[str], *mechanisms: str) -> InputError:
    """Return the error for a setting that only other mechanisms heed."""
    return InputError(
        f"{name}={value!r} is for the mechanism {' or '.join(map(repr, homes))}; it does nothing "
        f"to {' and '.join(map(repr, mechanisms))}, which is how this comparison or simulation "
        f"runs. Leave it out."
    )


BELIEFS: Mapping[str, Any] = MappingProxyType(
    {
        "pair_estimates": None,
        "learn_pairs": False,
        "speeds": "told",
        "references": None,
        "optimism": None,
        "rows": None,
    }
)
"""What policies are told of speeds, beside the settings of the mechanism, with the defaults."""

PRICES: Final = "record_prices"
"""Whether the prices of every solve of a policy are kept."""

STARTS: Final = "preemption_overhead_seconds"
"""The setting that says what a start costs."""

HELD = ("round_seconds", "lease_seconds")
"""Settings that say for how long a job that starts holds its GPUs at least."""

SPEEDS = ("told", "estimated", "agnostic")
"""Ways to know the speeds of single jobs."""

_OF_ESTIMATES: Mapping[str, Any] = MappingProxyType(
    {"references": None, "optimism": 1.0, "rows": "job"}
)
"""Settings of estimated speeds only, with their defaults there."""

_OF_PAIRS = ("pair_estimates", "learn_pairs")


def settings_for(
    deciders: Iterable[AnyDecider],
    mechanism: Mechanism | str | None,
    given: Mapping[str, Any],
    *,
    elastic: bool | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Return the mechanism of a simulation, and all of its settings by name, defaults filled in.

    Parameters and errors are those of `mechanism_for`. Among the settings is ``mechanism``, its
    name. Beside those may be given ``seed``, and what
    is told of speeds, which policies heed, and schedulers do not ask for, so that there has to be a
    policy among the deciders: ``speeds``, one of `SPEEDS`; ``references``, ``optimism`` and
    ``rows`` of estimated ones, see `apportion.sim.beliefs.estimated`; and, rounds only,
    ``pair_estimates`` and ``learn_pairs``; and ``record_prices``, which is among the settings only
    if true.
    """
    deciders = list(deciders)
    beside = {"seed", PRICES, *BELIEFS}
    own = {name: value for name, value in given.items() if name not in beside}
    chosen = mechanism_for(deciders, mechanism, own, elastic=elastic)
    settings = _by_name(chosen) | {"seed": seed(given.get("seed") or 0)}
    for name, default in BELIEFS.items():
        of = "tells_pairs" if name in _OF_PAIRS else "tells_speeds"
        value, heeded = given.get(name), getattr(chosen, of)
        if heeded and any(manner_of(each).asks_for_speeds for each in deciders):
            settings[name] = default if value is None else value
        elif value is not None and not heeded:
            homes = [home for home in MECHANISMS if getattr(MECHANISMS[home], of, False)]
            raise _does_nothing(name, value, homes, chosen.name)
        if value is not None:
            _check_asked_for(deciders, name, value)
    _check_beliefs(settings)
    if given.get(PRICES) is not None and yes_no(PRICES, given[PRICES]):
        if deciders and not any(manner_of(each).asks_for_speeds for each in deciders):
            who = " and ".join(repr(each.label) for each in deciders)
            raise InputError(f"{PRICES}=True is for policies; {who} solve no problem with prices.")
        settings[PRICES] = True
    return chosen, settings


def _by_name(chosen: Any) -> dict[str, Any]:
    """Return a mechanism by name and settings, or as a value where no name stands for it."""
    known = MECHANISMS.get(chosen.name)
    if known is type(chosen) or getattr(chosen, "registered", None):
        named: dict[str, Any] = chosen.by_name()
        return named
    beside: Mapping[str, Any] = getattr(chosen, "beside", {})
    return {"mechanism": getattr(chosen, "mechanism", chosen), **beside}


def check_elastic(mechanism: Any, *, elastic: bool) -> None:
    """Refuse elastic jobs under other mechanisms, and other jobs under that of elastic ones."""
    if elastic and not mechanism.elastic:
        raise InputError(
            f"Elastic jobs run by mechanism={ELASTIC!r}, not by {mechanism.name!r}; leave it out, "
            f"or run them as their users set them: workload.rigid(accelerator)."
        )
    if not elastic and mechanism.elastic:
        raise InputError(
            f"mechanism={mechanism.name!r} is for elastic jobs; make a workload of them by "
            f"generate_elastic_workload() or read_elastic_workload(path)."
        )


def charged(
    deciders: Sequence[AnyDecider],
    mechanism: Mechanism | str | None,
    given: Mapping[str, Any],
    *,
    elastic: bool,
) -> dict[str, Any]:
    """Add what starts were measured to cost to the settings of a mechanism that is named.

    Simulations and comparisons charge it where nobody says: free preemptions decide who is best.
    Not where a scheduler by leases says itself what they cost, nor where a round or a lease is so
    short that a job might never get anywhere.
    """
    told = {name: value for name, value in given.items() if value is not None}
    if STARTS in told or elastic or not isinstance(mechanism, str | None):
        return told
    way = mechanism or usual_mechanism(deciders[0], deciders, told)
    if way not in MECHANISMS.keys() - MECHANISMS.added() or not heeds(deciders[0], way, STARTS):
        return told
    own = way == "leases" and any(getattr(each, "overhead_s", 0.0) for each in deciders)
    least_s = max(RESTART_S.values())
    shortest_s = min(as_float(told.get(name, inf)) for name in HELD)
    return told if own or shortest_s <= least_s else {**told, STARTS: MEASURED}


def heeds(decider: AnyDecider, mechanism: str, name: str) -> bool:
    """Whether a setting says something to a decider that works by a mechanism of the package."""
    if name == PRICES:
        return manner_of(decider).asks_for_speeds
    if name not in BELIEFS:
        return name == "seed" or name in settings_heeded_by(mechanism)
    of = "tells_pairs" if name in _OF_PAIRS else "tells_speeds"
    return manner_of(decider).asks_for_speeds and getattr(MECHANISMS[mechanism], of, False)


def heeded_by(decider: AnyDecider, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of shared settings that `settings_for` lets a decider by itself have."""
    if manner_of(decider).asks_for_speeds:
        return dict(settings)
    return {name: value for name, value in settings.items() if name not in {PRICES, *BELIEFS}}


def _check_asked_for(deciders: Sequence[AnyDecider], name: str, value: object) -> None:
    """Refuse what is told of speeds if none of the deciders asks for any."""
    if deciders and not any(manner_of(each).asks_for_speeds for each in deciders):
        who = " and ".join(repr(each.label) for each in deciders)
        are = "is a scheduler, which asks" if len(deciders) == 1 else "are schedulers, which ask"
        raise InputError(
            f"{name}={written(value)} is for policies; {who} {are} for no speeds. Leave it out."
        )


def _check_beliefs(settings: dict[str, Any]) -> None:
    """Check what is told of speeds, and fill in what estimates need."""
    if "learn_pairs" in settings:
        yes_no("learn_pairs", settings["learn_pairs"])
    if "speeds" not in settings:
        return
    speeds = choice("speeds", settings["speeds"], SPEEDS)
    for name, default in _OF_ESTIMATES.items():
        value = settings.pop(name)
        if speeds == "estimated":
            settings[name] = default if value is None else value
        elif value is not None:
            raise InputError(
                f"{name}={written(value)} is for speeds='estimated'; it does nothing to "
                f"speeds={speeds!r}. Leave it out."
            )
    if speeds == "estimated":
        if settings.get("references") is not None:
            whole("references", settings["references"])
        checked_optimism(settings["optimism"])
        choice("rows", settings["rows"], ROWS)
