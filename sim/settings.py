"""The mechanism of a simulation, from a value or from names, as `simulate` and others are told."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from apportion.checks import choice, number, seed, whole, yes_no
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.elastic_deciders import ElasticRule
from apportion.mechanism.offers import OfferScheduler
from apportion.mechanism.own import OwnScheduler, is_own
from apportion.mechanism.queue import QueueScheduler
from apportion.mechanism.stay import GatedScheduler
from apportion.mechanisms import MECHANISMS, Mechanism, mechanism_name
from apportion.policies import Policy
from apportion.policies.extensions import PlacesGangs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.sim.deciders import Decider

_QUEUED = QueueScheduler | OwnScheduler

__all__ = ["ELASTIC", "SPEEDS", "check_elastic", "heeded_by", "mechanism_for", "settings_for"]


def mechanism_for(
    deciders: Iterable[Decider], mechanism: Mechanism | str | None, given: Mapping[str, Any]
) -> Mechanism:
    """Return the mechanism that a simulation is to run by.

    A setting that only another mechanism heeds must not be given, whatever its value: nothing that
    was asked for is passed over in silence.

    Parameters
    ----------
    deciders
        Policies and schedulers that are to run, all by the same mechanism.
    mechanism
        A value, or the name of one. None chooses ``"iterations"`` if a
        scheduler has a gate, ``"queue"`` if there is a queue, ``"leases"`` if
        there is a scheduler that offers GPUs, a policy that places gangs, a setting that only
        leases heed, or a network, else ``"rounds"``.
    given
        Settings by name, for a mechanism that is no value. None says that it was not given.

    Raises
    ------
    InputError
        For an unknown mechanism, one that a scheduler does not work by, a setting of another one,
        or a value out of range.
    """
    told = {name: value for name, value in given.items() if value is not None}
    deciders = list(deciders)
    by_leases = [each.label for each in deciders if isinstance(each, OfferScheduler | PlacesGangs)]
    in_queues = [each.label for each in deciders if isinstance(each, _QUEUED)]
    gated = [each.label for each in deciders if isinstance(each, GatedScheduler)]
    if mechanism is None:
        of_leases = told.keys() & (_names("leases") - _names("rounds") | {"network"})
        mechanism = "queue" if in_queues else "leases" if by_leases or of_leases else "rounds"
        mechanism = "iterations" if gated else mechanism
    if isinstance(mechanism, Mechanism):
        _refuse_beside(mechanism, told)
        name = mechanism.name
    elif is_own(mechanism):
        kind = type(mechanism).__name__
        raise InputError(
            f"mechanism is a {kind}, which decides itself and stands in place of the policy: "
            f"simulate({kind}(...), workload, cluster)."
        )
    elif isinstance(mechanism, type) and mechanism in MECHANISMS.values():
        kind = mechanism.__name__
        raise InputError(f"mechanism is the class {kind}; write mechanism={kind}().")
    else:
        name = mechanism_name(mechanism)
    _check_who_decides(deciders, name)
    if isinstance(mechanism, Mechanism):
        return mechanism
    for setting, value in told.items():
        _check_heeded(name, setting, value)
    chosen: Mechanism = MECHANISMS[name].of(told)
    return chosen


def _check_who_decides(deciders: Iterable[Decider], mechanism: str) -> None:
    """Refuse deciders that do not work by the mechanism."""
    kinds: tuple[tuple[type, str, str], ...] = (
        (OfferScheduler, "leases", "is a scheduler, which works by leases"),
        (QueueScheduler, "queue", "is a scheduler, which works by a queue"),
        (OwnScheduler, "queue", "decides itself whenever anything happens, as by a queue"),
        (GatedScheduler, "iterations", "is a scheduler, which works by iterations"),
        (ElasticRule, ELASTIC, "is a rule of elastic jobs"),
        (PlacesGangs, "leases", "is a policy that places gangs, which works by leases"),
    )
    for decider in deciders:
        for kind, own, words in kinds:
            if isinstance(decider, kind) and mechanism != own:
                raise InputError(
                    f"{decider.label!r} {words}; mechanism={mechanism!r} is for others. Leave out "
                    f"one of the two."
                )
        if mechanism == "configurations" and not getattr(decider, "integral", False):
            raise InputError(
                f"{decider.label!r} does not decide in whole numbers; mechanism={mechanism!r} is "
                f"for 'sia', 'pollux', 'deepboot', 'optimus', 'lyra', 'afs' and others that do, "
                f"over elastic jobs."
            )
        if isinstance(decider, Policy) and mechanism in ("queue", "iterations"):
            raise InputError(
                f"{decider.label!r} is a policy, which shares out time; mechanism={mechanism!r} is "
                f"for schedulers of that kind. Leave out one of the two."
            )


def _names(mechanism: str) -> set[str]:
    """Return the names of the settings that a mechanism heeds."""
    return {setting.name for setting in MECHANISMS[mechanism].settings()}


def _refuse_beside(mechanism: Mechanism, told: Mapping[str, Any]) -> None:
    """Refuse settings by name beside a mechanism that has them all."""
    for name, value in told.items():
        fields = {each.name: each.field for each in mechanism.settings()}
        kind = type(mechanism).__name__
        instead = f"{fields[name]}={written(value)}" if name in fields else "..."
        raise InputError(
            f"{name}={written(value)} stands beside a mechanism that is a value; all settings are "
            f"in it: mechanism={kind}({instead})."
        )


def _check_heeded(mechanism: str, name: str, value: object) -> None:
    """Refuse a setting that a mechanism would not look at."""
    if name in _names(mechanism):
        return
    homes = [home for home in MECHANISMS if name in _names(home)]
    if not homes:
        each = (setting.name for kind in MECHANISMS.values() for setting in kind.settings())
        raise unknown_name("setting", name, list(dict.fromkeys(each)))
    raise _does_nothing(name, value, homes, mechanism)


def _does_nothing(name: str, value: object, homes: Iterable[str], mechanism: str) -> InputError:
    """Return the error for a setting that only other mechanisms heed."""
    return InputError(
        f"{name}={value!r} is for the mechanism {' or '.join(map(repr, homes))}; it does nothing "
        f"to {mechanism!r}, which is how this comparison or simulation runs. Leave it out."
    )


_BELIEFS: Mapping[str, Any] = MappingProxyType(
    {
        "pair_estimates": None,
        "learn_pairs": False,
        "speeds": "told",
        "references": None,
        "optimism": None,
    }
)
"""What policies are told of speeds, beside the settings of the mechanism, with the defaults."""

ELASTIC: Final = "configurations"
"""The mechanism of elastic jobs."""

SPEEDS = ("told", "estimated", "agnostic")
"""Ways to know the speeds of single jobs."""

_OF_ESTIMATES: Mapping[str, Any] = MappingProxyType({"references": None, "optimism": 1.0})
"""Settings of estimated speeds only, with their defaults there."""

_OF_PAIRS = ("pair_estimates", "learn_pairs")


def settings_for(
    deciders: Iterable[Decider], mechanism: Mechanism | str | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return ``mechanism``, its name, and all settings of a simulation by name, defaults filled in.

    Parameters and errors are those of `mechanism_for`. Beside them may be given ``seed``, and what
    is told of speeds, which policies heed, and schedulers do not ask for, so that there has to be a
    policy among the deciders: ``speeds``, one of `SPEEDS`; ``references`` and ``optimism`` of
    estimated ones, see `apportion.sim.estimated_beliefs`; and, rounds only, ``pair_estimates`` and
    ``learn_pairs``.
    """
    deciders = list(deciders)
    beside = {"seed", *_BELIEFS}
    own = {name: value for name, value in given.items() if name not in beside}
    chosen = mechanism_for(deciders, mechanism, own)
    settings = chosen.by_name() | {"seed": seed(given.get("seed") or 0)}
    for name, default in _BELIEFS.items():
        homes = ["rounds"] if name in _OF_PAIRS else ["rounds", "leases", "exact"]
        value = given.get(name)
        if chosen.name in homes and any(map(_asks_for_speeds, deciders)):
            settings[name] = default if value is None else value
        elif value is not None and chosen.name not in homes:
            raise _does_nothing(name, value, homes, chosen.name)
        if value is not None:
            _check_asked_for(deciders, name, value)
    _check_beliefs(settings)
    return settings


