"""Who computes, who sends, and with whom: what a timeline of GPUs and links is drawn from."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.gates import Flow


class Watch:
    """Is told by an engine what happens; this one takes down nothing."""

    def begins(self, job: int, gpu: int, task: int, now_s: float) -> None:
        """Take down that a GPU begins a task."""

    def ends(self, job: int, gpu: int, now_s: float) -> None:
        """Take down that it has ended."""

    def shares(self, flows: Sequence[Flow], now_s: float) -> None:
        """Take down which transfers are under way from now on."""

    def sent(self, job: int, now_s: float) -> None:
        """Take down that a transfer has ended."""

    def iterated(self, job: int, now_s: float) -> None:
        """Take down that an iteration has ended; the next one begins."""

    def dropped(self, job: int) -> None:
        """Take down that a job has lost its GPUs."""


class Timeline(Watch):
    """Takes down tasks, iterations, and transfers with how many shared their busiest link.

    For small cases: there is a line for every task.
    """

    def __init__(self) -> None:
        self._tasks: list[tuple[int, int, int, float, float]] = []
        self._sends: list[tuple[int, tuple[int, ...], float, float, int]] = []
        self._iterations: list[tuple[int, float, float]] = []
        self._task: dict[tuple[int, int], tuple[int, float]] = {}
        self._send: dict[int, tuple[tuple[int, ...], float, int]] = {}
        self._begun: dict[int, float] = {}

    def begins(self, job: int, gpu: int, task: int, now_s: float) -> None:
        """Take down that a GPU begins a task."""
        self._task[job, gpu] = (task, now_s)
        self._begun.setdefault(job, now_s)

    def ends(self, job: int, gpu: int, now_s: float) -> None:
        """Take down that it has ended."""
        task, begun_s = self._task.pop((job, gpu))
        self._tasks.append((job, gpu, task, begun_s, now_s))

    def shares(self, flows: Sequence[Flow], now_s: float) -> None:
        """Take down that transfers go on beside others."""
        on = Counter(link for flow in flows for link in flow.links)
        for job, links in ((flow.job, flow.links) for flow in flows):
            sharing = max((on[link] for link in links), default=1)
            self._begun.setdefault(job, now_s)
            if job in self._send and self._send[job][2] != sharing:
                self.sent(job, now_s)
            self._send.setdefault(job, (links, now_s, sharing))

    def sent(self, job: int, now_s: float) -> None:
        """Take down that a transfer has ended, or goes on beside others than before."""
        links, begun_s, sharing = self._send.pop(job)
        if now_s > begun_s:
            self._sends.append((job, links, begun_s, now_s, sharing))

    def iterated(self, job: int, now_s: float) -> None:
        """Take down that an iteration has ended; the next one begins."""
        self._iterations.append((job, self._begun.get(job, now_s), now_s))
        self._begun[job] = now_s

    def dropped(self, job: int) -> None:
        """Forget what a job has begun and lost with its GPUs."""
        self._task = {key: value for key, value in self._task.items() if key[0] != job}
        self._send.pop(job, None)
        self._begun.pop(job, None)

    def iterations(self) -> pd.DataFrame:
        """Return a row for each iteration: ``job, from_s, to_s, iteration_s, iterations``.

        The first one begins with its first task, each later one as the one before it ends, so that
        the wait for GPUs which other jobs use counts. ``iterations`` is 1.
        """
        found = pd.DataFrame(self._iterations, columns=["job", "from_s", "to_s"])
        return found.assign(iteration_s=found["to_s"] - found["from_s"], iterations=1.0)

    def tasks(self) -> pd.DataFrame:
        """Return a row for each task: ``job, gpu, task, start_s, end_s``; task 0 is forward.

        A GPU that a job holds and that is in none of its tasks waits.
        """
        return pd.DataFrame(self._tasks, columns=["job", "gpu", "task", "start_s", "end_s"])

    def transfers(self) -> pd.DataFrame:
        """Return a row for each stretch of a transfer: ``job, links, start_s, end_s, sharing``.

        ``sharing`` is the number of transfers on the busiest of its links, itself included.
        """
        return pd.DataFrame(self._sends, columns=["job", "links", "start_s", "end_s", "sharing"])
