from __future__ import annotations

import pandas as pd

from apportion.estimators import family_of
from apportion.sim.job_types import job_types


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
