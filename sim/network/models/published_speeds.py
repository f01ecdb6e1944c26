"""Samples per second of the models of CASSINI's evaluation, as they are published."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PUBLISHED_SPEEDS", "PublishedSpeed"]


class PublishedSpeed(NamedTuple):
    """How fast one GPU trains a model.

    Attributes
    ----------
    samples_per_s
        On one GPU; None where no figure was found: seconds are then derived from multiply-adds.
    gpu, precision, batch
        That it was measured with; 0 for a batch that is not told.
    source
        Of the figure.
    assumed
        Why it is not this model's own published figure; empty where it is.
    """

    samples_per_s: float | None
    gpu: str = ""
    precision: str = ""
    batch: int = 0
    source: str = ""
    assumed: str = ""


_TIMM = "huggingface/pytorch-image-models, results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv"
_BERT = "NVIDIA, BERT for PyTorch, 19.07, training performance of one GPU of a DGX-1, 512 tokens"
_NONE = PublishedSpeed(None, assumed="no figure found; 0.4 of the peak of an A100")


def _image(samples_per_s: float, batch: int) -> PublishedSpeed:
    return PublishedSpeed(samples_per_s, "RTX 3090", "mixed", batch, _TIMM)


PUBLISHED_SPEEDS: Mapping[str, PublishedSpeed] = MappingProxyType(
    {
        "VGG11": _image(954.03, 512),
        "VGG16": _image(546.06, 384),
        "VGG19": _image(457.37, 384),
        "ResNet50": _image(1218.01, 512),
        "WideResNet101": _image(358.56, 192),
        "BERT": PublishedSpeed(30.08, "V100 32 GB", "mixed", 8, _BERT),
        "RoBERTa": PublishedSpeed(
            30.08, "V100 32 GB", "mixed", 8, _BERT, "that of BERT-large, whose blocks it has"
        ),
        "XLM": _NONE,
        "CamemBERT": _NONE,
        "GPT-1": _NONE,
        "GPT-2": PublishedSpeed(
            8 / 1.288 * 1.2 / 1.542,
            "V100 32 GB",
            "mixed",
            8,
            "NVIDIA, MegatronLM's Supercharged V1.0: 1.2e9 parameters, 1,288 ms an iteration",
            "that of 1.2e9 parameters, times 1.2 / 1.542",
        ),
        "GPT-3": _NONE,
        "DLRM": _NONE,
    }
)
"""By model. Times scale with the batch: a batch below the measured one is slower than told."""