def check_elastic(mechanism: str, *, elastic: bool) -> None:
    """Refuse elastic jobs under other mechanisms, and other jobs under that of elastic ones."""
    if elastic and mechanism != ELASTIC:
        raise InputError(
            f"Elastic jobs run by mechanism={ELASTIC!r}, not by {mechanism!r}; leave it out, "
            f"or run them as their users set them: workload.rigid(accelerator)."
        )
    if not elastic and mechanism == ELASTIC:
        raise InputError(
            f"mechanism={ELASTIC!r} is for elastic jobs; make a workload of them by "
            f"generate_elastic_workload() or read_elastic_workload(path)."
        )


def heeded_by(decider: Decider, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of shared settings that `settings_for` lets a decider by itself have."""
    if _asks_for_speeds(decider):
        return dict(settings)
    return {name: value for name, value in settings.items() if name not in _BELIEFS}


def _asks_for_speeds(decider: Decider) -> bool:
    return isinstance(decider, Policy)


def _check_asked_for(deciders: Sequence[Decider], name: str, value: object) -> None:
    """Refuse what is told of speeds if none of the deciders asks for any."""
    if deciders and not any(map(_asks_for_speeds, deciders)):
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
        if settings["references"] is not None:
            whole("references", settings["references"])
        number("optimism", settings["optimism"], most=10.0)
