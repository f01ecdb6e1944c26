"""Figures of a sweep over its seeds: means and ranges, and paired differences of policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.statistics.differences import differences_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

_CLOCKS = ("policy_seconds", "wall_seconds")
"""Figures that hang on the machine and not on the runs."""


def over_seeds(runs: pd.DataFrame, point: Sequence[str]) -> pd.DataFrame:
    """Return the mean and range of each figure over seeds that did not fail, a row per point.

    Parameters
    ----------
    runs
        As `Sweep.table` returns it.
    point
        The columns that tell a point.
    """
    groups = runs[runs["error"].isna()].groupby(list(point), sort=False)
    parts: list[pd.Series[Any]] = [groups.size().rename("seeds")]
    for figure in runs.columns.drop([*point, "seed", "error"]):
        values = groups[figure]
        if not pd.api.types.is_numeric_dtype(runs[figure]):
            parts.append(values.agg(_said).rename(figure))
            continue
        parts += [
            values.mean().rename(figure),
            values.min().rename(f"{figure}_lowest"),
            values.max().rename(f"{figure}_highest"),
        ]
    return pd.concat(parts, axis=1).reset_index()


def _said(texts: pd.Series[str]) -> str:
    """Return texts without blanks, each once."""
    return "; ".join(dict.fromkeys(texts.dropna()))


def _figures(summary: pd.DataFrame) -> list[str]:
    """Return the figures of which there is a range."""
    return [name for name in summary.columns if f"{name}_lowest" in summary]


def same_at_all_seeds(summary: pd.DataFrame) -> bool:
    """Whether no figure of a summary but those of clocks differs between seeds."""
    return all(
        summary[f"{figure}_lowest"].equals(summary[f"{figure}_highest"])
        for figure in _figures(summary)
        if figure not in _CLOCKS
    )


def by_seed(
    runs: pd.DataFrame, policies: Sequence[str], figures: Sequence[str]
) -> dict[str, NDArray[np.float64]]:
    """Return figures by policy and seed, of seeds at which no policy failed."""
    table: Any = runs.pivot(index="policy", columns="seed", values=list(figures))
    table = table.reindex(list(policies))
    return {each: table[each].dropna(axis=1).to_numpy(dtype=float) for each in figures}


def differences_at(
    runs: pd.DataFrame, summary: pd.DataFrame, point: Sequence[str], against: str, level: float
) -> pd.DataFrame:
    """Return paired differences from one policy at each point, under each other.

    Parameters
    ----------
    runs, summary
        As `Sweep.table` and `Sweep.summary` return them.
    point
        The columns that tell a point, without that of the policy.
    against, level
        As for `apportion.statistics.differences_of`, which says what it refuses.
    """
    figures = [name for name in _figures(summary) if name not in ("jobs", *_CLOCKS)]
    tables = []
    for at, here in runs.groupby(list(point), sort=False):
        there = (summary[[*point]] == list(at)).all(axis=1)
        policies = list(summary.loc[there, "policy"])
        found = differences_of(by_seed(here, policies, figures), policies, against, level)
        for name, value in reversed(list(zip(point, at, strict=True))):
            found.insert(0, name, [value] * len(found))
        tables.append(found)
    return pd.concat(tables, ignore_index=True)
