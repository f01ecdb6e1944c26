from __future__ import annotations

import pytest

from apportion.errors import InputError
from apportion.names import model_of
from apportion.sim.network import model_profiles
from apportion.sim.network.models.table_i import (
    ARCHITECTURES,
    COMPUTE_S,
    TABLE1_BYTES,
    TABLE1_COMPUTE_SCALE,
    scaled_profiles,
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
GIGA_MULTIPLY_ADDS = {
    "VGG11": 7.609,
    "AlexNet": 0.714,
    "MobileNetV3": 0.057,
    "ResNet18": 1.814,
    "ResNet50": 4.089,
}
# Largest tensor over all, in the workload files of Dally's authors.
SKEW = {"VGG11": 0.77, "AlexNet": 0.62, "MobileNetV3": 0.41, "ResNet18": 0.20, "ResNet50": 0.09}


@pytest.mark.parametrize("model", PARAMETERS)
def test_parameters_are_as_many_as_published(model: str) -> None:
    assert sum(layer.parameters for layer in ARCHITECTURES[model]()) == PARAMETERS[model]
    assert model_profiles()[model].all_reduce_bytes == 4 * PARAMETERS[model]
    assert model_profiles(2.0)[model].all_reduce_bytes == 2 * PARAMETERS[model]


@pytest.mark.parametrize("model", GIGA_MULTIPLY_ADDS)
def test_multiply_adds_are_as_many_as_published(model: str) -> None:
    total = sum(layer.multiply_adds for layer in ARCHITECTURES[model]())
    assert round(total / 1e9, 3) == GIGA_MULTIPLY_ADDS[model]


@pytest.mark.parametrize("model", SKEW)
def test_skew_is_that_of_the_authors(model: str) -> None:
    assert model_profiles()[model].skew == pytest.approx(SKEW[model], abs=0.0101)


def test_skew_of_an_encoder_is_that_of_the_authors_without_its_embedding() -> None:
    _, *encoder = ARCHITECTURES["BERT-large"]()
    parameters = [layer.parameters for layer in encoder]
    assert round(max(parameters) / sum(parameters), 2) == 0.03


@pytest.mark.parametrize("model", COMPUTE_S)
def test_compute_is_shared_out_in_full(model: str) -> None:
    profile = model_profiles()[model]
    assert profile.compute_s == pytest.approx(COMPUTE_S[model])
    assert profile.layers[0].input_gradient_s == 0
    for layer in profile.layers[1:]:
        assert layer.forward_s == layer.input_gradient_s == layer.weight_gradient_s
    scaled = scaled_profiles()[model].compute_s
    assert scaled == pytest.approx(COMPUTE_S[model] * TABLE1_COMPUTE_SCALE[model])
    sent = TABLE1_BYTES.get(model, 4 * PARAMETERS[model])
    assert scaled_profiles()[model].all_reduce_bytes == pytest.approx(sent)


@pytest.mark.parametrize(
    ("job_type", "model"),
    [
        ("ResNet-50 (batch size 64)", "ResNet50"),
        ("ResNet-18 (batch size 16)", "ResNet18"),
        ("resnet50", "ResNet50"),
        ("BERT", "BERT-large"),
        ("bert_large", "BERT-large"),
        ("MobileNetV3-Small", "MobileNetV3"),
        ("vgg 11", "VGG11"),
    ],
)
def test_job_types_lead_to_their_model(job_type: str, model: str) -> None:
    assert model_of(job_type, COMPUTE_S) == model


@pytest.mark.parametrize("job_type", ["ResNet-101 (batch size 64)", "LM (batch size 5)", ""])
def test_a_model_without_profile_is_named_with_the_known_ones(job_type: str) -> None:
    with pytest.raises(InputError) as caught:
        model_of(job_type, COMPUTE_S)
    message = str(caught.value)
    assert repr(job_type) in message
    assert "VGG11, AlexNet" in message
    assert "profiles=" in message
