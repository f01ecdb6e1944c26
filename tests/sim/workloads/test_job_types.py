from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from apportion.errors import InputError
from apportion.estimators import DISTRIBUTED_FAMILIES, family_of
from apportion.sim.job_types import draw_job_types, job_type_throughputs, job_types


def test_table_has_gavels_26_job_types() -> None:
    table = job_types()
    assert list(table.columns) == ["v100", "p100", "k80"]
    families = pd.Series(table.index).map(family_of).value_counts().to_dict()
    assert families == {
        "ResNet-18": 5,
        "Transformer": 5,
        "LM": 5,
        "Recommendation": 5,
        "ResNet-50": 4,
        "A3C": 1,
        "CycleGAN": 1,
    }
    assert table.loc["A3C", "v100"] == 7.18
    # Gavel's well-known spread: ResNet-50 gains about tenfold from k80 to v100, A3C about twofold.
    gain = table["v100"] / table["k80"]
    assert gain["A3C"] < 2.5
    assert gain["ResNet-50 (batch size 128)"] > 7


def test_throughputs_have_gangs_only_for_distributed_families() -> None:
    throughputs = job_type_throughputs([1, 2, 64], ["k80", "v100"])
    assert list(throughputs.columns) == ["k80", "v100"]
    assert throughputs.index.names == ["job_type", "scale_factor"]
    assert len(throughputs) == 26 + 2 * 19
    several = throughputs.index[throughputs.index.get_level_values(1) > 1]
    assert {family_of(job_type) for job_type, _ in several} == set(DISTRIBUTED_FAMILIES)
    assert throughputs.loc[("LM (batch size 5)", 2), "v100"] == pytest.approx(109 * 1.40)


def test_unknown_accelerator_and_fractional_gang_are_refused() -> None:
    with pytest.raises(InputError, match=r"'v10'. Did you mean 'v100'"):
        job_type_throughputs([1], ["v10"])
    with pytest.raises(InputError, match="whole number"):
        job_type_throughputs([2.5])  # type: ignore[list-item]


def test_draws_are_uniform_over_the_types_that_run_and_prefix_stable() -> None:
    throughputs = job_type_throughputs([1, 4])
    gangs = pd.Series(np.tile([1, 4], 20_000))
    drawn = draw_job_types(gangs, throughputs, "v100", np.random.default_rng(0))
    for gang, types in ((1, 26), (4, 19)):
        counts = drawn[gangs == gang].value_counts()
        assert len(counts) == types
        np.testing.assert_allclose(counts, 20_000 / types, rtol=0.15)
    first = draw_job_types(gangs.head(7), throughputs, "v100", np.random.default_rng(0))
    pd.testing.assert_series_equal(first, drawn.head(7))


def test_types_that_do_not_run_on_the_reference_are_not_drawn() -> None:
    index = pd.MultiIndex.from_tuples([("a", 1), ("b", 1), ("b", 2)])
    throughputs = pd.DataFrame({"x": [0.0, 1.0, 0.0]}, index=index)
    drawn = draw_job_types(pd.Series([1] * 50), throughputs, "x", np.random.default_rng(0))
    assert set(drawn) == {"b"}
    with pytest.raises(InputError, match=r"Job 'j' has scale factor 2.*scale factors 1"):
        draw_job_types(pd.Series({"j": 2}), throughputs, "x", np.random.default_rng(0))
