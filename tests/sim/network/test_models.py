from __future__ import annotations

import pytest

from apportion.sim.network import model_profiles
from apportion.sim.network.models.table_i import (
    ARCHITECTURES,
)

# Published totals: torchvision's model metadata; BERT-large from its configuration, without heads.
PARAMETERS = {
    "VGG11": 132_863_336,
    "AlexNet": 61_100_840,
    "MobileNetV3": 2_542_856,
    "ResNet18": 11_689_512,
    "ResNet50": 25_557_032,
    "BERT-large": 335_141_888,
}
# Largest tensor over all, in the workload files of Dally's authors.
SKEW = {"VGG11": 0.77, "AlexNet": 0.62, "MobileNetV3": 0.41, "ResNet18": 0.20, "ResNet50": 0.09}


@pytest.mark.parametrize("model", PARAMETERS)
def test_parameters_are_as_many_as_published(model: str) -> None:
    assert sum(layer.parameters for layer in ARCHITECTURES[model]()) == PARAMETERS[model]
    assert model_profiles()[model].all_reduce_bytes == 4 * PARAMETERS[model]
    assert model_profiles(2.0)[model].all_reduce_bytes == 2 * PARAMETERS[model]


@pytest.mark.parametrize("model", SKEW)
def test_skew_is_that_of_the_authors(model: str) -> None:
    assert model_profiles()[model].skew == pytest.approx(SKEW[model], abs=0.0101)
