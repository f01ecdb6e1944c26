"""A model of goodput: how long a training step takes, and what a larger batch is worth."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from apportion.annotations import explained
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import ArrayLike

    from apportion.types import Floats, Int64s


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
        self, gpus: ArrayLike, nodes: ArrayLike, local_batch: ArrayLike, accumulation: ArrayLike = 0
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
        self, gpus: ArrayLike, nodes: ArrayLike, local_batch: ArrayLike, accumulation: ArrayLike = 0
    ) -> Floats:
        """Return samples per second."""
        samples = np.asarray(gpus) * np.asarray(local_batch) * (np.asarray(accumulation) + 1.0)
        return np.asarray(samples / self.step_s(gpus, nodes, local_batch, accumulation))

    @staticmethod
    def stacked(rows: Iterable[StepTimes]) -> StepTimes:
        """Step times of several jobs in columns, shape (jobs, 1), to broadcast against options."""
        table = np.array([astuple(row) for row in rows], dtype=np.float64)
        return StepTimes(*(column[:, None] for column in table.T))


def _out_of_range(name: str, value: object) -> InputError:
    valid = f"a number from 1 to {MOST_OVERLAP:g}" if name == "gamma" else "a number >= 0"
    return InputError(f"{name} of the step times is {written(value)}; it must be {valid}.")


def noise_scale(initial_batch: ArrayLike, squared_norm: ArrayLike, variance: ArrayLike) -> Floats:
    r"""Gradient noise scale :math:`\varphi = M_0 \cdot var / sqr`, in samples.

    Parameters
    ----------
    initial_batch
        The batch :math:`M_0` that the job was tuned for, samples; the variance is that of the mean
        gradient of one such batch.
    squared_norm, variance
        Squared norm of the mean gradient, and variance of the gradient, in one unit. Estimates may
        come out below 0; they count as 0.

    Returns
    -------
    ndarray
        The broadcast shape; infinite where only the squared norm is 0: every sample is worth the
        same. 0 where both are: of a gradient of which nothing is known, no gain is promised.

    Raises
    ------
    InputError
        For a batch that is not > 0, and what is no number.
    """
    batch = np.asarray(initial_batch, dtype=np.float64)
    sqr = np.maximum(np.asarray(squared_norm, dtype=np.float64), 0.0)
    var = np.maximum(np.asarray(variance, dtype=np.float64), 0.0)
    if not np.all(batch > 0) or np.isnan(sqr + var).any():
        raise InputError(
            "A gradient noise scale needs initial batches > 0 and gradient statistics that are "
            "numbers."
        )
    batch, sqr, var = np.broadcast_arrays(batch, sqr, var)
    ratio = np.divide(var, sqr, out=np.where(var > 0, np.inf, 0.0), where=sqr > 0)
    return batch * ratio


def gain(batch: ArrayLike, initial_batch: ArrayLike, noise: ArrayLike) -> Floats:
    r"""Progress of one step in steps of the initial batch, from 1 up (AdaScale's gain).

    .. math:: r(M) = \frac{M}{M_0} \cdot \frac{\varphi + M_0}{\varphi + M}

    For an infinite noise scale it is :math:`M / M_0`. Multiply a learning rate tuned for the
    initial batch by it under plain stochastic gradient descent.
    """
    samples, first = np.asarray(batch, dtype=float), np.asarray(initial_batch, dtype=float)
    return np.asarray(samples / first * efficiency(samples, first, noise))


def efficiency(batch: ArrayLike, initial_batch: ArrayLike, noise: ArrayLike) -> Floats:
    r"""Progress per sample relative to the initial batch, :math:`(\varphi + M_0)/(\varphi + M)`.

    Parameters
    ----------
    batch, initial_batch
        Samples per step, and those that the job was tuned for.
    noise
        Gradient noise scale :math:`\varphi`, samples, see `noise_scale`.

    Returns
    -------
    ndarray
        1 at the initial batch, less above it; 1 for every batch under infinite noise.
    """
    samples, first = np.asarray(batch, dtype=float), np.asarray(initial_batch, dtype=float)
    scale = np.asarray(noise, dtype=float)
    finite = np.isfinite(scale)
    known = np.where(finite, scale, 0.0)
    return np.where(finite, (known + first) / (known + samples), 1.0)


def checked_gangs(gpus: ArrayLike, nodes: ArrayLike) -> tuple[Int64s, Int64s]:
    """Return GPUs and nodes of gangs as whole numbers of one shape.

    Raises
    ------
    InputError
        For what is not a whole number >= 1, or more nodes than GPUs.
    """
    given = np.broadcast_arrays(np.asarray(gpus, dtype=float), np.asarray(nodes, dtype=float))
    for name, values in zip(("GPUs", "nodes"), given, strict=True):
        wrong = ~((values >= 1) & (values == np.floor(values)) & np.isfinite(values))
        if wrong.any():
            raise InputError(
                f"A gang of {values[wrong][0]:g} {name}; it must be a whole number >= 1."
            )
    if (given[1] > given[0]).any():
        where = np.unravel_index(np.argmax(given[1] > given[0]), given[0].shape)
        raise InputError(
            f"A gang of {given[0][where]:g} GPUs on {given[1][where]:g} nodes; it must have a GPU "
            f"on each."
        )
    return given[0].astype(np.int64), given[1].astype(np.int64)


@dataclass(frozen=True)
class StepObservations:
    """Seconds that steps took, one entry per measurement.

    Parameters
    ----------
    gpus, nodes
        On which the step ran.
    local_batch
        Samples per GPU and gradient.
    gradient_s
        Seconds of a gradient without synchronisation, as accumulation steps take.
    step_s
        Seconds of a gradient with its synchronisation.

    Raises
    ------
    InputError
        For no measurements, lists of different lengths, and values that are not > 0.
    """

    gpus: ArrayLike
    nodes: ArrayLike
    local_batch: ArrayLike
    gradient_s: ArrayLike
    step_s: ArrayLike

    @explained
    def __post_init__(self) -> None:
        names = [field.name for field in fields(self)]
        values = [np.asarray(getattr(self, name), dtype=np.float64) for name in names]
        if len({each.shape for each in values}) > 1 or values[0].ndim != 1 or not values[0].size:
            shapes = ", ".join(f"{n} {v.shape}" for n, v in zip(names, values, strict=True))
            raise InputError(
                f"Measured steps are lists of one length, at least one long; they are {shapes}."
            )
        for name, each in zip(names, values, strict=True):
            wrong = ~((each > 0) & np.isfinite(each))
            if wrong.any():
                raise InputError(
                    f"{name} of measured step {int(np.argmax(wrong))} is {each[wrong][0]:g}; it "
                    f"must be a number > 0."
                )
            object.__setattr__(self, name, each)
        checked_gangs(self.gpus, self.nodes)
