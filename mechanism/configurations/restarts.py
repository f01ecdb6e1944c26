"""What it costs an elastic job to go on with other GPUs: stop and resume, AFE, EDL.

What it has done since its last checkpoint is lost when a GPU is called back.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from apportion.checks import choice
from apportion.resumable import Resumable
from apportion.table_checks import at_least_0
from apportion.ties import EXACT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike

    from apportion.mechanism.scheduler import GangProgress
    from apportion.types import Floats, Ints

    Price = Callable[[Floats, Floats, Floats, Floats], Floats]


def lost_seconds(
    restart: str,
    first_s: ArrayLike,
    rescale_s: ArrayLike,
    before: ArrayLike,
    after: ArrayLike,
) -> Floats:
    r"""Seconds for which a job makes no progress after a change, though it holds its GPUs.

    With :math:`f` = `first_s`, :math:`r` = `rescale_s`, from :math:`k` to :math:`k'` GPUs:

    =============== ======= ============================================== ======== =======
    ..              start   grow                                           shrink   move
    =============== ======= ============================================== ======== =======
    ``stop_resume`` f       f                                              f        f
    ``afe``         f       :math:`r + \lfloor (f - r)(k' - k)/k' \rfloor` r        f
    ``edl``         f       r                                              0        f
    =============== ======= ============================================== ======== =======

    Under ``afe`` the old workers wait for `r` and the new ones for `f`, which is booked as a pause
    of the whole gang that loses as many GPU-seconds, but for the fraction of a second that the
    released DeepBoot drops. Growth does not stop the old workers under ``edl``: they train on for
    `f` seconds while the new ones prepare (`apportion.mechanism.configurations.resizing`), and the
    gang waits for the broadcast, `r`, only. A
    move is a change of GPUs but not of their number. Sources: DeepBoot (IEEE TPDS 2023), section on
    AFE; EDL (Wu et al., IEEE TPDS 2022).

    Parameters
    ----------
    restart
        One of `RESTARTS`.
    first_s
        Seconds from nothing to the first step, as after a start.
    rescale_s
        Seconds that workers need to form another ring.
    before, after
        GPUs before (0 for a start) and after (0 for a stop, which takes none of its time); all
        arguments broadcast.

    Raises
    ------
    InputError
        For another word, and for seconds and GPUs that are not numbers >= 0.
    """
    price = RESTARTS[choice("restart", restart, RESTARTS)]
    given = {"first_s": first_s, "rescale_s": rescale_s, "before": before, "after": after}
    arrays = [at_least_0(name, value) for name, value in given.items()]
    first, rescale, old, new = np.broadcast_arrays(*arrays)
    as_new = (old == 0) | (old == new)
    lost_s = np.where(as_new, first, price(first, rescale, old, np.maximum(new, 1.0)))
    return np.where(new == 0, 0.0, lost_s)


def _stop_resume(first: Floats, rescale: Floats, old: Floats, new: Floats) -> Floats:
    return first


def _afe(first: Floats, rescale: Floats, old: Floats, new: Floats) -> Floats:
    wait = (first - rescale) * (np.maximum(new - old, 0.0) / new)
    return rescale + np.floor(wait + EXACT * np.maximum(np.abs(wait), 1.0))


def _edl(first: Floats, rescale: Floats, old: Floats, new: Floats) -> Floats:
    return np.where(new > old, rescale, 0.0)


RESTARTS: Mapping[str, Price] = MappingProxyType(
    {"stop_resume": _stop_resume, "afe": _afe, "edl": _edl}
)
"""Ways to go on with other GPUs, by name."""


class Checkpoints(Resumable):
    """Jobs save what they have after every so many seconds of work, and whenever workers change.

    Parameters
    ----------
    jobs
        How many there are.
    interval_s
        Seconds of work between two checkpoints, > 0; infinite for none in between.

    Attributes
    ----------
    since_s, steps
        Seconds of work, and steps, of each job since its last checkpoint, shape (jobs,).
    """

    kept = ("since_s", "steps")

    def __init__(self, jobs: int, interval_s: float) -> None:
        self._interval_s = interval_s
        self.since_s: Floats = np.zeros(jobs)
        self.steps: Floats = np.zeros(jobs)

    def worked(self, ran: GangProgress) -> None:
        """Take down what was done."""
        job, every = ran.gangs.job, self._interval_s
        total_s = self.since_s[job] + ran.worked_s
        with np.errstate(invalid="ignore"):
            past_s = np.where(total_s < every, total_s, total_s % every)
        # A checkpoint that is due but for rounding has been made.
        past_s = np.where(past_s >= every * (1 - EXACT), 0.0, past_s)
        saved = total_s >= every * (1 - EXACT)
        steps = np.where(saved, 0.0, self.steps[job] + ran.rate * ran.worked_s)
        self.steps[job] = np.where(saved, ran.rate * past_s, steps)
        self.since_s[job] = past_s

    def saved(self, jobs: Ints) -> None:
        """Let jobs have a checkpoint of now."""
        self.since_s[jobs] = self.steps[jobs] = 0.0
