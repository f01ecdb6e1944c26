"""From the name of a job type to the model that it trains."""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["model_of"]

_OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {"bert": "BERT-large", "mobilenetv3small": "MobileNetV3"}
)
"""Models that are known under two names, by the second one without its punctuation."""


def model_of(job_type: str, known: Collection[str], *, kind: str = "ModelProfile") -> str:
    """Name of the model that a job type trains.

    A remark in parentheses, capitals and punctuation do not count: ``"ResNet-50 (batch size 64)"``,
    as Gavel writes it, is ``"ResNet50"``.

    Parameters
    ----------
    job_type
        As the workload spells it.
    known
        Names of the models to choose from.
    kind
        What one can add to them, as errors say it.

    Raises
    ------
    InputError
        If none of them is meant; it names them all and says how to add one.
    """
    by_letters = {_letters(name): name for name in known}
    letters = _letters(re.sub(r"\(.*\)", "", job_type))
    other = _letters(_OTHER_NAMES.get(letters, ""))
    model = by_letters.get(letters) or by_letters.get(other)
    if model is None:
        raise InputError(
            f"The job type {job_type!r} has no communication profile. Known: {', '.join(known)}. "
            f"Add one with profiles={{job_type: {kind}(...)}}."
        )
    return model


@lru_cache(maxsize=4096)
def _letters(name: str) -> str:
    """Letters and digits of a name, lower case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
