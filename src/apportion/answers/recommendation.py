"""`recommend`: which policy, by paired intervals over draws of the jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.answers.evidence import between, blocks_of, in_words, one_source, rests_on
from apportion.checks import choice, number, whole
from apportion.errors import InputError
from apportion.experiments import sweep
from apportion.report.tables import time_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from apportion.cluster import Cluster
    from apportion.mechanism.own import Decides
    from apportion.mechanisms.setting_names import SweepSettings
    from apportion.sim.deciders import AnyDecider
    from apportion.statistics import Paired

FIGURES: Mapping[str, str] = {
    "mean_jct_s": "mean JCT",
    "median_jct_s": "median JCT",
    "p95_jct_s": "p95 JCT",
    "p99_jct_s": "p99 JCT",
    "makespan_s": "makespan",
    "ftf_max": "max FTF",
    "cost": "cost",
}
"""By what policies may be compared: figures above 0 of which less is better, and their names."""


@checked
def recommend(
    policies: Iterable[str | AnyDecider | Decides],
    workload: Any,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    figure: str = "mean_jct_s",
    level: float = 0.99,
    draws: int = 16,
    first_seed: int = 0,
    out: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    **settings: Unpack[SweepSettings],
) -> Recommendation:
    """Find the policy with the least of a figure, and say how sure that is.

    All policies run the same draws of the jobs. The one with the least geometric mean is set
    against each of the others (`apportion.answers.evidence.between`), by intervals of the ratio at
    the level that Bonferroni gives to pairs with one policy::

        1 - (1 - level) / (policies - 1)

    A policy is named if all its intervals leave out 1. The intervals against whichever policy is
    truly best hold together with probability `level`, as far as logarithms of ratios are nearly
    normal. Where they do, none is named but one that is better than all others, and a best one is
    always `Recommendation.left`. This is so for a number of draws that is chosen beforehand.

    Parameters
    ----------
    policies, cluster
        As for `apportion.sweep`; two policies at least.
    workload
        One, as `apportion.sweep` takes it. Arguments of a generator are drawn anew for each seed,
        stretches of a log, or of a `Workload`, are resampled
        (`apportion.answers.evidence.between` says what that changes).
    figure
        A key of `apportion.answers.recommendation.FIGURES`.
    level
        Of the answer.
    draws
        Of the workload, two at least.
    first_seed
        Of the draws; the others follow it.
    out, n_jobs, progress
        As for `apportion.sweep`, from whose folder the call goes on.
    **settings
        As for `apportion.sweep`.

    Raises
    ------
    InputError
        For an unknown figure, or one that no draw tells of all policies, fewer than two policies or
        draws, and as `apportion.sweep`.
    ApportionError
        If a run fails.
    """
    choice("figure", figure, [*FIGURES])
    number("level", level, strict=True, most=1 - 1e-9)
    whole("draws", draws, 2)
    _, resampled = one_source(workload)
    several = list(policies)
    if len(several) < 2:
        raise InputError("recommend chooses among policies; give two policies at least.")
    swept = sweep(
        several,
        [workload],
        cluster,
        seeds=range(first_seed, first_seed + draws),
        resample="blocks" if resampled else False,
        out=out,
        n_jobs=n_jobs,
        progress=progress,
        raise_on_failure=True,
        **settings,
    )
    found = Recommendation(figure, level, swept.table(), tuple(swept.notes), resampled=resampled)
    if found.figures.empty:
        known = [name for name in FIGURES if (found.runs[name] > 0).all()]
        raise InputError(
            f"{figure} is 0 or unknown in every draw; choose among {', '.join(known)}."
        )
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation:
    """What `apportion.recommend` returns.

    Attributes
    ----------
    figure, level
        By what policies are compared, and the level of the answer.
    runs
        One row per run, as `Sweep.table` has them.
    notes
        What must be known of the workload.
    resampled
        Whether draws are resamples of one log.
    """

    figure: str
    level: float
    runs: pd.DataFrame
    notes: tuple[str, ...] = ()
    resampled: bool = field(kw_only=True)

    @property
    def policies(self) -> list[str]:
        """All, as they were given."""
        return list(dict.fromkeys(self.runs["policy"]))

    @property
    def level_of_pair(self) -> float:
        """The level of each interval: the other policies share the chance of an error."""
        return 1 - (1 - self.level) / (len(self.policies) - 1)

    @cached_property
    def figures(self) -> pd.DataFrame:
        """The figure by draw and policy, of draws in which it is known of all and above 0."""
        found = self.runs.pivot(index="seed", columns="policy", values=self.figure)
        return found[self.policies].where(found > 0).dropna()

    def against_best(self, labels: Sequence[str]) -> dict[str, Paired]:
        """Set some policies against the one of them with the least geometric mean, best first."""
        figures = self.figures[list(labels)]
        best = figures[np.log(figures).mean().idxmin()]
        blocks = blocks_of(self.runs) if self.resampled else 0
        found = {
            label: between(figures[label], best, blocks=blocks, level=self.level_of_pair)
            for label in labels
        }
        return dict(sorted(found.items(), key=lambda each: each[1].estimate))

    def unbeaten(self, labels: Sequence[str]) -> list[str]:
        """Return who of some policies is not surely worse than the best of them."""
        apart = self.against_best(labels) if labels else {}
        return [each for each in labels if not apart[each].low > 1]

    @property
    def left(self) -> list[str]:
        """Those that may be best, as they were given: where there are several, none leads."""
        return self.unbeaten(self.policies)

    @property
    def best(self) -> str | None:
        """The policy that is better than all others; None where there is no difference to one."""
        return self.left[0] if len(self.left) == 1 else None

    def table(self) -> pd.DataFrame:
        """One row per policy, the best first: ``draws``, the mean figure, how it compares.

        ``ratio``, ``low`` and ``high`` are the factor to the policy with the least geometric mean,
        with its interval (`recommend`).
        """
        apart = self.against_best(self.policies)
        means = self.figures.mean()
        rows = [(label, each.pairs, means[label], *each[:3]) for label, each in apart.items()]
        columns = ["policy", "draws", self.figure, "ratio", "low", "high"]
        return pd.DataFrame(rows, columns=columns).set_index("policy")

    def sentence(self) -> str:
        """Say which policy to take, with the interval, or that there is no difference."""
        name, apart, left = FIGURES[self.figure], self.against_best(self.policies), self.left
        if len(left) == 1:
            rival, nearest = list(apart.items())[1]
            gain, least, most = (1 - 1 / each for each in nearest[:3])
            what = f"{gain:.1%} less {name} than {rival} [{least:.1%}, {most:.1%}]"
            return f"Take {left[0]}: {what}, {100 * self.level:g}% sure."
        if all(apart[each].ties == apart[each].pairs for each in left):
            return f"No difference between {', '.join(left)}: the same {name} in every draw."
        more = "a longer log" if self.resampled else "more draws"
        return (
            f"No difference in {name} that is more than chance between {', '.join(left)}; {more} "
            f"may tell them apart."
        )

    def sentences(self) -> list[str]:
        """Say the answer, how all policies compare, and what that rests on."""
        (best, _), *others = self.against_best(self.policies).items()
        value = float(self.figures[best].mean())
        unit, seconds = time_unit(value) if self.figure.endswith("_s") else ("", 1.0)
        ratios = ", ".join(f"{label} {in_words(*each[:3])}" for label, each in others)
        return [
            self.sentence(),
            f"Least {FIGURES[self.figure]}: {best}, {f'{value / seconds:.3g} {unit}'.rstrip()}. "
            f"Times that: {ratios} (at {100 * self.level_of_pair:.6g}% each).",
            f"Intervals: {rests_on(len(self.figures), resampled=self.resampled)}. It rests on "
            f"speeds and costs of starts as told.",
        ]

    def __repr__(self) -> str:
        return "\n".join(self.sentences())
