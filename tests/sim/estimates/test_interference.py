from __future__ import annotations

import numpy as np
import pytest

from apportion.errors import InputError
from apportion.sim.generators.generate import generate_pair_throughputs
from apportion.sim.job_types import job_type_throughputs


def test_alone_is_the_table_of_job_types() -> None:
    pairs = generate_pair_throughputs(seed=0, accelerators=["k80", "v100"], scale_factors=(1, 2))
    table = job_type_throughputs((1, 2), ["k80", "v100"])
    np.testing.assert_array_equal(pairs.alone, table.to_numpy())
    assert pairs.keys.tolist() == table.index.tolist()
    assert pairs.accelerators == ("k80", "v100")


def test_interference_is_plausible_low_rank_and_sometimes_out_of_memory() -> None:
    for seed in range(3):
        shares = generate_pair_throughputs(seed).normalized()
        assert shares.max() <= 1.0
        assert shares[shares > 0].min() > 0.1
        assert 0.0 < (shares == 0).mean() < 0.3
        packs = (shares + shares.transpose(1, 0, 2) > 1).mean()
        assert 0.2 < packs < 0.9
        # The slow-down is 1 plus three resources, times noise. Two jobs fit if each fits twice.
        fits = np.diagonal(shares[..., 0]) > 0
        slowdown = 1.0 / shares[..., 0][np.ix_(fits, fits)]
        singular = np.linalg.svd(slowdown, compute_uv=False)
        assert singular.size >= 10
        assert float(singular[4]) < 0.05 * float(singular[0])


def test_batches_that_grow_press_and_need_more() -> None:
    pairs = generate_pair_throughputs(seed=4)
    shares = pairs.normalized()
    small, large = (
        pairs.keys.get_loc((f"Transformer (batch size {size})", 1)) for size in (16, 256)
    )
    fits_small, fits_large = shares[:, small, 0] > 0, shares[:, large, 0] > 0
    assert np.all(fits_small[fits_large])


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="seed is -1"):
        generate_pair_throughputs(-1)
    with pytest.raises(InputError, match=r"'v10'\. Did you mean 'v100'"):
        generate_pair_throughputs(0, ["v10"])
