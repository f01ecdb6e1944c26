"""Models that are trained: seconds of their passes, bytes that they all-reduce, memory."""

from __future__ import annotations

from dataclasses import dataclass

from apportion.checks import number
from apportion.errors import InputError
from apportion.names import model_of
from apportion.registry import Registry
from apportion.sim.network.models.table_i import model_profiles
from apportion.sim.network.models.table_iii import TABLE_III, table_iii_profiles
from apportion.sim.network.profile import ModelProfile


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
