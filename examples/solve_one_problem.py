"""Share one V100 and one K80 among three jobs fairly, and read the answer."""

from __future__ import annotations

import pandas as pd

import apportion as ap

steps_per_s = pd.DataFrame(
    {"v100": [40.0, 12.0, 100.0], "k80": [10.0, 4.0, 50.0]}, index=["resnet", "lm", "a3c"]
)
jobs = pd.DataFrame({"weight": [1.0, 2.0, 1.0]}, index=steps_per_s.index)

allocation = ap.solve("max_min_fairness", steps_per_s, workers={"v100": 1, "k80": 1}, jobs=jobs)
print(allocation)

alone = steps_per_s.max(axis=1)
print("\nShare of the speed on a V100 of its own:")
print((allocation.throughput / alone).to_string(float_format="{:.1%}".format))
