"""Rules of elastic jobs by name; AFS-L, and Tiresias of rigid jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pandas as pd

from apportion.errors import InputError
from apportion.mechanism.elastic_rule import ElasticJobs, ElasticRule, seconds_left
from apportion.mechanism.elastic_rules import elastic_share, shortest_first
from apportion.mechanism.elastic_searches import OptimusGreedy, PolluxSearch
from apportion.mechanism.orders.by_past import DiscretizedLeastAttainedService
from apportion.registry import Registry
from apportion.ties import EXACT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["AFS", "ELASTIC_RULES", "ElasticJobs", "ElasticRule", "Tiresias", "elastic_rule_table"]


@dataclass(frozen=True, repr=False)
class AFS(ElasticRule):
    """AFS-L: each next GPU to the job on top of a scan of pairs, see `elastic_share`.

    Rigid jobs, which it does not know, are served before, the shortest first. GPUs are of one type,
    and every number of them is an option.

    Parameters
    ----------
    over
        What the gain of the job with fewer GPUs is relative to, see `elastic_share`.
    """

    name: ClassVar[str] = "afs"
    source: ClassVar[str] = "AFS (NSDI 2021), AFS-L"
    rule: ClassVar[str] = "each next GPU to the larger relative gain; the shorter of two without"

    over: Literal["after", "before"] = "after"

    def choose(self, jobs: ElasticJobs) -> Ints:
        """Share out the GPUs one by one.

        Raises
        ------
        InputError
            For several types, or options that are not every number of GPUs.
        """
        order = np.argsort(jobs.gpus)
        if jobs.capacity.size > 1 or (jobs.gpus[order] != np.arange(1, order.size + 1)).any():
            raise InputError(
                "'afs' shares out GPUs of one type, one by one: give a cluster of one type, and "
                "gang_sizes='every'."
            )
        chosen = np.full(len(jobs.speed), -1, dtype=np.intp)
        left = int(jobs.capacity[0])
        rigid = np.flatnonzero(jobs.rigid)
        if rigid.size:
            own = jobs.speed[rigid].argmax(axis=1)
            seconds = seconds_left(jobs)[rigid, own]
            served = shortest_first(seconds, jobs.gpus[own], left) & np.isfinite(seconds)
            chosen[rigid[served]] = own[served]
            left -= int(jobs.gpus[own[served]].sum())
        others = np.flatnonzero(~jobs.rigid)
        table = jobs.speed[np.ix_(others, order)]
        counts = elastic_share(table, jobs.steps_remaining[others], left, over=self.over)
        has = counts > 0
        chosen[others[has]] = order[counts[has] - 1]
        return chosen


@dataclass(frozen=True, repr=False)
class Tiresias(ElasticRule):
    """Queues of GPU-time held, two-dimensional; every job with the GPUs and batch of its user.

    In each queue the earliest arrival comes first. Who does not fit is passed over, and who comes
    later loses its GPUs. A job stays on its type if it can, else it takes the fastest that is free.

    Parameters
    ----------
    queue_limits
        GPU-seconds at which a job falls into the next queue, ascending.

    Raises
    ------
    InputError
        If the limits do not ascend from above 0.
    """

    name: ClassVar[str] = "tiresias"
    source: ClassVar[str] = "Tiresias (Gu et al., NSDI 2019), section 3; limit as Pollux sets it"
    rule: ClassVar[str] = DiscretizedLeastAttainedService.rule
    all_rigid: ClassVar[bool] = True

    queue_limits: tuple[float, ...] = (57_600.0,)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._order()

    def choose(self, jobs: ElasticJobs) -> Ints:
        """Serve the queues."""
        queue = self._order().queue_of(jobs.attained_gpu_s)
        turn = np.lexsort([np.arange(queue.size), jobs.arrival_s, queue])
        chosen = np.full(queue.size, -1, dtype=np.intp)
        left = jobs.capacity.copy()
        for job in turn.tolist():
            speed = jobs.speed[job] * (jobs.gpus <= left[jobs.kind])
            if jobs.current[job] >= 0 and speed[jobs.current[job]] > 0:
                chosen[job] = jobs.current[job]
            elif speed.any():
                chosen[job] = int(np.argmax(speed >= speed.max() * (1 - EXACT)))
            if chosen[job] >= 0:
                left[jobs.kind[chosen[job]]] -= jobs.gpus[chosen[job]]
        return chosen

    def _order(self) -> DiscretizedLeastAttainedService:
        return DiscretizedLeastAttainedService(self.queue_limits)


ELASTIC_RULES: Registry[ElasticRule] = Registry(
    "rule of elastic jobs",
    "apportion.elastic_rules",
    {rule.name: rule for rule in (AFS(), Tiresias(), OptimusGreedy(), PolluxSearch())},
    lambda value: isinstance(value, ElasticRule),
)
"""Rules by name; one of one's own is added by assigning it."""


def elastic_rule_table() -> pd.DataFrame:
    """List the rules: name, what each does in one line, source."""
    rows = [(each.name, each.rule, each.source) for each in ELASTIC_RULES.values()]
    return pd.DataFrame(rows, columns=["name", "rule", "source"])
