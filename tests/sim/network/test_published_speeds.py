from __future__ import annotations

import pytest

import apportion as ap
from apportion.sim.network import (
    COMMUNICATING_MODELS,
    PUBLISHED_SPEEDS,
    communication_profile,
)


def test_each_model_has_a_source_or_says_that_it_is_assumed() -> None:
    assert set(PUBLISHED_SPEEDS) == set(COMMUNICATING_MODELS)
    for speed in PUBLISHED_SPEEDS.values():
        assert bool(speed.source and speed.gpu) == (speed.samples_per_s is not None)
        assert speed.assumed or speed.samples_per_s


def test_published_seconds_stand_in_place_of_derived_ones() -> None:
    vgg = communication_profile("VGG16", gpus=4, compute_s="published")
    sends_s = 2 * 3 / 4 * 138.4e6 * 4 * 8e-9 / 50
    assert vgg.period_s == pytest.approx(64 / 546.06 + sends_s)
    assert vgg.duty == pytest.approx(sends_s / vgg.period_s)
    assert communication_profile("XLM", compute_s="published") == communication_profile("XLM")
    with pytest.raises(ap.InputError, match="publishd"):
        communication_profile("VGG16", compute_s="publishd")
