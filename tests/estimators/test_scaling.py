from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InputError
from apportion.estimators import DISTRIBUTED_FAMILIES, family_of, scaled_throughput, speedup


def test_published_figures_are_met_and_three_gpus_lie_geometrically_between() -> None:
    np.testing.assert_allclose(speedup("ResNet-50", [1, 2, 4, 8]), [1, 1.81, 3.31, 5.61])
    # log2(3) = 1.585: 58.5 % of the way from 2 to 4 GPUs, in logarithms.
    between = 1.81 * (3.31 / 1.81) ** 0.5849625
    np.testing.assert_allclose(speedup("ResNet-50", 3), between, rtol=1e-6)


def test_sixteen_gpus_gain_the_mean_factor_of_a_doubling_up_to_eight() -> None:
    np.testing.assert_allclose(speedup("LM", 16), 3.75 * 3.75 ** (1 / 3), rtol=1e-12)
    np.testing.assert_allclose(speedup("LM", 64), 3.75**2, rtol=1e-12)


@given(st.sampled_from(DISTRIBUTED_FAMILIES), st.integers(1, 512))
def test_more_gpus_are_faster_and_never_more_than_linear(family: str, gpus: int) -> None:
    one_less, speed = speedup(family, [max(gpus - 1, 1), gpus])
    assert one_less <= speed <= gpus + 1e-9


def test_scaled_throughput_broadcasts_and_keeps_zeros() -> None:
    steps_per_s = scaled_throughput([10.0, 0.0], "Transformer", [[1], [2]])
    np.testing.assert_allclose(steps_per_s, [[10.0, 0.0], [16.6, 0.0]])


def test_any_family_runs_on_one_gpu_but_only_some_on_several() -> None:
    assert speedup("CycleGAN", 1) == 1.0
    with pytest.raises(InputError, match=r"'CycleGAN'.*ResNet-18, ResNet-50, Transformer, LM"):
        speedup("CycleGAN", [1, 2])


@pytest.mark.parametrize("gpus", [0, -1, 1.5, np.nan, np.inf])
def test_a_gang_is_a_whole_number(gpus: float) -> None:
    with pytest.raises(InputError, match="whole number >= 1"):
        speedup("LM", gpus)


def test_family_is_the_name_without_the_batch_size() -> None:
    assert [family_of("LM (batch size 5)"), family_of("A3C")] == ["LM", "A3C"]
