"""Deciders by name: who offers GPUs, places jobs for good, serves queues, or sizes gangs."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import pandas as pd

from apportion.errors import InputError, unknown_name
from apportion.mechanism.batch import BatchScheduler
from apportion.mechanism.batch.kai import FairShareScheduler
from apportion.mechanism.batch.kueue import QuotaScheduler
from apportion.mechanism.batch.multifactor import MultifactorPriority
from apportion.mechanism.decider import AsRecorded
from apportion.mechanism.elastic import AFS, OptimusGreedy, Tiresias
from apportion.mechanism.leases.rules import (
    DelayScheduling,
    FullyConsolidated,
    NetworkAgnostic,
    NoWait,
    SkewBased,
)
from apportion.mechanism.leases.terms import OfferScheduler
from apportion.mechanism.leases.timers import AutoTunedTimers, ManualTimers
from apportion.mechanism.orders import (
    DiscretizedLeastAttainedService,
    LeastAttainedService,
    MostSlowedFirst,
    RoundRobin,
    UnfairestFirst,
)
from apportion.mechanism.own import is_own
from apportion.mechanism.run_to_completion import GatedScheduler
from apportion.names import OTHER_SCHEDULER_NAMES, is_policy_name, standard
from apportion.registry import Registry

_DALLY = "Dally (Sharma et al., 2024)"
_TIRESIAS = "Tiresias (Gu et al., NSDI 2019), section 3"
_WANG = "Wang et al., Communication Contention Aware Scheduling"

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
        "tiresias",
        _TIRESIAS,
        order=DiscretizedLeastAttainedService(),
        rule=SkewBased(),
        of_elastic=Tiresias(),
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
    BatchScheduler("fcfs", "first come, first served: nobody passes the job that waits first"),
    BatchScheduler("easy", "EASY backfilling (Lifka, JSSPP 1995)", backfill="easy"),
    BatchScheduler(
        "conservative",
        "conservative backfilling (Mu'alem and Feitelson, IEEE TPDS 2001)",
        backfill="conservative",
        keeps=True,
    ),
    BatchScheduler(
        "minimum_completion_time",
        "minimum completion time (Maheswaran et al., JPDC 1999): each job in turn where it is "
        "done first",
        backfill="conservative",
        chooses="first_end",
    ),
    BatchScheduler(
        "slurm",
        "Slurm: priority/multifactor with the classic fair share, sched/backfill",
        backfill="conservative",
        depth=500,
        order=MultifactorPriority(),
    ),
    QuotaScheduler("kueue", "Kueue: quotas of cluster queues, cohorts, preemption, fair sharing"),
    FairShareScheduler(
        "kai", "KAI scheduler: deserved quotas, fair shares by weight and past use, reclaim"
    ),
    AsRecorded(),
    GatedScheduler("ada_srsf", f"{_WANG}, Algorithm 3"),
    *(GatedScheduler(f"srsf_{n}", f"{_WANG}, section 5", gate=f"at_most_{n}") for n in (1, 2, 3)),
    *(AFS(), OptimusGreedy()),
)


def is_decider(value: Any) -> bool:
    """Whether a simulation can be run under a value: policies are so, too; classes are not.

    It makes a scheduler for each run, is asked by mechanisms that it names, or decides by itself.
    """
    knows = callable(getattr(value, "make", None)) or hasattr(value, "works_by")
    return (knows or is_own(value)) and not isinstance(value, type)


DECIDERS: Registry[Any] = Registry(
    "scheduler",
    "apportion.deciders",
    {each.label: each for each in _BUILT_IN},
    is_decider,
    beside=("policy", is_policy_name),
)
"""Who decides, by name, policies left out, with the options that they have unless others are given.

One of one's own, or whatever decides by itself, is added by assigning it.
"""


def get_scheduler(scheduler: Any, **options: Any) -> Any:
    """Return a scheduler by name, with some options changed.

    Parameters
    ----------
    scheduler
        A name out of `DECIDERS`, or a scheduler.
    **options
        Fields of it, or of its order, rule and timers, such as ``history_s`` of `AutoTunedTimers`.

    Raises
    ------
    InputError
        For an unknown name or option, with the nearest one, the name of a policy, or a value out
        of range.
    """
    if isinstance(scheduler, str):
        if scheduler not in DECIDERS and is_policy_name(scheduler):
            raise InputError(
                f"{scheduler!r} is a policy, not a scheduler: it says what share of time each job "
                f"should get. Use solve({scheduler!r}, throughputs, workers=...), "
                f"simulate({scheduler!r}, workload, cluster) or compare; "
                f"get_policy({scheduler!r}) returns it."
            )
        if scheduler not in DECIDERS:
            scheduler = standard(scheduler, OTHER_SCHEDULER_NAMES)
        scheduler = DECIDERS[scheduler]
    if not is_decider(scheduler):
        raise InputError(f"A scheduler is a name or a scheduler, not {type(scheduler).__name__}.")
    own = [each for each in _fields(scheduler) if each not in ("name", "source", "of_elastic")]
    if not options:
        return scheduler
    parts = {name: options.get(name, getattr(scheduler, name)) for name in own}
    homes = {option: name for name, part in parts.items() for option in _fields(part)}
    for option in options:
        if option not in own and option not in homes:
            raise unknown_name(f"option of scheduler {scheduler.name!r}", option, [*own, *homes])
    for name, part in parts.items():  # at once, as options of a part may need each other
        changed = {
            option: value
            for option, value in options.items()
            if option not in own and homes[option] == name
        }
        if changed:
            parts[name] = replace(part, **changed)
    return replace(scheduler, **parts)


def _fields(value: Any) -> list[str]:
    """Return the names of the fields of a value, none for what is no dataclass."""
    return [each.name for each in fields(value)] if is_dataclass(value) else []


def scheduler_table(mechanism: str | None = None) -> pd.DataFrame:
    """List the schedulers: name, mechanism, what each does in one line, source.

    Parameters
    ----------
    mechanism
        By which they work; all by default.
    """
    every: list[Any] = []
    for each in DECIDERS.values():
        every += [each, getattr(each, "of_elastic", None)]
    rows = [
        (one.name, by, one.description, one.source)
        for one in every
        for by in getattr(one, "works_by", ())[:1]
        if mechanism in (None, by)
    ]
    return pd.DataFrame(rows, columns=["name", "mechanism", "rule", "source"])
