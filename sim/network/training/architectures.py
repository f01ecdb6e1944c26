"""The layers of the six models of Dally's Table I, from their published architectures.

Sources: VGG11: Simonyan and Zisserman (2015), table 1, column A. AlexNet: Krizhevsky (2014), the
single-tower version. ResNet18 and ResNet50: He et al. (2016), table 1. MobileNetV3: Howard et al.
(2019), table 2, the small one. BERT-large: Devlin et al. (2019), section 3. Images are 224 pixels
wide, sequences 512 tokens long.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["ARCHITECTURES", "WeightedLayer"]

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

    def __init__(self, width: int = 224, channels: int = 3) -> None:
        self.width = width
        self.channels = channels
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
                f"feed-forward {block}",
                feed_forward + inner + hidden + norm,
                tokens * feed_forward,
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
