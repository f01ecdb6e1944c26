"""Profiles of the six models of Dally's Table I, derived from their architectures."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from apportion.sim.network.profile import Exchange, Layer, ModelProfile
from apportion.sim.network.training.architectures import ARCHITECTURES

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COMPUTE_S", "TABLE1_COMPUTE_SCALE", "model_profiles", "scaled_profiles"]

COMPUTE_S: Mapping[str, float] = MappingProxyType(
    {
        "VGG11": 0.235,
        "AlexNet": 0.052,
        "MobileNetV3": 0.0083,
        "ResNet18": 0.122,
        "ResNet50": 0.343,
        "BERT-large": 15.196,
    }
)
"""Compute seconds of an iteration in the workload files of Dally's authors, before scaling."""

TABLE1_COMPUTE_SCALE: Mapping[str, float] = MappingProxyType(
    {
        "VGG11": 0.01549,
        "AlexNet": 0.0199,
        "MobileNetV3": 0.00639,
        "ResNet18": 0.001223,
        "ResNet50": 0.03395,
        "BERT-large": 0.0001121,
    }
)
"""What the authors multiply compute times by, so that overheads in one machine are as measured."""

TABLE1_BYTES: Mapping[str, float] = MappingProxyType({"BERT-large": 562.04e6})
"""Bytes that an iteration all-reduces in the authors' files, where these lack layers of the model.

Theirs of BERT-large lists 66 of the 145 layers that it announces. All their files have four bytes a
parameter.
"""

FP32_BYTES = 4.0
"""Bytes of a parameter in single precision."""


@cache
def model_profiles(bytes_per_parameter: float = FP32_BYTES) -> Mapping[str, ModelProfile]:
    """Profiles of the six models, by name, with compute as long as before scaling.

    Derived, not measured. Every layer with weights sends one all-reduce of its gradient; the
    sublayers of BERT-large (attention, feed-forward) count as one layer each, the granularity at
    which the largest encoder layer is 0.03 of them all, as in the authors' file. `COMPUTE_S` is
    shared out by multiply-adds: as many for the forward pass as for the gradient of the weights
    and for that of the inputs, which the first layer does not compute. A lookup takes no time.

    Parameters
    ----------
    bytes_per_parameter
        Bytes that a parameter's gradient takes in an all-reduce.
    """
    return MappingProxyType({model: _derive(model, bytes_per_parameter) for model in COMPUTE_S})


@cache
def scaled_profiles() -> Mapping[str, ModelProfile]:
    """Profiles of the six models with the compute scales, and the bytes, of Dally's authors."""
    profiles = dict(model_profiles())
    for model, size_bytes in TABLE1_BYTES.items():
        share = size_bytes / profiles[model].all_reduce_bytes
        profiles[model] = model_profiles(FP32_BYTES * share)[model]
    scales = TABLE1_COMPUTE_SCALE.items()
    return MappingProxyType({model: profiles[model].scaled(scale) for model, scale in scales})


def _derive(model: str, bytes_per_parameter: float) -> ModelProfile:
    """Share out the compute of a model by the multiply-adds of its layers."""
    layers = ARCHITECTURES[model]()
    forward = [layer.multiply_adds for layer in layers]
    per_multiply_add_s = COMPUTE_S[model] / (3 * sum(forward) - forward[0])
    parts_s = [per_multiply_add_s * multiply_adds for multiply_adds in forward]
    return ModelProfile(
        model,
        tuple(
            Layer(
                layer.name,
                forward_s=part_s,
                input_gradient_s=part_s if place else 0.0,
                weight_gradient_s=part_s,
                weight_gradient=Exchange("all_reduce", layer.parameters * bytes_per_parameter),
            )
            for place, (layer, part_s) in enumerate(zip(layers, parts_s, strict=True))
        ),
    )
