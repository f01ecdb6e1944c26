"""Communication profiles: templates by hand, models, layers against the network model, samples."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import apportion as ap
from apportion.sim.network import (
    COMMUNICATING_MODELS,
    PARALLELISMS,
    AnalyticNetwork,
    Dimension,
    Exchange,
    Interconnect,
    Layer,
    ModelProfile,
    canonical_shape,
    communication_profile,
    data_parallel,
    hybrid_parallel,
    merged,
    model_profiles,
    pipeline_parallel,
    profile_of_layers,
    profile_of_samples,
    tensor_parallel,
)
from apportion.sim.network.registry import PHYSICAL


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


def test_there_are_the_thirteen_models_of_the_paper() -> None:
    assert len(COMMUNICATING_MODELS) == 13
    assert all(model.source for model in COMMUNICATING_MODELS.values())


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


@pytest.mark.parametrize("model", model_profiles())
@pytest.mark.parametrize("racks", [[[4, 4]], [[8]], [[2, 2], [2, 2]]])
def test_layers_take_as_long_as_the_network_model_says(model: str, racks: list[list[int]]) -> None:
    layers, shape = model_profiles()[model], canonical_shape(racks)
    profile = profile_of_layers(layers, shape, PHYSICAL, merge=0)
    overhead = AnalyticNetwork("", PHYSICAL, model_profiles()).overhead(model, shape)
    assert profile.period_s == pytest.approx(layers.compute_s * (1 + overhead))
    link = PHYSICAL.spans(shape)[-1]
    sent = 2 * (link.units - 1) / link.units * layers.all_reduce_bytes
    for inside in PHYSICAL.spans(shape)[:-1]:
        sent /= inside.narrowest
    assert profile.gigabits == pytest.approx(8e-9 * sent)
    assert merged(profile, 0.05).gigabits == pytest.approx(profile.gigabits)
    assert len(merged(profile, 0.05).phases) <= 20


def test_layers_by_hand() -> None:
    port = Dimension("rack", "switch", 1e9)
    inter = Interconnect((Dimension("machine", "switch", 1e12),), port, port)
    message = Exchange("all_reduce", 0.5e9)
    model = ModelProfile("m", (Layer("1", 1, 1, 1), Layer("2", 1, 1, 1, message)))
    # Sent from 3 s on (forward of both, the last gradient), for .5 s at 1e9 bytes/s.
    profile = profile_of_layers(model, ((1, 1),), inter)
    assert profile.period_s == 6
    assert np.array(profile.phases) == pytest.approx(np.array([(3, 0.5, 8)]))
    assert profile_of_layers(model, ((1, 1),), inter, gpus_per_link=2).peak_gbps == 16
    with pytest.raises(ap.InputError, match="one GPU"):
        profile_of_layers(model, ((1,),), inter)


@pytest.mark.parametrize("period", [None, 0.25])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_profile_is_found_again_in_samples(period: float | None, noise: float) -> None:
    true = ap.CommunicationProfile("a", 0.25, [(0.05, 0.05, 20), (0.15, 0.08, 50)])
    times = (np.arange(4000) + 0.5) * 0.001
    load = true.demand(times) + noise * np.random.default_rng(0).random(times.size)
    found = profile_of_samples("a", load, 0.001, period_s=period)
    assert found.period_s == pytest.approx(0.25, rel=1e-3)
    assert len(found.phases) == 2
    assert found.gigabits == pytest.approx(true.gigabits, rel=0.03)
    assert np.array(found.phases) == pytest.approx(np.array(true.phases), rel=0.06, abs=0.003)


def test_samples_that_do_not_fit_the_period() -> None:
    """Intervals of 7 ms, iterations of 100 ms."""
    true = ap.CommunicationProfile("a", 0.1, [(0.04, 0.03, 40)])
    load = true.demand((np.arange(1000) + 0.5) * 0.007)
    found = profile_of_samples("a", load, 0.007)
    assert found.period_s == pytest.approx(0.1, rel=0.01)
    assert found.mean_gbps == pytest.approx(12, rel=0.1)


@pytest.mark.parametrize(
    ("load", "options", "message"),
    [
        ([1.0] * 100, {}, "do not repeat"),
        ([0.0] * 50 + [1.0] * 50, {}, "do not repeat"),
        ([1.0, float("nan"), 2.0], {}, "Sample 1 of 'a' is nan"),
        ([1.0, -1.0, 2.0], {}, "Sample 1 of 'a' is -1"),
        ([1.0], {}, "shape"),
        ([[1.0, 2.0]], {}, "shape"),
        (["x", "y"], {}, "are no numbers"),
        ([1.0, 0.0] * 50, {"period_s": 100.0}, "period of 'a' is 100 s"),
        ([1.0, 0.0] * 50, {"period_s": 0.001}, "period of 'a'"),
        ([1.0, 0.0] * 50, {"period_s": 0}, "period_s"),
        ([1.0, 0.0] * 50, {"merge": 2}, "merge"),
    ],
)
def test_bad_samples_are_named(load: object, options: dict[str, float], message: str) -> None:
    with pytest.raises(ap.InputError, match=message):
        profile_of_samples("a", load, 0.01, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [k for k, each in COMMUNICATING_MODELS.items() if each.blocks])
def test_parameters_of_transformers_are_those_of_their_shape(model: str) -> None:
    told = COMMUNICATING_MODELS[model]
    # Attention has 4 matrices of width x width, and the layers behind it 8; and the embedding.
    shape = 12 * told.blocks * told.width**2 + told.vocabulary * told.width
    assert told.parameters == pytest.approx(shape, rel=0.03)


def test_parameters_of_the_recommendation_model_are_those_of_its_layers() -> None:
    # MLPerf: 13-512-256-128, and 1024-1024-512-256-1 over 128 and the 351 products of 27 vectors.
    below, above = (13, 512, 256, 128), (128 + 27 * 26 // 2, 1024, 1024, 512, 256, 1)
    dense = sum((wide + 1) * to for layers in (below, above) for wide, to in pairwise(layers))
    assert COMMUNICATING_MODELS["DLRM"].parameters == pytest.approx(dense, rel=0.001)
