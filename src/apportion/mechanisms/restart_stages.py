"""Stages of a restart as settings name them: container, init, load, or others, with seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apportion.checks import label, read_number, seconds
from apportion.errors import InputError, written

__all__ = ["stages_by_type"]

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
