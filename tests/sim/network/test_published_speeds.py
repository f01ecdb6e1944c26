from __future__ import annotations

import pytest

import apportion as ap
from apportion.sim.network import COMMUNICATING_MODELS, PUBLISHED_SPEEDS, communication_profile


def test_each_model_has_a_source_or_says_that_it_is_assumed() -> None:
    assert set(PUBLISHED_SPEEDS) == set(COMMUNICATING_MODELS)
    for speed in PUBLISHED_SPEEDS.values():
        assert speed.source
        assert speed.gpu
        assert speed.samples_per_s > 0


def test_published_seconds_stand_in_place_of_derived_ones() -> None:
    vgg = communication_profile("VGG16", gpus=4, compute_s="published")
    sends_s = 2 * 3 / 4 * 138.4e6 * 4 * 8e-9 / 50
    assert vgg.period_s == pytest.approx(64 / 546.06 + sends_s)
    assert vgg.duty == pytest.approx(sends_s / vgg.period_s)
    lookups = communication_profile("DLRM", gpus=4, compute_s="published")
    assert lookups.period_s > communication_profile("DLRM", gpus=4).period_s
    with pytest.raises(ap.InputError, match="publishd"):
        communication_profile("VGG16", compute_s="publishd")
