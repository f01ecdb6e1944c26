"""Communication profiles: templates by hand, models."""

from __future__ import annotations

import numpy as np
import pytest

import apportion as ap
from apportion.sim.network import (
    COMMUNICATING_MODELS,
    PARALLELISMS,
    communication_profile,
    data_parallel,
    hybrid_parallel,
    pipeline_parallel,
    tensor_parallel,
)


def test_data_parallel_is_silent_then_sends() -> None:
    profile = data_parallel("a", forward_s=0.1, backward_s=0.2, gigabits=10, gbps=50)
    assert profile.period_s == pytest.approx(0.5)
    assert np.array(profile.phases) == pytest.approx(np.array([(0.3, 0.2, 50)]))


def test_a_pipeline_sends_after_every_microbatch() -> None:
    profile = pipeline_parallel(
        "a",
        forward_s=0.4,
        backward_s=0.8,
        microbatches=2,
        activation_gigabits=5,
        embedding_gigabits=25,
        gbps=50,
    )
    assert profile.period_s == pytest.approx(1.7)
    bursts = [(0.1, 0.1, 50), (0.3, 0.1, 50), (0.7, 0.1, 50), (1.1, 0.1, 50), (1.2, 0.5, 50)]
    assert np.array(profile.phases) == pytest.approx(np.array(bursts))


def test_tensor_parallelism_is_silent_only_while_loading() -> None:
    profile = tensor_parallel(
        "a", loading_s=0.1, forward_s=0.3, backward_s=0.6, forward_gbps=20, backward_gbps=10
    )
    assert np.array(profile.phases) == pytest.approx(np.array([(0.1, 0.3, 20), (0.4, 0.6, 10)]))


def test_hybrid_parallelism_has_six_phases() -> None:
    profile = hybrid_parallel("a", phases_s=[1, 2, 1, 2, 1, 1], gbps=[10, 20, 50, 5])
    assert profile.phases == ((1, 2, 10), (4, 2, 20), (6, 1, 50), (7, 1, 5))


def test_templates_name_what_is_wrong() -> None:
    with pytest.raises(ap.InputError, match="5 phases_s and 4 gbps"):
        hybrid_parallel("a", phases_s=[1] * 5, gbps=[1] * 4)
    with pytest.raises(ap.InputError, match=r"activations of a microbatch for 2 s .* 0.5 s"):
        pipeline_parallel(
            "a",
            forward_s=1,
            backward_s=1,
            microbatches=2,
            activation_gigabits=100,
            embedding_gigabits=0,
            gbps=50,
        )
    with pytest.raises(ap.InputError, match="gbps is 0"):
        data_parallel("a", forward_s=1, backward_s=1, gigabits=1, gbps=0)
    with pytest.raises(ap.InputError, match="backward_s"):
        data_parallel("a", forward_s=1, backward_s=-1, gigabits=1, gbps=1)


@pytest.mark.parametrize("model", COMMUNICATING_MODELS)
def test_profiles_of_models(model: str) -> None:
    profile = communication_profile(model)
    assert 0 < profile.duty < 1
    assert profile.peak_gbps <= 50 * (1 + 1e-9)
    fast = communication_profile(model, gbps=400)
    assert fast.period_s < profile.period_s
    assert fast.gigabits == pytest.approx(profile.gigabits)


@pytest.mark.parametrize("way", PARALLELISMS)
@pytest.mark.parametrize("model", ["BERT", "GPT-1", "GPT-2", "GPT-3"])
def test_transformers_can_be_trained_in_every_way(model: str, way: str) -> None:
    assert communication_profile(model, parallelism=way, gpus=16).gigabits > 0


def test_vgg16_by_hand() -> None:
    profile = communication_profile("VGG16", gbps=50, gpus=4)
    assert profile.gigabits == pytest.approx(2 * 3 / 4 * 138.4e6 * 4 * 8 / 1e9)
    silent = 6 * 15.47e9 * 64 / (0.4 * 156e12)
    assert profile.period_s == pytest.approx(silent + profile.gigabits / 50)
    assert communication_profile("VGG16", compute_s=1.0).phases[0].start_s == pytest.approx(1)


def test_models_name_what_is_wrong() -> None:
    with pytest.raises(ap.InputError, match=r"model 'VGG'"):
        communication_profile("VGG")
    with pytest.raises(ap.InputError, match="parallelism of VGG16 is 'tensor'"):
        communication_profile("VGG16", parallelism="tensor")
    with pytest.raises(ap.InputError, match="parallelism of DLRM is 'pipeline'"):
        communication_profile("DLRM", parallelism="pipeline")
    with pytest.raises(ap.InputError, match="gpus is 1"):
        communication_profile("VGG16", gpus=1)
    with pytest.raises(ap.InputError, match="batch is 0"):
        communication_profile("VGG16", batch=0)
