"""Models as they are trained, and Table III of Wang et al.: four of them as measured on a V100."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from apportion.checks import number, whole
from apportion.errors import InputError
from apportion.names import model_of
from apportion.registry import Registry
from apportion.sim.network.models.table_i import model_profiles
from apportion.sim.network.profile import Exchange, Layer, ModelProfile

if TYPE_CHECKING:
    from collections.abc import Mapping


V100_FLOPS = 14e12
"""Peak single-precision FLOP/s of the GPUs on which Table III was measured."""


@dataclass(frozen=True)
class TableIII:
    """A row of Table III of Wang et al., measured on a V100.

    Parameters
    ----------
    megabytes
        Of the gradient.
    memory_mb
        Of a GPU.
    batch
        Batch size of a worker.
    forward_s, backward_s
        Seconds of the two passes.
    """

    megabytes: float
    memory_mb: float
    batch: int
    forward_s: float
    backward_s: float

    def passes_s(
        self, batch: int | None = None, peak_flops: float = V100_FLOPS
    ) -> tuple[float, float]:
        """Return the seconds of the passes for another batch and another GPU.

        ``t_f = lambda_f B / P`` and ``t_b = lambda_b B / P`` (Equations 3 and 4), where B is the
        batch size, P the peak FLOP/s, and the lambdas follow from the table.

        Raises
        ------
        InputError
            For a batch below 1, or FLOP/s that are not above 0.
        """
        size = self.batch if batch is None else whole("batch", batch, 1)
        factor = size / self.batch * V100_FLOPS / number("peak_flops", peak_flops, strict=True)
        return self.forward_s * factor, self.backward_s * factor


TABLE_III: Mapping[str, TableIII] = MappingProxyType(
    {
        "VGG-16": TableIII(526.4, 4527, 16, 0.0358, 0.0537),
        "ResNet-50": TableIII(99.2, 3213, 16, 0.0250, 0.0374),
        "Inception-V3": TableIII(103.0, 3291, 16, 0.0349, 0.0524),
        "LSTM-PTB": TableIII(251.8, 2751, 64, 0.0315, 0.0473),
    }
)
"""Table III by model."""


def table_iii_profiles() -> Mapping[str, ModelProfile]:
    """Return a profile of one layer for each model of the table."""
    profiles = {}
    for name, row in TABLE_III.items():
        exchange = Exchange("all_reduce", row.megabytes * 1e6)
        layer = Layer("all of it", row.forward_s, 0.0, row.backward_s, exchange)
        profiles[name] = ModelProfile(name, (layer,))
    return MappingProxyType(profiles)


@dataclass(frozen=True)
class TrainedModel:
    """What a job of this model does in an iteration, and the memory that it takes.

    Parameters
    ----------
    profile
        Compute and gradients, layer by layer. Compute is scaled to the job's throughput.
    memory_gb
        Memory of each GPU, GB of 2^30 bytes; 0 for all of it.
    """

    profile: ModelProfile
    memory_gb: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.profile, ModelProfile):
            raise InputError(f"profile is {self.profile!r}; it must be a ModelProfile.")
        number("memory_gb", self.memory_gb)


TRAINED: Registry[TrainedModel] = Registry(
    "trained model",
    "apportion.trained_models",
    {
        **{
            name: TrainedModel(profile)
            for name, profile in model_profiles().items()
            if name != "ResNet50"
        },
        **{
            name: TrainedModel(profile, TABLE_III[name].memory_mb / 1024)
            for name, profile in table_iii_profiles().items()
        },
    },
    lambda value: isinstance(value, TrainedModel),
)
"""Models by name; one of one's own is added by assigning it. Those of Table III are one layer."""


def trained(job_type: str) -> TrainedModel:
    """Return the model that a job type trains; capitals, punctuation and remarks do not count.

    Raises
    ------
    InputError
        If none is known by that name; it says which are.
    """
    if job_type in TRAINED:
        return TRAINED[job_type]
    try:
        return TRAINED[model_of(job_type, TRAINED)]
    except InputError as error:
        raise InputError(
            f"Nobody knows what jobs of type {job_type!r} send. Known: {', '.join(TRAINED)}. Add "
            f"it: TRAINED[{job_type!r}] = TrainedModel(ModelProfile(...), memory_gb)."
        ) from error
