"""The state of the compiled engine: records of jobs, workers and transfers, lists, and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INT, _FLOAT = np.int64, np.float64
# No field is called as something that every record of numpy has, such as size: it would be hidden.

JOB = np.dtype(
    [
        *((name, _INT) for name in ("here", "n", "at", "links_at", "n_links", "tasks_at")),
        *((name, _INT) for name in ("n_tasks", "sends_at", "n_sends", "left", "first", "second")),
        *((name, _INT) for name in ("key", "sent", "lag", "flow", "asked", "near", "meets")),
        *((name, _FLOAT) for name in ("begin_s", "ask_s", "flow_s", "rate", "since_s")),
        *((name, _FLOAT) for name in ("bytes", "rest", "most", "computed_s", "moved")),
        *((name, _FLOAT) for name in ("shift_s", "period_s", "done_s", "rate_then", "rest_then")),
    ]
)
"""A job: where its workers, links, tasks and transfers begin and how many there are; how far it is;
its transfer, if it has one: `flow` tells whether it waits, starts up or sends. What is worked out
and not remembered: whether it is `near` another transfer, or `meets` it, on links; the rate that it
would get, and the bytes that it would still have."""

WORKER = np.dtype([("gpu", _INT), ("job", _INT), ("done", _INT), ("state", _INT)])
"""A worker: tasks done in this iteration; whether it waits, is ready, or runs."""

TASK = np.dtype([("seconds", _FLOAT), ("needs", _INT)])
"""A task of an iteration."""

SEND = np.dtype([("bytes", _FLOAT), ("after", _INT), ("most", _FLOAT), ("startup_s", _FLOAT)])
"""A transfer of an iteration."""

GPU = np.dtype([("end_s", _FLOAT), ("worker", _INT)])
"""A GPU: when its task ends, infinite if it has none; and whose it is, else -1."""

LINK = np.dtype([("factor", _FLOAT), ("asked", _INT), ("used", _INT), ("reached", _INT)])
"""A link: its factor to b and eta, or its bytes/s if links are shared fairly; in which round of
asking the gate a transfer last began that may change answers about others on it. What is not
remembered: how many use it, and whether one of those that are near does."""

RULES = np.dtype(
    [("way", _INT), ("b", _FLOAT), ("eta", _FLOAT), ("gate", _INT), ("parameter", _FLOAT)]
)
"""How links are shared: the way, b, eta; the gate's number and its parameter."""

BLOCK = 16
"""GPUs of which the next end of a task is kept: to look at all of them at each event takes longer
the more there are."""

REST, READY, RUNNING = range(3)
"""States of a worker."""

WAITS, STARTUP, SENDING = 1, 2, 3
"""States of a transfer; 0 if there is none."""

UNDER_WAY, WAITING, PENDING, LOOK, DONE, LOOKED_AT, NEAR, TRIED = range(8)
"""Lists: jobs whose transfers are let in, or wait; jobs to begin; GPUs to look at; jobs done.
`LOOKED_AT` tells of every GPU whether it is to be looked at. `NEAR` and `TRIED` are room for gates:
transfers that are near one, and those of them that are under way in what is played out."""

HERE, EVENTS, ASK, NEW, SHARE, NAMED, SINCE, ROUND = range(8, 16)
"""Behind the lengths of the lists: jobs that are here, ends of tasks and transfers, and whether to
ask the gate about all, or about new ones, and to share links anew; how many times that it has named
have come since there were so many events; and the rounds of asking it."""

AT_MOST, DUAL, DUAL_FIRST, K_WAY, WHAT_IF, SHIFTED, AT_MOST_ON_A_PAIR = range(7)
"""Numbers of the gates."""

CLUSTER, FAIR = 1, 2
"""Ways to share links, beside the cost by the links of the task, 0."""


class State(NamedTuple):
    """All that the compiled functions read and write; few arrays, as each is handed over in parts.

    Attributes
    ----------
    jobs, workers, tasks, sends, gpus, links
        Records, see `JOB`, `WORKER`, `TASK`, `SEND`, `GPU` and `LINK`.
    rules
        One record, see `RULES`.
    links_of
        Links of every job, one after the other.
    residents
        Workers on each GPU; their number is in the first column.
    on
        Jobs whose transfers are on each link; their number is in the first column.
    lists, counts
        See `UNDER_WAY`, `HERE`.
    rests
        Room for bytes of transfers.
    near
        When the next task ends on each block of GPUs, see `BLOCK`.
    """

    jobs: Any  # records of numpy, whose fields no type checker sees
    workers: Any
    tasks: Any
    sends: Any
    gpus: Any
    links: Any
    rules: Any
    links_of: NDArray[np.int64]
    residents: NDArray[np.int64]
    on: NDArray[np.int64]
    lists: NDArray[np.int64]
    counts: NDArray[np.int64]
    rests: NDArray[np.float64]
    near: NDArray[np.float64]
