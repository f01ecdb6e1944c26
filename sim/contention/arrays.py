"""The state of the compiled engine: records of jobs, workers and transfers, lists, and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    *("ASK", "CLUSTER", "DONE", "EVENTS", "FAIR", "HERE", "JOB", "LOOK", "LOOKED_AT", "NAMED"),
    *("NEW", "PENDING", "READY", "REST", "ROUND", "RUNNING", "SEND", "SENDING", "SHARE"),
    *("SINCE", "STARTUP", "TASK", "UNDER_WAY", "WAITING", "WAITS", "WORKER", "Arrays", "Scratch"),
]

_INT, _FLOAT = np.int64, np.float64
# No field is called as something that every record of numpy has, such as size: it would be hidden.

JOB = np.dtype(
    [
        *((name, _INT) for name in ("here", "n", "at", "links_at", "n_links", "tasks_at")),
        *((name, _INT) for name in ("n_tasks", "sends_at", "n_sends", "left", "first", "second")),
        *((name, _INT) for name in ("key", "sent", "lag", "flow", "asked")),
        *((name, _FLOAT) for name in ("begin_s", "ask_s", "flow_s", "rate", "since_s")),
        *((name, _FLOAT) for name in ("bytes", "rest", "most", "computed_s", "moved")),
        *((name, _FLOAT) for name in ("shift_s", "period_s")),
    ]
)
"""A job: where its workers, links, tasks and transfers begin and how many there are; how far it is;
its transfer, if it has one: `flow` tells whether it waits, starts up or sends."""

WORKER = np.dtype([("gpu", _INT), ("job", _INT), ("done", _INT), ("state", _INT)])
"""A worker: tasks done in this iteration; whether it waits, is ready, or runs."""

TASK = np.dtype([("seconds", _FLOAT), ("needs", _INT)])
"""A task of an iteration."""

SEND = np.dtype([("bytes", _FLOAT), ("after", _INT), ("most", _FLOAT), ("startup_s", _FLOAT)])
"""A transfer of an iteration."""

REST, READY, RUNNING = range(3)
"""States of a worker."""

WAITS, STARTUP, SENDING = 1, 2, 3
"""States of a transfer; 0 if there is none."""

UNDER_WAY, WAITING, PENDING, LOOK, DONE, LOOKED_AT = range(6)
"""Lists: jobs whose transfers are let in, or wait; jobs to begin; GPUs to look at; jobs done.
The last row tells of every GPU whether it is to be looked at."""

HERE, EVENTS, ASK, NEW, SHARE, NAMED, SINCE, ROUND = range(6, 14)
"""Behind the lengths of the lists: jobs that are here, ends of tasks and transfers, and whether to
ask the gate about all, or about new ones, and to share links anew; how many times that it has named
have come since there were so many events; and the rounds of asking it."""

CLUSTER, FAIR = 1, 2
"""Ways to share links, beside the cost by the links of the task, 0."""


class Scratch(NamedTuple):
    """Room for what gates work out: nothing of it is remembered.

    Attributes
    ----------
    rests, rates
        By transfer.
    near, found, meets, which, ids
        Transfers, and what is true of them.
    reached, used
        By link.
    """

    rests: NDArray[np.float64]
    rates: NDArray[np.float64]
    near: NDArray[np.int64]
    found: NDArray[np.int64]
    meets: NDArray[np.int64]
    which: NDArray[np.int64]
    ids: NDArray[np.int64]
    reached: NDArray[np.int64]
    used: NDArray[np.int64]

    @staticmethod
    def of(transfers: int, links: int) -> Scratch:
        """Return room for so many."""
        by_transfer = (np.zeros(transfers + 1, dtype=_INT) for _ in range(5))
        rests, rates = np.zeros((2, transfers + 1))
        return Scratch(rests, rates, *by_transfer, *np.zeros((2, links), dtype=_INT))


class Arrays(NamedTuple):
    """All of it, in the order in which functions take it.

    Attributes
    ----------
    jobs, workers, tasks, sends
        Records, see `JOB`, `WORKER`, `TASK` and `SEND`.
    links_of
        Links of every job, one after the other.
    gpu_end_s, gpu_worker
        When each GPU ends its task, infinite if it has none; and whose it is.
    residents
        Workers on each GPU; their number is in the first column.
    on
        Jobs whose transfers are on each link; their number is in the first column.
    lists, counts
        See `UNDER_WAY`, `HERE`.
    done_s
        When the jobs of the list `DONE` were done.
    law
        How links are shared: the way, b, eta.
    of_link
        Factor of each link to b and eta; its bytes/s if they are shared fairly.
    gate
        The gate's number and its parameter.
    used, rates
        Room for sums by link, and for rates of transfers.
    asked
        By link, in which round of asking the gate a transfer last began that may change answers
        about others on this link.
    """

    jobs: NDArray[np.void]
    workers: NDArray[np.void]
    tasks: NDArray[np.void]
    sends: NDArray[np.void]
    links_of: NDArray[np.int64]
    gpu_end_s: NDArray[np.float64]
    gpu_worker: NDArray[np.int64]
    residents: NDArray[np.int64]
    on: NDArray[np.int64]
    lists: NDArray[np.int64]
    counts: NDArray[np.int64]
    done_s: NDArray[np.float64]
    law: NDArray[np.float64]
    of_link: NDArray[np.float64]
    gate: NDArray[np.float64]
    used: NDArray[np.int64]
    rates: NDArray[np.float64]
    asked: NDArray[np.int64]
