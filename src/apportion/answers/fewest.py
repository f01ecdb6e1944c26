"""`fewest_for_wait`: how few GPUs keep waits short, by bisection, with an interval."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import pandas as pd

from apportion.annotations import checked
from apportion.answers.evidence import blocks_of, one_source, spread_of
from apportion.checks import choice, number, whole
from apportion.cluster import Cluster
from apportion.errors import InputError, written
from apportion.experiments.machine.backends import Where
from apportion.experiments.sweeps.plan import AskedSweep, planned
from apportion.experiments.sweeps.run import carried_out

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from apportion.mechanism.own import Decides
    from apportion.mechanisms.setting_names import SweepSettings
    from apportion.sim.deciders import AnyDecider

_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_GOAL = re.compile(r"p(\d+(?:\.\d+)?) wait (?:under|below|<) ?(\d+(?:\.\d+)?) ?(s|min|h|d)")
_MOST_TIMES = 2**18


class Goal(NamedTuple):
    """A quantile of the waits of jobs that is to be under a limit, seconds."""

    quantile: float
    limit_s: float
    text: str


def read_goal(text: str) -> Goal:
    """Read ``"p95 wait under 2 h"``; units are s, min, h and d.

    Raises
    ------
    InputError
        For anything else.
    """
    found = _GOAL.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or not 0 < float(found[1]) < 100 or not float(found[2]) > 0:
        raise InputError(
            f"The goal is {written(text)}; write it as 'p95 wait under 2 h' (s, min, h or d)."
        )
    return Goal(float(found[1]) / 100, float(found[2]) * _SECONDS[found[3]], text.strip())


@checked
def fewest_for_wait(
    policy: str | AnyDecider | Decides,
    workload: Any,
    cluster: Cluster | Mapping[str, int] | str,
    goal: str = "p95 wait under 2 h",
    *,
    accelerator: str | None = None,
    draws: int = 16,
    level: float = 0.95,
    out: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    **settings: Unpack[SweepSettings],
) -> FewestForWait:
    """Find the fewest GPUs of one type with which waits stay under a limit.

    Bisection over whole machines, with the same draws of jobs at each size. It takes for granted
    that more GPUs do not lengthen waits, nor move up the ends of their intervals. A wait is the
    time that a job is there without GPUs.

    Parameters
    ----------
    policy, workload
        As for `apportion.recommend`, one policy.
    cluster
        As for `apportion.simulate`; its GPUs of other types stay as they are.
    goal
        ``"p95 wait under 2 h"``: a percentile, and a time.
    accelerator
        The type whose number is looked for; the only one of the cluster where left out.
    draws
        Of the workload, two at least.
    level
        Of the interval.
    out, n_jobs, progress
        As for `apportion.sweep`.
    **settings
        As for `apportion.sweep`.

    Raises
    ------
    InputError
        For a goal that cannot be read, several types of which none is named, waits that no number
        of GPUs shortens enough, and as `apportion.sweep`.
    """
    asked, cluster = read_goal(goal), Cluster.of(cluster)
    kind = accelerator or next(iter(cluster.gpus))
    if accelerator is None and len(cluster.gpus) > 1:
        raise InputError(f"Say of which type: accelerator={kind!r}, for example.")
    choice("accelerator", kind, [*cluster.gpus])
    size = cluster.machine_size(kind)
    whole("draws", draws, 2)
    number("level", level, strict=True, most=1 - 1e-9)
    _, resampled = one_source(workload)
    what = AskedSweep(
        seeds=range(draws),
        resample="blocks" if resampled else False,
        wait_quantile=asked.quantile,
        loads=(1.0,),
    )

    waits = dict[int, tuple[float, float, float]]()

    def at(machines: int) -> tuple[float, float, float]:
        """Return the wait with so many machines, and the ends of its interval."""
        if machines not in waits:
            gpus = {**cluster.gpus, kind: machines * size}
            plan = planned([policy], [workload], replace(cluster, gpus=gpus), what, settings)
            swept = carried_out(
                *(plan, Where(None, None, n_jobs)),
                out=out,
                progress=progress,
                raise_on_failure=True,
            )
            runs = swept.table()
            blocks = blocks_of(runs) if resampled else 0
            found = runs["wait_s"].to_numpy(dtype=float)
            waits[machines] = spread_of(found, blocks=blocks, level=level)
        return waits[machines]

    def enough(end: int, machines: int) -> bool:
        return at(machines)[end] <= asked.limit_s

    least = most = _least_machines(workload, cluster, kind)
    while not enough(2, most):
        if most > _MOST_TIMES * least:
            raise InputError(
                f"Waits stay above {asked.limit_s:g} s even with {most:,} machines: jobs wait for "
                f"something else than these GPUs."
            )
        most *= 2
    for end in (1, 0, 2):  # the lower end, the mean, the upper end
        bisect_left(range(most), True, least, key=partial(enough, end))
    # Ends of intervals need not fall with the size: what another search met is not denied.
    few, best, safe = (size * min(n for n in waits if enough(end, n)) for end in (1, 0, 2))
    table = pd.DataFrame(
        [(kind, n * size, *each) for n, each in sorted(waits.items())],
        columns=["accelerator", "gpus", "wait_s", "low", "high"],
    )
    return FewestForWait(asked, kind, best, few, safe, table, level, resampled, draws)


def _least_machines(workload: Any, cluster: Cluster, kind: str) -> int:
    """Return with how many machines of a type every job has a place; one where others hold it."""
    source, _ = one_source(workload)
    jobs = source.made(1.0, 0).jobs
    largest = int(jobs["scale_factor"].max()) if "scale_factor" in jobs else 1
    others = max((n for name, n in cluster.gpus.items() if name != kind), default=0)
    if others >= largest or source.fitting.get("too_large") == "drop":
        return 1
    return -(-largest // cluster.machine_size(kind))


@dataclass(frozen=True, eq=False, repr=False)
class FewestForWait:
    """What `apportion.fewest_for_wait` returns.

    Attributes
    ----------
    goal
        What was asked for.
    accelerator
        The type.
    gpus
        The fewest of it with which the mean over the draws is under the limit.
    few, safe
        With fewer than `few` the interval of the wait is above the limit, with `safe` it is below.
    table
        What was simulated: ``gpus``, ``wait_s``, ``low``, ``high``.
    level, resampled, draws
        Of the intervals, whether draws are resamples of one log, and their number.
    """

    goal: Goal
    accelerator: str
    gpus: int
    few: int
    safe: int
    table: pd.DataFrame
    level: float
    resampled: bool
    draws: int

    def sentence(self) -> str:
        """Say how many GPUs, and between what numbers the answer lies."""
        row = self.table[self.table["gpus"] == self.safe].iloc[0]
        hours = [row[name] / 3600 for name in ("wait_s", "low", "high")]
        wait = f"{hours[0]:.2f} h [{hours[1]:.2f}, {hours[2]:.2f}]"
        sure = f"{self.safe} {self.accelerator} keep the {self.goal.text}: {wait}"
        rests = "resamples of the log" if self.resampled else "draws"
        best = f"the best guess is {self.gpus}, and fewer than {self.few} do not"
        if self.few == self.safe:
            best = "fewer do not"
        return f"{sure}; {best} ({self.level:.0%} each, {self.draws} {rests})."

    def __repr__(self) -> str:
        return self.sentence()
