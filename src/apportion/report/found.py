"""What a comparison has found, in three sentences with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.report.tables import time_unit

if TYPE_CHECKING:
    import pandas as pd

    from apportion.experiments import Comparison


def findings(comparison: Comparison) -> list[str]:
    """Say who is best by mean completion time, who is worst, and to whom jobs matter most.

    Intervals are paired, of batches of jobs (`apportion.statistics`), at 95 %.

    Parameters
    ----------
    comparison
        Of two policies that ran, or more; of fewer there is nothing to say.
    """
    summary = comparison.summary().set_index("policy")
    ran = summary[summary["error"].isna()]
    if len(ran) < 2:
        return []
    mean = ran["mean_jct_s"]
    best = str(mean.idxmin())
    unit, seconds = time_unit(float(mean.max()))
    apart = comparison.differences(best)
    apart = apart[apart["figure"] == "mean_jct_s"].set_index("policy")
    return [
        best_in_words(best, mean, apart),
        _worst(best, mean, apart, unit, seconds),
        _fairest(ran),
    ]


def best_in_words(best: str, mean: pd.Series, apart: pd.DataFrame, of: str = "jobs") -> str:
    """Say who is best, and who cannot be told from it.

    Parameters
    ----------
    best
        The policy.
    mean
        Mean completion times by policy, seconds.
    apart
        By how much they differ from the best, by policy: ``difference``, ``low`` and ``high``.
    of
        What intervals are over.
    """
    unit, seconds = time_unit(float(mean.max()))
    said = f"{best} has the shortest mean completion time, {mean[best] / seconds:.4g} {unit}"
    if apart.empty or apart["low"].isna().all():
        return f"{said}; there are too few {of} for intervals."
    near = apart.index[apart["low"] <= 0].tolist()
    if not near:
        second = str(mean.drop(best).idxmin())
        more = _more(second, apart, unit, seconds)
        return f"{said}; the next is {second} with {more} more, which is more than chance."
    return f"{said}; chance cannot tell it from {', '.join(near)}."


def _worst(best: str, mean: pd.Series, apart: pd.DataFrame, unit: str, seconds: float) -> str:
    worst = str(mean.idxmax())
    said = f"The longest is that of {worst}, {mean[worst] / seconds:.4g} {unit}"
    low = apart["low"].astype(float).get(worst, np.nan)
    if worst == best or np.isnan(low):
        return f"{said}."
    more = _more(worst, apart, unit, seconds)
    chance = ", which chance explains as well" if low <= 0 else ""
    return f"{said}: {more} more{chance}."


def _more(policy: str, apart: pd.DataFrame, unit: str, seconds: float) -> str:
    """Write a difference with its interval."""
    found = apart.loc[policy, ["difference", "low", "high"]].to_numpy(float) / seconds
    return f"{found[0]:.3g} {unit} [{found[1]:.3g}, {found[2]:.3g}]"


def _fairest(ran: pd.DataFrame) -> str:
    """Say under whom the worst-off job fares best, and what preemptions that takes."""
    worst = ran["ftf_max"].astype(float)
    if worst.isna().all():
        return "How jobs fare beside an equal share of the cluster is not known here."
    fair, unfair = str(worst.idxmin()), str(worst.idxmax())
    preemptions = ran["preemptions"].astype(float)[fair]
    return (
        f"The worst-off job takes {worst[fair]:.3g} times as long as in an equal share of the "
        f"cluster under {fair}, with {preemptions:,.0f} preemptions, and "
        f"{worst[unfair]:.3g} times under {unfair}; one draw of jobs, so without an interval."
    )
