"""Samples per second of the models of CASSINI's evaluation, as they are published."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class PublishedSpeed(NamedTuple):
    """How fast one GPU trains a model.

    Attributes
    ----------
    samples_per_s
        On one GPU.
    gpu, precision, batch
        That it was measured with; 0 for a batch that is not that of one GPU.
    source
        Of the figure.
    assumed
        Why it is not this model's own published figure; empty where it is.
    """

    samples_per_s: float
    gpu: str
    precision: str
    batch: int
    source: str
    assumed: str = ""


_TIMM = "huggingface/pytorch-image-models, results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv"
_BERT = "NVIDIA, BERT for PyTorch, 19.07, training performance of one GPU of a DGX-1, 512 tokens"
_BASE = "NVIDIA, BioBERT for TensorFlow, 19.08, pre-training of BERT-base on a DGX-1, 512 tokens"
_DLRM = "NVIDIA, DLRM for PyTorch, April 2020, training performance of one GPU of a DGX-1"
_GPT_3 = "Narayanan et al., SC 2021, section 5.1: 140 teraFLOP/s a GPU, eight FLOPs a parameter"
_OF_BASE = "that of BERT-base on one of eight GPUs, whose blocks it has"
_OF_LARGE = "that of BERT-large, whose blocks it has"


def _image(samples_per_s: float, batch: int) -> PublishedSpeed:
    return PublishedSpeed(samples_per_s, "RTX 3090", "mixed", batch, _TIMM)


def _v100(samples_per_s: float, source: str, assumed: str = "", gb: int = 32) -> PublishedSpeed:
    return PublishedSpeed(samples_per_s, f"V100 {gb} GB", "mixed", 8, source, assumed)


PUBLISHED_SPEEDS: Mapping[str, PublishedSpeed] = MappingProxyType(
    {
        "VGG11": _image(954.03, 512),
        "VGG16": _image(546.06, 384),
        "VGG19": _image(457.37, 384),
        "ResNet50": _image(1218.01, 512),
        "WideResNet101": _image(358.56, 192),
        "BERT": _v100(30.08, _BERT),
        "RoBERTa": _v100(30.08, _BERT, _OF_LARGE),
        "XLM": _v100(
            30.08 * (340 * 512) / (570 * 256),
            _BERT,
            "that of BERT-large, by parameters and tokens of a sample",
        ),
        "CamemBERT": _v100(432.33 / 8, _BASE, _OF_BASE, gb=16),
        "GPT-1": _v100(432.33 / 8, _BASE, _OF_BASE, gb=16),
        "GPT-2": _v100(
            8 / 1.288 * 1.2 / 1.542,
            "NVIDIA, MegatronLM's Supercharged V1.0: 1.2e9 parameters, 1,288 ms an iteration",
            "that of 1.2e9 parameters, times 1.2 / 1.542",
        ),
        "GPT-3": PublishedSpeed(
            140e12 / (8 * 1.511e10 * 2048),
            "A100 80 GB",
            "mixed",
            0,
            _GPT_3,
            "that of 175e9 parameters on 1,024 GPUs, messages and recomputation counted",
        ),
        "DLRM": PublishedSpeed(875e3, "V100 32 GB", "mixed", 32_768, _DLRM),
    }
)
"""By model. Times scale with the batch: a batch below the measured one is slower than told."""
