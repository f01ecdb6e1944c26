"""What a start costs by model, as it was measured, and the stages of a restart.

Comparisons charge it where nobody says another cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from apportion.checks import label, read_number, seconds
from apportion.errors import InputError, written

_EVERY = "others"


def stages_by_type(given: Any) -> dict[str, dict[str, float]]:
    """Return the seconds of each stage by application, ``"others"`` for those that are not named.

    Parameters
    ----------
    given
        ``"container=12,init=8,load=10"``, a mapping from stages to seconds, or one of these by
        application.

    Raises
    ------
    InputError
        If it is none of these, no stage is named, or applications have other stages.
    """
    if isinstance(given, Mapping) and any(isinstance(each, Mapping) for each in given.values()):
        found = {str(name): _stages(each) for name, each in given.items()}
    else:
        found = {_EVERY: _stages(given)}
    stages = list(next(iter(found.values())))
    for name, each in found.items():
        if list(each) != stages:
            raise InputError(
                f"restart_stages has the stages {', '.join(each)} for {name!r}; they must be those "
                f"of the first, {', '.join(stages)}."
            )
    return found


def _stages(given: Any) -> dict[str, float]:
    if isinstance(given, str):
        parts = [part.partition("=") for part in given.split(",")]
        given = {name.strip(): read_number(value.strip()) for name, _, value in parts}
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            f"restart_stages is {written(given)}; it must be seconds by stage, such as "
            f"'container=12,init=8,load=10'."
        )
    return {
        label("stage", stage): seconds(f"restart_stages[{stage!r}]", value)
        for stage, value in given.items()
    }


MEASURED = "measured"
"""Stands for the seconds of `measured_start_s`, in place of numbers by job type."""

RESTART_S: Mapping[str, float] = MappingProxyType(
    {
        "bert": 103.0,
        "imagenet": 35.0,
        "yolov3": 26.0,
        "ncf": 25.0,
        "cifar10": 24.0,
        "deepspeech2": 18.0,
    }
)
"""Seconds of a restart by application: container, libraries, data and model, as DeepBoot measured
them on its testbed."""

UNMEASURED_S = 30.0
"""Seconds of a restart of all other models: what Pollux's simulator (OSDI 2021) reckons with.

Others reckon with more: Sia's released code with 20 to 250 s by application."""

_SAME_MODEL: Mapping[str, str] = MappingProxyType(
    {"resnet-50": "imagenet", "resnet-18": "cifar10", "recommendation": "ncf"}
)
"""Applications that train the models of Gavel's job types: ResNets, and recommendation."""


def measured_start_s(job_type: str) -> float:
    """Return what a start costs a job, seconds: `RESTART_S` of its model, else `UNMEASURED_S`.

    Parameters
    ----------
    job_type
        With or without a batch size: ``"ResNet-50 (batch size 64)"``, ``"bert"``.
    """
    model = job_type.partition(" (")[0].lower()
    return RESTART_S.get(_SAME_MODEL.get(model, model), UNMEASURED_S)


def multiplied(seconds: Any, times: float, job_types: Iterable[str]) -> dict[str, float]:
    """Return by job type what a start costs if it costs some times as much.

    Parameters
    ----------
    seconds
        A number, numbers by job type, or `MEASURED`.
    times
        As much as that.
    job_types
        Of the jobs; ``"others"`` stays where it is given.
    """
    if isinstance(seconds, Mapping):
        return {kind: times * each for kind, each in seconds.items()}
    kinds = sorted(set(job_types))
    if seconds == MEASURED:
        return {kind: times * measured_start_s(kind) for kind in kinds}
    return {"others": times * float(seconds)}
