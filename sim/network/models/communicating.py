"""Communication profiles of the thirteen models of CASSINI's evaluation, from their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from apportion.checks import choice, number, seconds, whole
from apportion.errors import InputError
from apportion.sim.network.models.parallelism import (
    PUBLISHED_SPEEDS,
    data_parallel,
    hybrid_parallel,
    pipeline_parallel,
    tensor_parallel,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.mechanism.time_shifts import CommunicationProfile

PARALLELISMS = ("data", "pipeline", "tensor", "hybrid")
"""Ways of training in parallel that have a template."""

_PEAK_FLOPS = MappingProxyType({4: 156e12, 2: 312e12})
"""Of an A100 with TF32 and 16-bit numbers, by bytes (NVIDIA A100 data sheet)."""

_REACHED = 0.4
"""Part of the peak that training reaches: an assumption, as models differ."""

_MICROBATCHES = 4
_LOADING = 0.1
"""Part of the compute time in which tensor parallelism loads data: an assumption."""


@dataclass(frozen=True)
class CommunicatingModel:
    """A model as its papers describe it.

    Attributes
    ----------
    parallelism
        How it is trained by default, out of `PARALLELISMS`.
    parameters
        Number of them.
    multiply_adds
        Of the forward pass of one sample.
    batch
        Samples of an iteration on each GPU: an assumption.
    source
        Of the numbers.
    bytes_per_number
        Of a parameter, a gradient, an activation.
    largest
        Parameters of the largest tensor.
    tokens, blocks, width, vocabulary
        Of a transformer; 0 for other models.
    lookup_bytes
        Of embeddings that a sample looks up on other GPUs, in a recommendation model.
    """

    parallelism: str
    parameters: float
    multiply_adds: float
    batch: int
    source: str
    largest: float
    bytes_per_number: int = 4
    tokens: int = 0
    blocks: int = 0
    width: int = 0
    vocabulary: int = 0
    lookup_bytes: float = 0.0


def _image(
    parameters: float, multiply_adds: float, largest: float, source: str
) -> CommunicatingModel:
    return CommunicatingModel("data", parameters, multiply_adds, 64, source, largest)


def _language(
    parallelism: str,
    parameters: float,
    shape: tuple[int, int, int, int],
    batch: int,
    source: str,
    bytes_per_number: int = 4,
) -> CommunicatingModel:
    """Return a transformer: a multiply-add for each parameter and token."""
    multiply_adds, largest = parameters * shape[0], float(shape[2] * shape[3])
    return CommunicatingModel(
        parallelism, parameters, multiply_adds, batch, source, largest, bytes_per_number, *shape
    )


_TORCHVISION = "; parameters and multiply-adds as torchvision's weights have them"
_VGG = f"Simonyan and Zisserman, ICLR 2015, tables 1 and 2{_TORCHVISION}"
_VGG_LARGEST = 512.0 * 7**2 * 4096  # of the first layer behind the convolutions
_GPT3_BLOCKS, _GPT3_WIDTH, _GPT3_VOCABULARY = 8, 12288, 50257
_GPT3_PARAMETERS = 12.0 * _GPT3_BLOCKS * _GPT3_WIDTH**2 + _GPT3_VOCABULARY * _GPT3_WIDTH

COMMUNICATING_MODELS: Mapping[str, CommunicatingModel] = MappingProxyType(
    {
        "VGG11": _image(132.9e6, 7.61e9, _VGG_LARGEST, _VGG),
        "VGG16": _image(138.4e6, 15.47e9, _VGG_LARGEST, _VGG),
        "VGG19": _image(143.7e6, 19.63e9, _VGG_LARGEST, _VGG),
        "ResNet50": _image(
            25.6e6, 4.09e9, 9.0 * 512**2, f"He et al., CVPR 2016, table 1{_TORCHVISION}"
        ),
        "WideResNet101": _image(
            126.9e6,
            22.75e9,
            9.0 * 1024**2,
            f"Zagoruyko and Komodakis, BMVC 2016; 101-2{_TORCHVISION}",
        ),
        "BERT": _language(
            "data", 340e6, (512, 24, 1024, 30522), 8, "Devlin et al., NAACL 2019, section 3; large"
        ),
        "RoBERTa": _language(
            "data", 355e6, (512, 24, 1024, 50265), 8, "Liu et al., 2019, section 5; large"
        ),
        "XLM": _language(
            "data", 570e6, (256, 16, 1280, 200000), 8, "Conneau et al., ACL 2020, table 7; XLM-100"
        ),
        "CamemBERT": _language(
            "data", 110e6, (512, 12, 768, 32005), 16, "Martin et al., ACL 2020, section 4; base"
        ),
        "GPT-1": _language("hybrid", 117e6, (512, 12, 768, 40478), 32, "Radford et al., 2018", 2),
        "GPT-2": _language(
            "hybrid", 1.542e9, (1024, 48, 1600, 50257), 8, "Radford et al., 2019, table 2", 2
        ),
        "GPT-3": _language(
            "hybrid",
            _GPT3_PARAMETERS,
            (2048, _GPT3_BLOCKS, _GPT3_WIDTH, _GPT3_VOCABULARY),
            2,
            "Brown et al., NeurIPS 2020, table 2.1; 8 of the 96 blocks, what eight A100 hold",
            2,
        ),
        "DLRM": CommunicatingModel(
            "hybrid",
            2.37e6,
            2.37e6,
            6912,
            "Naumov et al., 2019; layers and global batch of MLPerf Training 1.0, 8 GPUs",
            1024.0**2,
            lookup_bytes=26 * 128 * 4.0,
        ),
    }
)
"""Models by name. The paper's VGG13 is taken for VGG16, which it uses elsewhere.

