"""How long one training step takes: constants and slopes of compute and synchronisation."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from apportion.types import Floats


MOST_OVERLAP = 10.0
"""Largest gamma: the norm is then nearly the larger of its two parts."""


@dataclass(frozen=True)
class StepTimes:
    r"""Seconds of a training step, as Pollux models it (Qiao et al., OSDI 2021, section 3.2).

    With :math:`m` samples per GPU, :math:`K` GPUs on :math:`n` nodes and :math:`s` accumulation
    steps before each synchronisation,

    .. math:: T_{grad} = \alpha_c + \beta_c m, \qquad
              T_{sync} = 0,\ \alpha_r + \beta_r (K - 2)\ (n = 1)\ \text{or}\
                         \alpha_n + \beta_n (K - 2)\ (n > 1)

    .. math:: T_{iter} = s\,T_{grad} + (T_{grad}^\gamma + T_{sync}^\gamma)^{1/\gamma}

    and the throughput is :math:`K m (s + 1) / T_{iter}` samples/s.

    Parameters
    ----------
    alpha_c, beta_c
        Gradient of one batch on one GPU: s, and s per sample.
    alpha_n, beta_n
        Synchronisation over several nodes: s of two GPUs, and s for each further GPU.
    alpha_r, beta_r
        The same within one node.
    gamma
        Overlap of compute and synchronisation, 1 (none) to 10 (nearly whole).

    Each is a number, or an array of them where several jobs are asked at once; arguments of the
    methods broadcast against it.

    Raises
    ------
    InputError
        For a parameter that is out of range or no number, or a gradient that takes no time.
    """

    alpha_c: float | Floats
    beta_c: float | Floats
    alpha_n: float | Floats = 0.0
    beta_n: float | Floats = 0.0
    alpha_r: float | Floats = 0.0
    beta_r: float | Floats = 0.0
    gamma: float | Floats = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            given = getattr(self, field.name)
            try:
                values = np.asarray(given, dtype=np.float64)
            except (TypeError, ValueError, OverflowError) as error:
                raise _out_of_range(field.name, given) from error
            least, most = (1.0, MOST_OVERLAP) if field.name == "gamma" else (0.0, np.inf)
            wrong = ~((values >= least) & (values <= most) & np.isfinite(values))
            if wrong.any():
                raise _out_of_range(field.name, values[wrong].flat[0])
            object.__setattr__(self, field.name, values)
        if np.any(self.gradient_s(1) <= 0):
            raise InputError("alpha_c and beta_c are both 0; a gradient must take some time.")

    def gradient_s(self, local_batch: ArrayLike) -> Floats:
        """Seconds of one gradient of so many samples on each GPU."""
        return np.asarray(self.alpha_c + self.beta_c * np.asarray(local_batch, dtype=float))

    def synchronisation_s(self, gpus: ArrayLike, nodes: ArrayLike) -> Floats:
        """Seconds of one synchronisation of so many GPUs on so many nodes."""
        further = np.maximum(np.asarray(gpus) - 2.0, 0.0)
        local = np.asarray(self.alpha_r + self.beta_r * further)
        across = np.asarray(self.alpha_n + self.beta_n * further)
        apart = np.where(np.asarray(nodes) > 1, across, local)
        return np.where(np.asarray(gpus) > 1, apart, 0.0)

    def step_s(
        self,
        gpus: ArrayLike,
        nodes: ArrayLike,
        local_batch: ArrayLike,
        accumulation: ArrayLike = 0,
    ) -> Floats:
        """Seconds from one synchronisation to the next, with so many accumulation steps between."""
        gradient = self.gradient_s(local_batch)
        alone = self.joint_s(gradient, self.synchronisation_s(gpus, nodes))
        return np.asarray(np.asarray(accumulation) * gradient + alone)

    def joint_s(self, gradient_s: Floats, synchronisation_s: Floats) -> Floats:
        """Seconds of a gradient and a synchronisation that overlap."""
        longer = np.maximum(gradient_s, synchronisation_s)
        ratio = np.minimum(gradient_s, synchronisation_s) / longer
        # Scaled by the longer part: powers of seconds would lose what is small, or overflow.
        return np.asarray(longer * (1.0 + ratio**self.gamma) ** (1.0 / np.asarray(self.gamma)))

    def throughput(
        self,
        gpus: ArrayLike,
        nodes: ArrayLike,
        local_batch: ArrayLike,
        accumulation: ArrayLike = 0,
    ) -> Floats:
        """Return samples per second."""
        samples = np.asarray(gpus) * np.asarray(local_batch) * (np.asarray(accumulation) + 1.0)
        return np.asarray(samples / self.step_s(gpus, nodes, local_batch, accumulation))

    def scaled(self, factor: ArrayLike) -> StepTimes:
        """Step times that are all so many times as long, as on a slower accelerator."""
        times = [values * np.asarray(factor) for values in astuple(self)[:-1]]
        return StepTimes(*[*times, self.gamma])

    @staticmethod
    def stacked(rows: Iterable[StepTimes]) -> StepTimes:
        """Step times of several jobs in columns, shape (jobs, 1), to broadcast against options."""
        table = np.array([astuple(row) for row in rows], dtype=np.float64)
        return StepTimes(*(column[:, None] for column in table.T))


def _out_of_range(name: str, value: object) -> InputError:
    valid = f"a number from 1 to {MOST_OVERLAP:g}" if name == "gamma" else "a number >= 0"
    return InputError(f"{name} of the step times is {written(value)}; it must be {valid}.")
