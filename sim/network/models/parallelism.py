"""What an iteration sends under each way of parallel training, and speeds as published."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from apportion.checks import listed, number, seconds, whole
from apportion.errors import InputError
from apportion.mechanism.time_shifts import CommunicationProfile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_HYBRID_PHASES = 6
_SILENT = (0, 2)


def data_parallel(
    name: str, *, forward_s: float, backward_s: float, gigabits: float, gbps: float
) -> CommunicationProfile:
    """Return the profile of data parallelism: silent forward and backward, then one all-reduce.

    Parameters
    ----------
    name
        Of the profile.
    forward_s, backward_s
        Compute, seconds.
    gigabits
        That the all-reduce sends over the link.
    gbps
        Gb/s at which it does.
    """
    silent_s = seconds("forward_s", forward_s) + seconds("backward_s", backward_s)
    return CommunicationProfile.in_turn(name, [(silent_s, 0.0), _sent("gigabits", gigabits, gbps)])


def pipeline_parallel(
    name: str,
    *,
    forward_s: float,
    backward_s: float,
    microbatches: int,
    activation_gigabits: float,
    embedding_gigabits: float,
    gbps: float,
) -> CommunicationProfile:
    """Return the profile of a pipeline: bursts of activations, then a large all-reduce.

    Each microbatch sends its activations forward and their gradients backward; the all-reduce is
    of the embedding, which the first and the last stage share.

    Parameters
    ----------
    name
        Of the profile.
    forward_s, backward_s
        Seconds of all microbatches together; bursts lie within them.
    microbatches
        Of an iteration.
    activation_gigabits
        Of one microbatch; its gradient is as large.
    embedding_gigabits
        That the all-reduce sends.
    gbps
        Gb/s at which all is sent.

    Raises
    ------
    InputError
        If a microbatch takes longer to send than to compute.
    """
    count = whole("microbatches", microbatches, 1)
    burst_s, rate = _sent("activation_gigabits", activation_gigabits, gbps)
    phases: list[tuple[float, float]] = []
    for what, pass_s in (("forward_s", forward_s), ("backward_s", backward_s)):
        each_s = seconds(what, pass_s) / count
        if burst_s > each_s * (1 + 1e-12):
            raise InputError(
                f"{name!r} sends the activations of a microbatch for {burst_s:g} s and computes "
                f"for {each_s:g} s ({what}); sending must not take longer."
            )
        phases += [(max(0.0, each_s - burst_s), 0.0), (burst_s, rate)] * count
    phases.append(_sent("embedding_gigabits", embedding_gigabits, gbps))
    return CommunicationProfile.in_turn(name, phases)


def tensor_parallel(
    name: str,
    *,
    loading_s: float,
    forward_s: float,
    backward_s: float,
    forward_gbps: float,
    backward_gbps: float,
) -> CommunicationProfile:
    """Return the profile of tensor parallelism: traffic all through forward and backward.

    Parameters
    ----------
    name
        Of the profile.
    loading_s
        Seconds between iterations in which data are loaded and nothing is sent.
    forward_s, backward_s
        Seconds of the two passes.
    forward_gbps, backward_gbps
        Gb/s wanted in them.
    """
    phases = [(loading_s, 0.0), (forward_s, forward_gbps), (backward_s, backward_gbps)]
    return CommunicationProfile.in_turn(name, phases)


def hybrid_parallel(
    name: str, *, phases_s: Sequence[float], gbps: Sequence[float]
) -> CommunicationProfile:
    """Return the profile of 3D parallelism: six phases, the first and the third silent.

    Parameters
    ----------
    name
        Of the profile.
    phases_s
        Seconds of the six phases.
    gbps
        Gb/s of the second, fourth, fifth and sixth.

    Raises
    ------
    InputError
        If there are not six phases and four rates.
    """
    lengths, rates = listed("phases_s", phases_s), listed("gbps", gbps)
    if len(lengths) != _HYBRID_PHASES or len(rates) != _HYBRID_PHASES - len(_SILENT):
        raise InputError(
            f"{name!r} has {len(lengths)} phases_s and {len(rates)} gbps; there must be 6 and 4."
        )
    for place in _SILENT:
        rates.insert(place, 0.0)
    return CommunicationProfile.in_turn(name, list(zip(lengths, rates, strict=True)))


def _sent(what: str, gigabits: float, gbps: float) -> tuple[float, float]:
    """Seconds and rate of a message at the full rate."""
    rate = number("gbps", gbps, strict=True)
    return number(what, gigabits) / rate, rate


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