Parameters, multiply-adds and shapes are published, in the sources; those of GPT-3 are derived from
its shape, with 8 of its blocks, and the multiply-adds of a transformer from its parameters. Batches
are assumptions, but for DLRM's. CASSINI's own profiles are not published: none are here.
"""


def communication_profile(
    model: str,
    *,
    gbps: float = 50.0,
    gpus: int = 8,
    parallelism: str | None = None,
    batch: int | None = None,
    compute_s: float | str | None = None,
) -> CommunicationProfile:
    """Return the profile of one of `COMMUNICATING_MODELS` on the link of one GPU.

    Derived, not measured: bytes from the sizes of the model, by rings that send 2 (n - 1) / n
    times what they all-reduce; seconds from its multiply-adds and 0.4 of the peak of an A100.

    Parameters
    ----------
    model
        Its name.
    gbps
        Gb/s of the link, at which messages are sent that nothing else holds back.
    gpus
        That train it together, at least 2.
    parallelism
        Out of `PARALLELISMS`; None for that of the model. Only transformers have others than
        their own.
    batch
        Samples of an iteration on each GPU; None for that of the model.
    compute_s
        Seconds of forward and backward; None to derive them; ``"published"`` for the batch over the
        samples per second of `PUBLISHED_SPEEDS`.

    Raises
    ------
    InputError
        For an unknown model or parallelism, and numbers out of range.
    """
    name = choice("model", model, COMMUNICATING_MODELS)
    told = COMMUNICATING_MODELS[name]
    way = choice("parallelism", parallelism or told.parallelism, PARALLELISMS)
    count = whole("gpus", gpus, 2)
    samples = whole("batch", told.batch if batch is None else batch, 1)
    rate = number("gbps", gbps, strict=True)
    flops = _REACHED * _PEAK_FLOPS[told.bytes_per_number]
    if isinstance(compute_s, str):
        choice("compute_s", compute_s, ("published",))
        compute_s = samples / PUBLISHED_SPEEDS[name].samples_per_s
    if compute_s is None:
        compute_s = 6 * told.multiply_adds * samples / flops
    compute = seconds("compute_s", compute_s, strict=True)
    if way != told.parallelism and not told.blocks:
        raise InputError(
            f"The parallelism of {name} is {way!r}; it must be {told.parallelism!r}, as its layers "
            "are not those of a transformer."
        )
    hybrid = _recommendation if told.lookup_bytes else _hybrid
    makers = {"data": _data, "pipeline": _pipeline, "tensor": _tensor, "hybrid": hybrid}
    return makers[way](name, told, samples, count, compute, rate)


def _data(
    name: str, told: CommunicatingModel, samples: int, count: int, compute_s: float, gbps: float
) -> CommunicationProfile:
    """All parameters on every GPU; the samples do not count."""
    return data_parallel(
        name,
        forward_s=compute_s / 3,
        backward_s=2 * compute_s / 3,
        gigabits=_ring(told.parameters * told.bytes_per_number, count),
        gbps=gbps,
    )


def _ring(size_bytes: float, peers: int) -> float:
    """Gigabits that each of a ring sends in an all-reduce."""
    return 2 * (peers - 1) / peers * size_bytes * 8e-9


def _activations(told: CommunicatingModel, samples: float) -> float:
    """Bytes between two blocks."""
    return samples * told.tokens * told.width * told.bytes_per_number


def _pipeline(
    name: str, told: CommunicatingModel, samples: int, count: int, compute_s: float, gbps: float
) -> CommunicationProfile:
    """Stages of equal work, all samples of all GPUs going through each."""
    embedding = told.vocabulary * told.width * told.bytes_per_number
    activations = 8e-9 * _activations(told, samples * count / _MICROBATCHES)
    sending_s = _MICROBATCHES * activations / gbps  # may be what takes longest
    return pipeline_parallel(
        name,
        forward_s=max(compute_s / 3, sending_s),
        backward_s=max(2 * compute_s / 3, sending_s),
        microbatches=_MICROBATCHES,
        activation_gigabits=activations,
        embedding_gigabits=_ring(embedding, 2),
        gbps=gbps,
    )


def _tensor(
    name: str, told: CommunicatingModel, samples: int, count: int, compute_s: float, gbps: float
) -> CommunicationProfile:
    """Two all-reduces of activations in each block and pass; they slow it where they are slower."""
    gigabits = _ring(2 * told.blocks * _activations(told, samples * count), count)
    passes = [max(part * compute_s, gigabits / gbps) for part in (1 / 3, 2 / 3)]
    return tensor_parallel(
        name,
        loading_s=_LOADING * compute_s,
        forward_s=passes[0],
        backward_s=passes[1],
        forward_gbps=gigabits / passes[0],
        backward_gbps=gigabits / passes[1],
    )


def _hybrid(
    name: str, told: CommunicatingModel, samples: int, count: int, compute_s: float, gbps: float
) -> CommunicationProfile:
    """Pairs in tensor parallelism, two replicas, the rest stages of a pipeline.

    Data are loaded; forward; the pipeline drains; backward; then gradients, and the embedding.
    """
    stages = max(1, count // 4)
    inside = _ring(2 * told.blocks / stages * _activations(told, samples * count / 2), 2)
    forward_s, backward_s = compute_s / 3, 2 * compute_s / 3
    busy = [max(part, inside / gbps) for part in (forward_s, backward_s)]
    share = told.parameters * told.bytes_per_number / (2 * stages)
    last = _ring(share, 2), _ring(told.vocabulary * told.width * told.bytes_per_number / 2, 2)
    idle_s = compute_s * (stages - 1) / _MICROBATCHES / 2  # the bubble of the pipeline
    return hybrid_parallel(
        name,
        phases_s=[_LOADING * compute_s, busy[0], idle_s, busy[1], *(each / gbps for each in last)],
        gbps=[inside / busy[0], inside / busy[1], gbps, gbps],
    )


def _recommendation(
    name: str, told: CommunicatingModel, samples: int, count: int, compute_s: float, gbps: float
) -> CommunicationProfile:
    """Embeddings divided over GPUs, dense layers on each.

    Silent; embeddings to all; dense layers; their gradients to all; all-reduce of the dense layers;
    numbers of the embeddings of the next iteration.
    """
    lookups = samples * told.lookup_bytes * (count - 1) / count * 8e-9 / gbps
    dense = _ring(told.parameters * told.bytes_per_number, count) / gbps
    numbers = samples * 26 * 8 * (count - 1) / count * 8e-9 / gbps
    lengths = [_LOADING * compute_s, lookups, compute_s, lookups, dense, numbers]
    return hybrid_parallel(name, phases_s=lengths, gbps=[gbps] * 4)
