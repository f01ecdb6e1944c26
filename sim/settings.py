"""Settings of simulations: which mechanism heeds which, their defaults, and valid values."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from apportion.checks import choice, number, seconds, yes_no
from apportion.checks import seed as check_seed
from apportion.errors import InputError, unknown_name
from apportion.mechanism.offers import OfferScheduler

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apportion.sim.deciders import Decider

__all__ = ["MECHANISMS", "Mechanism", "settings_for"]

Mechanism = Literal["rounds", "ideal", "leases"]
"""Names of the ways in which decisions are carried out."""

_ROUNDS: Mapping[str, Any] = MappingProxyType(
    {
        "round_seconds": 360.0,
        "resolve_seconds": 0.0,
        "preemption_overhead_seconds": 0.0,
        "placement": "consolidated",
        "placement_sensitive": False,
        "pair_estimates": None,
        "learn_pairs": False,
        "carry_over": None,
        "leases": True,
        "seed": 0,
    }
)
_LEASES: Mapping[str, Any] = MappingProxyType(
    {
        "network": "table1",
        "lease_seconds": None,
        "checkpoint_seconds_per_gpu": None,
        "resolve_seconds": 0.0,
        "seed": 0,
    }
)

_IDEAL: Mapping[str, Any] = MappingProxyType({"resolve_seconds": 0.0, "seed": 0})
_SHORTEST_S = 1e-3
"""Least length of a round or lease, seconds: each of them costs time to compute."""

MECHANISMS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"rounds": _ROUNDS, "ideal": _IDEAL, "leases": _LEASES}
)
"""Ways in which decisions are carried out: the settings that each heeds, with their defaults."""


def settings_for(
    deciders: Iterable[Decider], mechanism: str | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Choose the mechanism, and keep the settings that it heeds, defaults filled in.

    A setting that only another mechanism heeds must not be given, whatever its value: nothing that
    was asked for is passed over in silence.

    Parameters
    ----------
    deciders
        Policies and schedulers that are to run, all by the same mechanism.
    mechanism
        A key of `MECHANISMS`. None chooses ``"leases"`` if there is a scheduler, or a setting that
        only leases heed, else ``"rounds"``.
    given
        Settings by name. None says that it was not given.

    Returns
    -------
    dict
        ``mechanism`` and its settings.

    Raises
    ------
    InputError
        For an unknown mechanism, one that a scheduler does not work by, a setting of another one,
        or a value out of range.
    """
    schedulers = [decider.label for decider in deciders if isinstance(decider, OfferScheduler)]
    if mechanism is None:
        of_leases = any(given.get(name) is not None for name in _LEASES.keys() - _ROUNDS.keys())
        mechanism = "leases" if schedulers or of_leases else "rounds"
    choice("mechanism", mechanism, MECHANISMS)
    if schedulers and mechanism != "leases":
        raise InputError(
            f"{schedulers[0]!r} is a scheduler, which works by leases; mechanism={mechanism!r} is "
            f"for policies. Leave out one of the two."
        )
    heeded = MECHANISMS[mechanism]
    for name, value in given.items():
        _check_heeded(mechanism, name, value)
    settings = {
        name: default if given.get(name) is None else given[name]
        for name, default in heeded.items()
    }
    if mechanism != "ideal":
        check = _check_leases if mechanism == "leases" else _check_rounds
        check(settings)
    seconds("resolve_seconds", settings["resolve_seconds"], infinite=True)
    check_seed(settings["seed"])
    return {"mechanism": mechanism, **settings}


def _check_heeded(mechanism: str, name: str, value: object) -> None:
    """Refuse a setting that a mechanism would not look at."""
    if name in MECHANISMS[mechanism] or value is None:
        return
    homes = [home for home, names in MECHANISMS.items() if name in names]
    if not homes:
        raise unknown_name(
            "setting", name, [each for names in MECHANISMS.values() for each in names]
        )
    raise InputError(
        f"{name}={value!r} is for the mechanism {' or '.join(map(repr, homes))}; it does nothing "
        f"to {mechanism!r}, which is how this comparison or simulation runs. Leave it out."
    )


def _check_rounds(settings: Mapping[str, Any]) -> None:
    """Check lengths of time of the round-based mechanism, seconds."""
    for name in ("placement_sensitive", "learn_pairs", "leases"):
        yes_no(name, settings[name])
    if settings["carry_over"] is not None:
        yes_no("carry_over", settings["carry_over"])
    round_seconds = number("round_seconds", settings["round_seconds"], least=_SHORTEST_S)
    overhead = seconds("preemption_overhead_seconds", settings["preemption_overhead_seconds"])
    if not overhead < round_seconds:
        raise InputError(
            f"preemption_overhead_seconds is {overhead!r}; it must be a number >= 0 and less "
            f"than round_seconds ({round_seconds:g}), or a job might never get anywhere."
        )


def _check_leases(settings: Mapping[str, Any]) -> None:
    """Check lengths of time of the lease-based mechanism, seconds; None is the scheduler's own."""
    if settings["lease_seconds"] is not None:
        number("lease_seconds", settings["lease_seconds"], least=_SHORTEST_S)
    if settings["checkpoint_seconds_per_gpu"] is not None:
        seconds("checkpoint_seconds_per_gpu", settings["checkpoint_seconds_per_gpu"])
