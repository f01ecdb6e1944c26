"""Mean completion times of policies where a start costs some times as much."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from apportion.report import human_table
from apportion.report.tables import Measure
from apportion.statistics.batches import batch_figures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.sim import Run
    from apportion.statistics.typeset import HumanTable


def at_costs(runs_at: Mapping[float, Mapping[str, Run]]) -> HumanTable:
    """Return mean completion times, a column for each multiple of what a start costs, with marks.

    Parameters
    ----------
    runs_at
        Runs by policy, by these multiples. Policies that failed at one of them are left out.
    """
    at = dict(sorted(runs_at.items()))
    labels = [label for label in runs_at[1.0] if all(label in runs for runs in at.values())]
    jobs = {
        f"{times:g}": {label: runs[label].measured for label in labels}
        for times, runs in at.items()
    }
    means = {
        name: [table["jct_s"].mean() for table in tables.values()] for name, tables in jobs.items()
    }
    found = {name: batch_figures(tables).get("mean_jct_s") for name, tables in jobs.items()}
    summary = pd.DataFrame({"policy": labels, **means})
    return human_table(
        summary,
        longest_s=max((each for row in means.values() for each in row), default=0.0),
        measures=[Measure(name, f"x {name}", "h", 3600.0) for name in means],
        replicates={name: each for name, each in found.items() if each is not None},
    )
