"""Labels for the rows of the core: jobs and combinations that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.core import RoundCore

    Floats = NDArray[np.float64]
    Label = tuple[Hashable, ...]

__all__ = ["LabelledRows"]


class LabelledRows:
    """Keeps one row of the core per job, and one per combination that has a share or still runs.

    Parameters
    ----------
    core
        The core whose rows these are.
    accelerators
        Names of its types.

    Attributes
    ----------
    labels
        The jobs of each row of the core, in its order.
    scale
        GPUs of each job, in order of submission.
    """

    def __init__(self, core: RoundCore, accelerators: Sequence[str]) -> None:
        self.core = core
        self.accelerators = accelerators
        self.labels: list[Label] = []
        self.scale: dict[Hashable, int] = {}

    def position(self) -> dict[frozenset[Hashable], int]:
        """Row of each combination, in whatever order its jobs are named."""
        return {frozenset(label): row for row, label in enumerate(self.labels)}

    def add(self, scale: Mapping[Hashable, int]) -> None:
        """Take in jobs with their GPUs; a known one that changes them loses its devices."""
        resized = {job for job, gpus in scale.items() if self.scale.get(job, gpus) != gpus}
        touched = [not resized.isdisjoint(label) for label in self.labels]
        self.core.evict(np.flatnonzero(np.array(touched, dtype=bool) & (self.core.last_type >= 0)))
        new = [(job,) for job in scale if job not in self.scale]
        self.scale |= scale
        self._append(new)
        self._describe()

    def lend(self, jobs: Sequence[Hashable], speed: Floats) -> None:
        """Set where single jobs can run, shape (jobs, types)."""
        position = self.position()
        rows = [position[frozenset((job,))] for job in jobs]
        self.core.speed[rows] = speed
        self._describe()

    def aim(self, labels: Sequence[Label], shares: Floats, speed: Floats) -> None:
        """Set shares and where rows can run, shape (labels, types); other rows have no share."""
        wanted = {frozenset(label) for label in labels}
        self._keep(len(label) == 1 or frozenset(label) in wanted for label in self.labels)
        position = self.position()
        self._append([label for label in labels if frozenset(label) not in position])
        position = self.position()
        rows = [position[frozenset(label)] for label in labels]
        target = np.zeros_like(self.core.target)
        target[rows] = shares
        self.core.speed[[len(label) > 1 for label in self.labels]] = 0.0
        self.core.speed[rows] = speed
        self.core.aim(target)
        self._describe()

    def remove(self, jobs: Iterable[Hashable]) -> None:
        """Forget jobs; a combination that runs stays until its devices are handed on."""
        for job in jobs:
            del self.scale[job]
        whole = [all(job in self.scale for job in label) for label in self.labels]
        broken = ~np.array(whole, dtype=bool)
        self.core.target[broken] = self.core.speed[broken] = 0.0
        self._keep(whole)
        self._describe()

    def _append(self, labels: Sequence[Label]) -> None:
        self.labels += labels
        blank = np.zeros((len(labels), self.core.capacity.size))
        self.core.append(blank, np.zeros(len(labels)))

    def _keep(self, wanted: Iterable[bool]) -> None:
        """Drop the rows that are not wanted, but for running combinations with a known job."""
        running = self.core.last_type >= 0
        mask = [
            want or (len(label) > 1 and bool(runs) and any(job in self.scale for job in label))
            for want, label, runs in zip(wanted, self.labels, running, strict=True)
        ]
        self.core.keep(np.array(mask, dtype=bool))
        self.labels = [label for label, stays in zip(self.labels, mask, strict=True) if stays]

    def _describe(self) -> None:
        """Tell the core the GPUs and jobs of its rows, and that large gangs fit nowhere small."""
        number = {job: k for k, job in enumerate(self.scale)}
        known = [[job for job in label if job in number] for label in self.labels]
        width = max(map(len, self.labels), default=1)
        slots = [[number[job] for job in (jobs * width)[:width]] for jobs in known]
        self.core.scale = np.array([self.scale[jobs[0]] for jobs in known], dtype=np.intp)
        self.core.speed[self.core.scale[:, None] > self.core.capacity] = 0.0
        self.core.combine(np.array(slots, dtype=np.intp).reshape(-1, width))
