"""The lease-based schedulers by name."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pandas as pd

from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.offers.rules import (
    DelayScheduling,
    FullyConsolidated,
    NetworkAgnostic,
    NoWait,
    SkewBased,
)
from apportion.mechanism.offers.scheduler import OfferScheduler
from apportion.mechanism.offers.timers import AutoTunedTimers, ManualTimers
from apportion.mechanism.orders.by_past import (
    DiscretizedLeastAttainedService,
    LeastAttainedService,
    MostSlowedFirst,
    RoundRobin,
    UnfairestFirst,
)
from apportion.names import is_policy_name
from apportion.registry import Registry

__all__ = ["SCHEDULERS", "get_scheduler", "scheduler_table"]

_DALLY = "Dally (Sharma et al., 2024)"
_TIRESIAS = "Tiresias (Gu et al., NSDI 2019), section 3"

_BUILT_IN = (
    OfferScheduler(
        "dally",
        f"{_DALLY}, Algorithms 1 and 2",
        order=MostSlowedFirst(),
        rule=DelayScheduling(),
        timers=AutoTunedTimers(),
    ),
    OfferScheduler(
        "dally_manual",
        f"{_DALLY}, Algorithm 1",
        order=MostSlowedFirst(),
        rule=DelayScheduling(),
        timers=ManualTimers(),
    ),
    OfferScheduler("dally_no_wait", _DALLY, order=MostSlowedFirst(), rule=NoWait()),
    OfferScheduler(
        "dally_fully_consolidated", _DALLY, order=MostSlowedFirst(), rule=FullyConsolidated()
    ),
    OfferScheduler(
        "tiresias", _TIRESIAS, order=DiscretizedLeastAttainedService(), rule=SkewBased()
    ),
    OfferScheduler(
        "tiresias_continuous", _TIRESIAS, order=LeastAttainedService(), rule=SkewBased()
    ),
    OfferScheduler(
        "gandiva",
        "Gandiva (Xiao et al., OSDI 2018), section 3, as simulated by Dally's authors",
        order=RoundRobin(),
        rule=NetworkAgnostic(),
        checkpoint_s_per_gpu=0.0,
        placement="random",
        migrates=True,
    ),
    OfferScheduler(
        "themis",
        "Themis (Mahajan et al., NSDI 2020), section 3, its order only",
        order=UnfairestFirst(),
        rule=NoWait(),
    ),
)

SCHEDULERS: Registry[OfferScheduler] = Registry(
    "scheduler",
    "apportion.schedulers",
    {scheduler.name: scheduler for scheduler in _BUILT_IN},
    lambda value: isinstance(value, OfferScheduler),
)
"""Schedulers by name, with the options that they have unless others are given.

One of one's own is added by assigning it; an installed package offers its own by the entry point
group ``apportion.schedulers``.
"""

_PARTS = ("order", "rule", "timers")


def get_scheduler(scheduler: OfferScheduler | str, **options: Any) -> OfferScheduler:
    """Return a scheduler by name, with some options changed.

    Parameters
    ----------
    scheduler
        A name out of `SCHEDULERS`, or a scheduler.
    **options
        Fields of `OfferScheduler`, or of its order, rule and timers, such as ``history_s`` of
        `AutoTunedTimers`.

    Raises
    ------
    InputError
        For an unknown name or option, with the nearest one, the name of a policy, or a value out
        of range.
    """
    if isinstance(scheduler, str):
        if scheduler not in SCHEDULERS and is_policy_name(scheduler):
            raise InputError(
                f"{scheduler!r} is a policy, not a scheduler: it says what share of time each job "
                f"should get. Use solve({scheduler!r}, throughputs, workers=...), "
                f"simulate({scheduler!r}, workload, cluster) or compare; "
                f"get_policy({scheduler!r}) returns it."
            )
        if scheduler not in SCHEDULERS:
            raise unknown_name("scheduler", scheduler, SCHEDULERS)
        scheduler = SCHEDULERS[scheduler]
    if not isinstance(scheduler, OfferScheduler):
        kind = type(scheduler).__name__
        raise InputError(f"A scheduler is a name or an OfferScheduler, not {kind}.")
    own = {f.name for f in fields(scheduler)} - {"name", "source"}
    for name in _PARTS:
        if not is_dataclass(options.get(name, getattr(scheduler, name))):
            raise InputError(f"{name} is {written(options[name])}; see `OfferScheduler`.")
    parts: dict[str, Any] = {name: options.get(name, getattr(scheduler, name)) for name in _PARTS}
    homes = {f.name: name for name, part in parts.items() for f in fields(part)}
    for option, value in options.items():
        if option not in own | homes.keys():
            raise unknown_name(f"option of scheduler {scheduler.name!r}", option, [*own, *homes])
        if option in homes:
            home = homes[option]
            parts[home] = replace(parts[home], **{option: value})
    return replace(scheduler, **{k: v for k, v in options.items() if k in own} | parts)


def scheduler_table() -> pd.DataFrame:
    """List the schedulers: name, order and rule in one line, source."""
    rows = [(s.name, s.description, s.source) for s in SCHEDULERS.values()]
    return pd.DataFrame(rows, columns=["name", "rule", "source"])
