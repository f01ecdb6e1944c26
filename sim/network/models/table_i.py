"""The six models of Dally's Table I: layers from their published architectures, and profiles.

Sources: VGG11: Simonyan and Zisserman (2015), table 1, column A. AlexNet: Krizhevsky (2014), the
single-tower version. ResNet18 and ResNet50: He et al. (2016), table 1. MobileNetV3: Howard et al.
(2019), table 2, the small one. BERT-large: Devlin et al. (2019), section 3. Images are 224 pixels
wide, sequences 512 tokens long.
"""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from apportion.sim.network.profile import Exchange, Layer, ModelProfile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CLASSES = 1000


class WeightedLayer(NamedTuple):
    """A layer with weights: their number, and multiply-adds per sample of its forward pass.

    The parameters of a batch or layer normalization count with the layer before it.
    """

    name: str
    parameters: int
    multiply_adds: float


class _Image:
    """A convolutional network under construction, and the image as it is after its last layer."""

    def __init__(self, width: int = 224) -> None:
        self.width, self.channels = width, 3
        self.layers: list[WeightedLayer] = []

    def convolve(
        self, channels: int, kernel: int, stride: int = 1, *, groups: int = 1, bias: bool = False
    ) -> None:
        """Add a convolution that pads to the width over the stride, and its normalization."""
        self.width = -(-self.width // stride)
        weights = self.channels // groups * channels * kernel**2
        # One bias per channel, or a scale and a shift of the batch normalization.
        extra = channels if bias else 2 * channels
        self._add("convolution", weights + extra, weights * self.width**2)
        self.channels = channels

    def pool(self, stride: int = 2) -> None:
        """Shrink the image, rounding down."""
        self.width //= stride

    def connect(self, outputs: int) -> None:
        """Add a fully connected layer over the whole image."""
        weights = self.channels * self.width**2 * outputs
        self._add("fully connected", weights + outputs, weights)
        self.width, self.channels = 1, outputs

    def squeeze(self, channels: int) -> None:
        """Add squeeze and excitation: two layers on the mean of every channel."""
        weights = self.channels * channels
        self._add("squeeze", weights + channels, weights)
        self._add("excitation", weights + self.channels, weights)

    def _add(self, kind: str, parameters: int, multiply_adds: float) -> None:
        self.layers.append(
            WeightedLayer(f"{kind} {len(self.layers) + 1}", parameters, multiply_adds)
        )


def _vgg11() -> Sequence[WeightedLayer]:
    image = _Image()
    for block in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
        for channels in block:
            image.convolve(channels, 3, bias=True)
        image.pool()
    for outputs in (4096, 4096, _CLASSES):
        image.connect(outputs)
    return image.layers


def _alexnet() -> Sequence[WeightedLayer]:
    image = _Image(width=220)  # 11 wide and padded by 2, the first convolution yields 55
    image.convolve(64, 11, 4, bias=True)
    image.pool()
    image.convolve(192, 5, bias=True)
    image.pool()
    for channels in (384, 256, 256):
        image.convolve(channels, 3, bias=True)
    image.pool()
    for outputs in (4096, 4096, _CLASSES):
        image.connect(outputs)
    return image.layers


def _resnet(blocks: Sequence[int], *, bottleneck: bool) -> Sequence[WeightedLayer]:
    image = _Image()
    image.convolve(64, 7, 2)
    image.pool()
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage and not block else 1
            _residual_block(image, 64 * 2**stage, stride, bottleneck=bottleneck)
    image.pool(image.width)
    image.connect(_CLASSES)
    return image.layers


def _residual_block(image: _Image, width: int, stride: int, *, bottleneck: bool) -> None:
    """Two convolutions, or three around a bottleneck; one more where the shape changes."""
    before, size = image.channels, image.width
    if bottleneck:
        image.convolve(width, 1)
        image.convolve(width, 3, stride)
        image.convolve(4 * width, 1)
    else:
        image.convolve(width, 3, stride)
        image.convolve(width, 3)
    if stride > 1 or before != image.channels:
        after, image.channels, image.width = image.channels, before, size
        image.convolve(after, 1, stride)


_MOBILE_BLOCKS = (  # kernel, expanded channels, channels, squeeze and excitation, stride
    (3, 16, 16, True, 2),
    (3, 72, 24, False, 2),
    (3, 88, 24, False, 1),
    (5, 96, 40, True, 2),
    (5, 240, 40, True, 1),
    (5, 240, 40, True, 1),
    (5, 120, 48, True, 1),
    (5, 144, 48, True, 1),
    (5, 288, 96, True, 2),
    (5, 576, 96, True, 1),
    (5, 576, 96, True, 1),
)


def _mobilenet_v3() -> Sequence[WeightedLayer]:
    image = _Image()
    image.convolve(16, 3, 2)
    for kernel, expanded, channels, squeezed, stride in _MOBILE_BLOCKS:
        if expanded != image.channels:
            image.convolve(expanded, 1)
        image.convolve(expanded, kernel, stride, groups=expanded)
        if squeezed:
            image.squeeze(_multiple_of_eight(expanded / 4))
        image.convolve(channels, 1)
    image.convolve(576, 1)
    image.pool(image.width)
    for outputs in (1024, _CLASSES):
        image.connect(outputs)
    return image.layers


def _multiple_of_eight(channels: float) -> int:
    """Round to a multiple of eight, by no more than a tenth downwards."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8


def _bert_large() -> Sequence[WeightedLayer]:
    hidden, inner, vocabulary, tokens = 1024, 4096, 30522, 512
    norm = 2 * hidden
    embedding = (vocabulary + tokens + 2) * hidden + norm
    projections, feed_forward = 4 * hidden**2, 2 * hidden * inner
    scores = 2 * tokens * hidden
    layers = [WeightedLayer("embedding", embedding, 0.0)]
    for block in range(1, 25):
        layers += [
            WeightedLayer(
                f"attention {block}",
                projections + 4 * hidden + norm,
                tokens * (projections + scores),
            ),
            WeightedLayer(
                f"feed-forward {block}", feed_forward + inner + hidden + norm, tokens * feed_forward
            ),
        ]
    # The pooler reads the first token only.
    return [*layers, WeightedLayer("pooler", hidden**2 + hidden, hidden**2)]


ARCHITECTURES: Mapping[str, Callable[[], Sequence[WeightedLayer]]] = MappingProxyType(
    {
        "VGG11": _vgg11,
        "AlexNet": _alexnet,
        "MobileNetV3": _mobilenet_v3,
        "ResNet18": lambda: _resnet((2, 2, 2, 2), bottleneck=False),
        "ResNet50": lambda: _resnet((3, 4, 6, 3), bottleneck=True),
        "BERT-large": _bert_large,
    }
)
"""Layers of each model, in the order of the forward pass."""


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
