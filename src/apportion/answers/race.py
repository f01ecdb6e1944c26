"""`recommend`: which policy, by a race over paired draws in which losers are dropped early."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.answers.evidence import LOOKS, MATTERS, TELLS, SequentialTest, one_source, read_looks
from apportion.checks import choice, number
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

FIGURES: Mapping[str, str] = {
    "mean_jct_s": "mean JCT",
    "median_jct_s": "median JCT",
    "p95_jct_s": "p95 JCT",
    "p99_jct_s": "p99 JCT",
    "makespan_s": "makespan",
    "ftf_max": "max FTF",
    "cost": "cost",
}
"""What a race may be about: figures above 0 of which less is better, and their names."""


@checked
def recommend(
    policies: Iterable[str | AnyDecider | Decides],
    workload: Any,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    figure: str = "mean_jct_s",
    level: float = 0.99,
    looks: Sequence[int] = LOOKS,
    first_seed: int = 0,
    out: str | Path | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    **settings: Unpack[SweepSettings],
) -> Recommendation:
    """Find the policy with the least of a figure, and say how sure that is.

    All policies run the same draws of the jobs. After each look a policy is dropped that is worse
    than another one by a paired test, by 1 % at least: smaller differences are none to speak of.
    The test is group sequential: Student's interval about the logarithms of the ratios, at a level
    shared out evenly over eight looks, taken or not, and all pairs of policies (Bonferroni)::

        1 - (1 - level) / (8 * policies * (policies - 1) / 2)

    So the chance that any policy is ever called worse than one that is not better, at any look, is
    at most 1 - level, whatever their number, as far as the logarithms are nearly normal; also if
    the race goes on after its answer has been seen, up to eight looks in all. The race ends early
    if no two of those who are left differ by 1 %.

    Parameters
    ----------
    policies, cluster
        As for `apportion.sweep`; two policies at least.
    workload
        One, as `apportion.sweep` takes it. Arguments of a generator are drawn anew for each seed,
        stretches of a log, or of a `Workload`, are resampled
        (`apportion.answers.evidence.between` says what that changes).
    figure
        A key of `apportion.answers.race.FIGURES`.
    level
        Of everything that is said, together.
    looks
        Numbers of draws, growing; eight at most.
    first_seed
        Of the draws; the others follow it.
    out, n_jobs, progress
        As for `apportion.sweep`, from whose folder a race goes on.
    **settings
        As for `apportion.sweep`.

    Raises
    ------
    InputError
        For a figure or looks that are none, fewer than two policies, and as `apportion.sweep`.
    ApportionError
        If a run fails.
    """
    choice("figure", figure, [*FIGURES])
    number("level", level, strict=True, most=1 - 1e-9)
    looks = read_looks(looks)
    _, resampled = one_source(workload)
    left, runs, seen = list(policies), pd.DataFrame(), 0
    if len(left) < 2:
        raise InputError("A race needs two policies at least.")
    race = SequentialTest(figure, level, (), resampled)
    notes: tuple[str, ...] = ()
    for look, count in enumerate(looks, start=1):
        seeds = range(first_seed + seen, first_seed + count)
        swept = sweep(
            left,
            [workload],
            cluster,
            seeds=seeds,
            resample="blocks" if resampled else False,
            out=out,
            n_jobs=n_jobs,
            progress=progress,
            raise_on_failure=True,
            **settings,
        )
        found, notes = swept.table(), tuple(swept.notes)
        runs, seen = pd.concat([runs, found], ignore_index=True), count
        labels = list(dict.fromkeys(found["policy"]))
        race.policies = race.policies or tuple(labels)
        losers = race.losers(runs, labels, look)
        left = [one for one, label in zip(left, labels, strict=True) if label not in losers]
        kept = [label for label in labels if label not in losers]
        if len(left) == 1 or race.same(runs, kept) or race.alike(runs, kept):
            break
    return Recommendation(race.figure, level, runs, race.dropped, race, notes)


@dataclass(frozen=True, eq=False, repr=False)
class Recommendation:
    """What `apportion.recommend` returns.

    Attributes
    ----------
    figure, level
        What the race was about, and the level of what is said.
    runs
        One row per run, as `Sweep.table` has them.
    dropped
        By whom each loser was beaten, and at which look, from 1.
    race
        The test.
    notes
        What must be known of the workload.
    """

    figure: str
    level: float
    runs: pd.DataFrame
    dropped: Mapping[str, tuple[str, int]]
    race: SequentialTest
    notes: tuple[str, ...] = ()

    @property
    def left(self) -> list[str]:
        """Those whom nobody beat, as they were given: where there are several, none leads."""
        return [label for label in self.race.policies if label not in self.dropped]

    def unbeaten(self, labels: Sequence[str]) -> list[str]:
        """Return those of some policies that no other of them surely beats."""
        apart = {(a, b): self.race.difference(self.runs, a, b) for a in labels for b in labels}
        return [
            one
            for one in labels
            if not any(apart[one, b].sure and apart[one, b].ratio > 1 for b in labels if b != one)
        ]

    @property
    def best(self) -> str | None:
        """The policy that beat all others; None where there is no difference to one of them."""
        return self.left[0] if len(self.left) == 1 else None

    def table(self) -> pd.DataFrame:
        """One row per policy: ``draws``, the mean figure, and how it compares with the first.

        ``ratio``, ``low`` and ``high`` are the factor to the policy with the least figure, with
        its interval at the level of the race (`recommend`); ``dropped_at`` is the look, or 0.
        """
        means = {
            label: float(np.exp(np.log(self._shared(label)).mean())) for label in self.race.policies
        }
        kept = [label for label in means if label not in self.dropped]
        first = min(kept, key=lambda label: means[label])
        rows = []
        for label in sorted(means, key=lambda label: (label in self.dropped, means[label])):
            own = self.runs[self.runs["policy"] == label]
            apart = self.race.difference(self.runs, label, first)
            told = {"policy": label, "draws": len(own), self.figure: own[self.figure].mean()}
            told |= {"ratio": apart.ratio, "low": apart.low, "high": apart.high}
            rows.append(told | {"dropped_at": self.dropped.get(label, ("", 0))[1]})
        return pd.DataFrame(rows).set_index("policy")

    def _shared(self, label: str) -> pd.Series[float]:
        """Return the figures of a policy at the draws that all ran."""
        looks = self.runs.groupby("seed")["policy"].nunique()
        seeds = looks.index[looks == len(self.race.policies)]
        own = self.runs[self.runs["policy"] == label].set_index("seed")[self.figure]
        return own.loc[seeds]

    def sentence(self) -> str:
        """Say which policy to take, with the interval, or that there is no difference."""
        name, table, left = FIGURES[self.figure], self.table(), self.left
        sure = f"{self.level:.0%} sure"
        if len(left) == 1:
            rivals = table.drop(index=left).sort_values("ratio")
            rival = str(rivals.index[0])
            beaten = self.race.difference(self.runs, left[0], rival)
            gain = f"{1 - beaten.ratio:.1%} less {name} than {rival}, which comes nearest,"
            least, most = 1 - beaten.high, 1 - beaten.low
            return f"Take {left[0]}: {gain} [{least:.1%}, {most:.1%}], {sure}."
        near = ", ".join(left)
        if self.race.same(self.runs, left):
            return f"No difference between {near}: the same {name} in every draw."
        apart = {label: self.race.difference(self.runs, label, left[0]) for label in left[1:]}
        if not any(each.tells for each in apart.values()):
            short = (
                "The log is too short, or the draws are too few,"
                if self.race.resampled
                else "The draws are too few"
            )
            return (
                f"{short} to tell which is better of {near}: from draw to draw their {name} "
                f"differs so much that the ends of an interval are over {TELLS:g} times apart."
            )
        wide = f"(an interval over {TELLS:g} times wide)"
        rest = [f"{label} {each if each.tells else wide}" for label, each in apart.items()]
        alike = self.race.alike(self.runs, left)
        what = f"that matters (all within {MATTERS:.0%})" if alike else "that is more than chance"
        said = f"No difference in {name} {what} between {near}"
        return f"{said}: to {left[0]} the ratios are {', '.join(rest)}, {sure}."

    def sentences(self) -> list[str]:
        """Say the answer, who was dropped, and what it rests on."""
        said = [self.sentence()]
        unit, seconds, table = "", 1.0, self.table()
        if self.figure.endswith("_s"):
            unit, seconds = time_unit(float(table[self.figure].max()))
        for label, (better, look) in self.dropped.items():
            apart = self.race.difference(self.runs, label, better)
            value = table[self.figure].to_dict()[label] / seconds
            said.append(
                f"Dropped at look {look}: {label} ({value:.3g} {unit}), {apart} of {better}."
            )
        draws = int(self.runs["seed"].nunique())
        what = (
            "resamples of stretches of one log: intervals say how far a log like it may be off by "
            "chance"
            if self.race.resampled
            else "draws of the workload"
        )
        said.append(
            f"It rests on {draws} {what}; on speeds and costs of starts as told; paired tests at "
            f"{self.race.level_of_pair:.3%} each, together {self.level:.0%}."
        )
        return said

    def __repr__(self) -> str:
        return "\n".join(self.sentences())
