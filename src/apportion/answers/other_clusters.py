"""`what_if`: what other GPUs, or another load, would do to the jobs of a cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.answers.clusters_page import changed_clusters, clusters_page, floors_in_words
from apportion.answers.evidence import between, blocks_of, in_words, one_source, rests_on
from apportion.checks import listed, number
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.experiments import sweep
from apportion.experiments.fitted_jobs import made_for
from apportion.report.files import written_too
from apportion.report.tables import time_unit
from apportion.sim.floors import Floor, floor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from apportion.answers.clusters_page import Changes
    from apportion.experiments import Sweep
    from apportion.experiments.sources import Source
    from apportion.mechanism.own import Decides
    from apportion.mechanisms.setting_names import SweepSettings
    from apportion.sim.deciders import AnyDecider

MOST_JOBS = 1000
"""Jobs of which a floor is worked out unasked, as it takes seconds."""

FIGURES = ("mean_jct_s", "p95_jct_s", "queueing_s")
"""Figures that are set against those of today."""


@checked
def what_if(
    policies: Iterable[str | AnyDecider | Decides],
    workload: Any,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    add: Changes | None = None,
    remove: Changes | None = None,
    rates: Sequence[float] = (),
    seeds: Sequence[int] = range(16),
    out: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    **settings: Unpack[SweepSettings],
) -> OtherClusters:
    """Simulate the same jobs with other GPUs, and at other rates of arrival.

    Every change of the cluster stands by itself, at every rate; each is set against the cluster as
    it is at rate 1, over the same draws of jobs. It is a sweep over clusters and loads
    (`apportion.sweep`), and goes on from `out` as one.

    Parameters
    ----------
    policies, cluster
        As for `apportion.sweep`.
    workload
        One workload as `apportion.sweep` takes it. Arguments of a generator are drawn anew for
        each seed; the jobs of a log, or of a `Workload`, are resampled for each.
    add, remove
        GPUs by type, each number a change of its own: ``"a100=8,16"`` or ``{"a100": [8, 16]}``.
    rates
        Factors of the arrival rate, beside 1.
    seeds
        Of the draws; two at least for intervals.
    out, n_jobs, progress
        As for `apportion.sweep`.
    **settings
        As for `apportion.sweep`.

    Raises
    ------
    InputError
        If nothing is changed, for changes that cannot be, and as `apportion.sweep`.
    ApportionError
        If a run fails; the others are kept in `out`.
    """
    source, resampled = one_source(workload)
    clusters = changed_clusters(Cluster.of(cluster), add, remove)
    several = [number("A rate", each, strict=True) for each in listed("rates", rates)]
    loads = list(dict.fromkeys([1.0, *several]))
    if len(clusters) * len(loads) == 1:
        raise InputError("Nothing is changed; give add='a100=8', remove='k80=8' or rates=[1.2].")
    swept = sweep(
        policies,
        [workload],
        list(clusters.values()),
        loads=loads,
        seeds=seeds,
        resample="blocks" if resampled else False,
        out=out,
        n_jobs=n_jobs,
        progress=progress,
        raise_on_failure=True,
        **settings,
    )
    return OtherClusters(swept, clusters, source, resampled=resampled)


@dataclass(frozen=True, eq=False, repr=False)
class OtherClusters:
    """What `apportion.what_if` returns.

    Attributes
    ----------
    sweep
        All runs.
    clusters
        By what is changed; the first is ``"today"``.
    source
        Where the jobs come from.
    resampled
        Whether they are resamples of one log.
    """

    sweep: Sweep
    clusters: Mapping[str, Cluster]
    source: Source
    resampled: bool = field(kw_only=True)

    def table(self, level: float = 0.95) -> pd.DataFrame:
        """One row per policy, change and rate.

        Returns
        -------
        DataFrame
            ``policy``, ``change``, ``rate``, ``pairs``; of ``mean_jct_s``, ``p95_jct_s`` and
            ``queueing_s`` the mean over the draws, and the factor by which it is that of today
            under the same policy, ``<figure>_ratio``, with the ends of its interval,
            ``<figure>_low`` and ``<figure>_high``
            (`apportion.answers.evidence.between`); ``owned_usd_per_hour``, what all GPUs cost, and
            ``used_usd_per_hour``, those that jobs hold, NaN without prices.
        """
        runs = self._runs()
        blocks = blocks_of(runs) if self.resampled else 0
        rows = []
        at_today = (runs["change"] == "today") & (runs["load"] == 1)
        for (policy, change, rate), own in runs.groupby(["policy", "change", "load"], sort=False):
            today = runs[at_today & (runs["policy"] == policy)]
            row: dict[str, Any] = {"policy": policy, "change": change, "rate": rate}
            row["pairs"] = len(own)
            for figure in FIGURES:
                row[figure] = own[figure].mean()
                found = between(own[figure], today[figure], blocks=blocks, level=level)
                row |= {f"{figure}_ratio": found.estimate, f"{figure}_low": found.low}
                row[f"{figure}_high"] = found.high
            rows.append(row | self._dollars(self.clusters[str(change)], own))
        return pd.DataFrame(rows)

    def _runs(self) -> pd.DataFrame:
        """Return all runs by seed, with what is changed."""
        runs = self.sweep.table().set_index("seed")
        changes = {str(each): name for name, each in self.clusters.items()}
        runs["change"] = runs["cluster"].map(changes) if "cluster" in runs else "today"
        return runs

    def _dollars(self, cluster: Cluster, runs: pd.DataFrame) -> dict[str, float]:
        """Return what GPUs cost in an hour, all and those that jobs hold."""
        owned = float((cluster.counts * cluster.prices).sum())
        if "measure" in self.source.fitting:  # the costs of some jobs are no costs of an hour
            return {"owned_usd_per_hour": owned, "used_usd_per_hour": np.nan}
        used = float((runs["cost"] / (runs["makespan_s"] / 3600)).mean())
        return {"owned_usd_per_hour": owned, "used_usd_per_hour": used}

    @cached_property
    def floors(self) -> dict[str, Floor]:
        """What no schedule of the first draw is better than, by change, at rate 1.

        Nothing for elastic jobs, and where it would take long.
        """
        seed = int(self.sweep.table()["seed"].iloc[0])
        found = {}
        for change, cluster in self.clusters.items():
            jobs = made_for(
                *(self.source, cluster, 1.0, seed),
                resample="blocks" if self.resampled else False,
                beside=tuple(self.clusters.values()),
            )
            if jobs.elastic is True or len(jobs.jobs) > MOST_JOBS:
                return {}
            found[change] = floor(jobs, cluster)
        return found

    def sentences(self, level: float = 0.95) -> list[str]:
        """Say what each change does, and what no schedule is below (`effects`, `floors`)."""
        said = self.effects(level)
        if self.floors:
            said += floors_in_words(self.floors, self.clusters, self._first_means_s())
        return said

    def effects(self, level: float = 0.95) -> list[str]:
        """Say for each change what it does to the mean completion time, with its interval."""
        said = []
        for policy, rows in self.table(level).groupby("policy", sort=False):
            today = rows.iloc[0]
            for _, row in rows.iloc[1:].iterrows():
                said.append(f"{policy}, {_change(row)}: {_effect(row, today, level)}.")
        return said

    def _first_means_s(self) -> dict[str, dict[str, float]]:
        """Return the mean completion times of the first draw at rate 1, by policy and change."""
        runs = self._runs()
        runs = runs[(runs.index == runs.index[0]) & (runs["load"] == 1)]
        found: dict[str, dict[str, float]] = {}
        for run in runs.to_dict("records"):
            found.setdefault(str(run["policy"]), {})[run["change"]] = float(run["mean_jct_s"])
        return found

    def dollars(self) -> list[str]:
        """Say what the GPUs cost, all and those that jobs hold, where prices are known."""
        said = []
        for _, row in self.table().iterrows():
            owned, used = row["owned_usd_per_hour"], row["used_usd_per_hour"]
            if np.isfinite(owned):
                held = f", {used:,.2f} of them in use" if np.isfinite(used) else ""
                name = _change(row) or "today"
                said.append(f"{row['policy']}, {name}: {owned:,.2f} $/h owned{held}.")
        return said

    @property
    def rests_on(self) -> str:
        """Say what the intervals are over."""
        draws = int(self.sweep.table()["seed"].nunique())
        return f"intervals: {rests_on(draws, resampled=self.resampled)}"

    def to_html(self, path: str | Path | None = None, *, level: float = 0.95) -> str:
        """Return the report as one self-contained HTML page, and write it if a path is given.

        Raises
        ------
        ApportionError
            If jinja2 is not installed.
        """
        return written_too(path, clusters_page(self, level))

    def __repr__(self) -> str:
        return "\n".join([*self.sentences(), f"({self.rests_on})"])


def _change(row: pd.Series[Any]) -> str:
    rate = f"{row['rate']:g} times the arrivals" if row["rate"] != 1 else ""
    change = row["change"] if row["change"] != "today" else ""
    return " at ".join(filter(None, [change, rate]))


def _effect(row: pd.Series[Any], today: pd.Series[Any], level: float) -> str:
    """Say what becomes of the mean completion time, and whether that is more than chance."""
    unit, seconds = time_unit(today["mean_jct_s"])
    ratio, low, high = (float(row[f"mean_jct_s_{end}"]) for end in ("ratio", "low", "high"))
    means = f"mean JCT {today['mean_jct_s'] / seconds:.2f} -> {row['mean_jct_s'] / seconds:.2f}"
    if low == high == 1:
        return f"no difference at all: {means} {unit}"
    effect = "no difference that is more than chance"
    if low > 1 or high < 1:
        effect = "shorter" if ratio < 1 else "longer"
    at = f" at {100 * level:g}%" * math.isfinite(low)
    return f"{effect}: {means} {unit}, {in_words(ratio, low, high)}{at}"
