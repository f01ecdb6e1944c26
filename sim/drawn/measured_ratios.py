"""How much faster models train on one GPU than on another, as was published.

Sources, mixed precision on both sides: the tables of training performance of NVIDIA's
DeepLearningExamples for PyTorch (github.com/NVIDIA/DeepLearningExamples, commit 729963d of April
2024; one GPU of a DGX A100, DGX-1 or DGX-2), and, for the H100, pairs of results of MLPerf Training
3.0 with as many GPUs in the same system of one vendor, as R. Lucchesi compared them (Silverton
Consulting, 12 July 2023).
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MEASURED_RATIOS", "measured_ratio", "model_of"]

MEASURED_RATIOS: Mapping[str, Mapping[tuple[str, str], float]] = MappingProxyType(
    {
        "resnet50": {("a100_80gb", "v100"): 2470 / 1200, ("h100", "a100_80gb"): 14.4 / 7.8},
        "bert": {("a100_80gb", "v100"): 580 / 224},
        "transformer": {("a100", "v100"): 82_059 / 39_911},
        "transformerxl": {("a100", "v100"): 59_961 / 36_692},
        "gnmt": {("a100", "v100"): 140_909 / 87_829},
        "ncf": {("a100", "v100"): 34.08 / 22.16},
        "dlrm": {("h100", "a100_80gb"): 8.4 / 4.3},
        "3dunet": {("h100", "a100_80gb"): 11.0 / 7.6},
    }
)
"""Speed on the first type over that on the second, by model."""

_SIZES = ("base", "large")


def model_of(job_type: str) -> str | None:
    """Return the name of the model in `MEASURED_RATIOS` that a job type trains; None for others.

    The batch size in brackets and the size of the model do not matter, nor does how it is spelt:
    ``"ResNet-50 (batch size 64)"``, ``"bert_large"``.
    """
    name = re.sub(r"[^a-z0-9]", "", job_type.lower().partition("(")[0])
    for size in _SIZES:
        name = name.removesuffix(size)
    return name if name in MEASURED_RATIOS else None


def measured_ratio(job_type: str, name: str, reference: str) -> float | None:
    """How many times as fast a job is on a type as on another, by measurements alone.

    Ratios are chained where nobody measured both: h100 over a100_80gb times a100_80gb over v100.

    Parameters
    ----------
    job_type
        Of which only the model counts, see `model_of`.
    name, reference
        Accelerator types.

    Returns
    -------
    float or None
        None where no measurements lead from one type to the other.
    """
    steps = MEASURED_RATIOS.get(model_of(job_type) or "", {})
    known, reached = {reference: 1.0}, [reference]
    for old in reached:
        for (fast, slow), ratio in steps.items():
            for here, there, times in ((slow, fast, ratio), (fast, slow, 1 / ratio)):
                if here == old and there not in known:
                    known[there] = known[old] * times
                    reached.append(there)
    return known.get(name)
