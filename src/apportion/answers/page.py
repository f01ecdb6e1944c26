"""What was found about a log, put into words: the parts of a page of advice."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.answers.advice import AdvicePart, costs_in_words
from apportion.sim.recorded_types import not_told
from apportion.sim.traces.recorded_times import most_at_once
from apportion.statistics import paired
from apportion.statistics.intervals import batch_figures

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from apportion.answers.other_clusters import OtherClusters
    from apportion.answers.recommendation import Recommendation
    from apportion.experiments import Comparison

RECORDED = "as_recorded"
LEVEL = 0.95
"""Of the intervals of all policies together, where one of them is chosen."""

_SHOWN = 5
_NEAR = 1.1
"""How many times its GPUs a log may seem to use, as its seconds are whole, or few were swapped."""


def gpus_at_least(jobs: pd.DataFrame) -> str:
    """Say how many GPUs of each type there were at least, where the log tells types."""
    if "recorded_on" not in jobs:
        return ""
    used = [f"{kind}={most_at_once(rows)}" for kind, rows in jobs.groupby("recorded_on")]
    return f", with at least {','.join(used)}"


@dataclass(frozen=True)
class Page:
    """Puts what was found into words.

    Attributes
    ----------
    compared, at_costs
        The log itself under all policies, and that at several costs of starts.
    race
        Which policy is better.
    knowing
        Labels of those that go by durations.
    command, seed
        What commands are about.
    lacks
        What they do not say of it, in sentences.
    """

    compared: Comparison
    at_costs: Comparison
    race: Recommendation
    knowing: frozenset[str]
    command: tuple[str, ...] = field(kw_only=True)
    seed: int = field(kw_only=True, default=0)
    lacks: tuple[str, ...] = field(kw_only=True, default=())

    def parts(self, change: OtherClusters, add: str, by: str | None) -> tuple[AdvicePart, ...]:
        """Return the page; `change` is what more GPUs do, `add`, and `by` a column of jobs."""
        found = [self._loses(), self._which(), self._costs(), self._possible()]
        found.append(self._more(change, add))
        if by is not None:
            found.append(self._groups(by))
        return (*found, self._rests())

    def unaware(self) -> list[str]:
        """Return who goes by no durations, and is beaten by nobody who does neither."""
        return self.race.unbeaten([each for each in self.race.policies if not self._knows(each)])

    def _knows(self, label: str) -> bool:
        """Whether a decider goes by how long jobs still run."""
        return label in self.knowing

    @property
    def _racing(self) -> str:
        return ",".join(self.race.policies)

    def _line(self, name: str, *words: str) -> str:
        return shlex.join(["apportion", name, *self.command, *words])

    def _compare(self, *words: str) -> str:
        return self._compared([*self.compared, *self.compared.errors], *words)

    def _compare_policies(self) -> str:
        return self._compared(self.race.policies)

    def _compared(self, policies: Sequence[str], *words: str) -> str:
        seed = ("--seed", str(self.seed)) if self.seed else ()
        return self._line("compare", "--policies", ",".join(policies), *seed, *words)

    def _mean_h(self, label: str, column: str = "jct_s") -> float:
        return float(self.compared[label].measured[column].mean()) / 3600

    def _loses(self) -> AdvicePart:
        """Say what the scheduler of the log loses."""
        question = "What does your scheduler lose?"
        if RECORDED not in self.compared:
            why = not_told(self.compared.workload.jobs, self.compared.cluster)
            why = why or "the log tells no starts and ends of jobs"
            why = self.compared.errors.get(RECORDED, f"{why}.")
            return AdvicePart(question, (f"That cannot be said: {why}",), self._compare())
        said = [
            f"As recorded, jobs took {self._mean_h(RECORDED):.2f} h from arrival to end in the "
            f"mean, {self._mean_h(RECORDED, 'queueing_s'):.2f} h of it waiting."
        ]
        said += self._other_sizes()
        if not self._comparable:
            return AdvicePart(question, tuple(said), self._compare())
        tables = {label: run.measured for label, run in self.compared.runs.items()}
        batches = batch_figures(tables).get("mean_jct_s")
        labels = list(tables)
        said += self._other_types(labels[1:])
        for label in labels[1:]:
            said.append(self._against_the_log(label, batches, labels))
        said.append(
            "The replay knows no failures, quotas, drained machines or waiting for other "
            "resources, so not all of a gain is the scheduler's. Starts are charged on top of the "
            "durations of the log."
        )
        return AdvicePart(question, tuple(said), self._compare("--against", RECORDED))

    @property
    def _peak(self) -> int:
        """GPUs that the log had in use at once."""
        return most_at_once(self.compared.workload.jobs)

    @property
    def _comparable(self) -> bool:
        """Whether the log's scheduler had about the GPUs that deciders get."""
        return self._peak <= _NEAR * self.compared.cluster.total_gpus

    def _other_sizes(self) -> list[str]:
        """Say where the log's scheduler had other GPUs than deciders get."""
        peak, total = self._peak, self.compared.cluster.total_gpus
        if not self._comparable:
            return [
                f"What another would have done cannot be said: the log had {peak:,} GPUs in use at "
                f"once, and the cluster given has {total:,}. Give the one on which it ran"
                f"{gpus_at_least(self.compared.workload.jobs)}."
            ]
        if peak > total:
            return [
                f"The log had {peak:,} GPUs in use at once, and the cluster given has "
                f"{total:,}: the comparison below is unfair to the deciders."
            ]
        if peak < 0.8 * total:
            return [
                f"The log never had more than {peak:,} GPUs in use, and the cluster given has "
                f"{total:,}: if fewer were there, the gains below are too large."
            ]
        return []

    def _other_types(self, labels: Sequence[str]) -> list[str]:
        """Say where jobs would be done sooner than without any wait."""
        waited_h, took_h = self._mean_h(RECORDED, "queueing_s"), self._mean_h(RECORDED)
        gains_h = [took_h - self._mean_h(label) for label in labels]
        if not gains_h or max(gains_h) <= waited_h + 0.01 * took_h:
            return []
        return [
            f"No scheduler gains more than those {waited_h:.2f} h by shorter waits. What is beyond "
            f"that below comes of running jobs on faster GPUs than the log did, at speeds that it "
            f"does not tell."
        ]

    def _against_the_log(
        self, label: str, batches: np.ndarray | None, labels: Sequence[str]
    ) -> str:
        """Say by how much jobs would have been done earlier under a decider."""
        knows = " (it knows how long each job will run)" if self._knows(label) else ""
        means = f"{label}{knows}: {self._mean_h(label):.2f} h"
        if batches is None:
            return f"{means}; too few jobs to tell chance apart."
        row = labels.index(label)
        # To the millisecond: what a replay adds up in another order is no difference.
        hours = np.round(batches, 3) / 3600
        apart = paired(hours[row], hours[0])
        interval = f"{apart.estimate:+.2f} h [{apart.low:+.2f}, {apart.high:+.2f}]"
        if not apart.sure:
            return f"{means}, {interval}: no difference that is more than chance."
        each = 1 - (1 - LEVEL) / (len(labels) - 1)
        surely = paired(hours[row], hours[0], level=each).sure
        word = "earlier" if apart.estimate < 0 else "later"
        return f"{means}, {interval} {word if surely else f'(perhaps {word})'}."

    def _which(self) -> AdvicePart:
        said, left = self.race.sentences(), self.race.left
        aware = [label for label in left if self._knows(label)]
        if aware:
            others = self.unaware()
            best = f"Of those that do not, take {others[0]}." if len(others) == 1 else ""
            if len(others) > 1:
                best = f"Among those that do not, none is surely better: {', '.join(others)}."
            said.insert(
                1,
                f"Going by how long jobs run, known here to the second: {', '.join(aware)}. With "
                f"guesses of users that may gain less, or nothing. {best}".rstrip(),
            )
        draws = str(int(self.race.runs["seed"].max()) + 1)
        line = self._line("recommend", "--policies", self._racing, "--draws", draws)
        return AdvicePart("Which decider?", tuple(said), line)

    def _costs(self) -> AdvicePart:
        """Say what costs of restarts do to the answer."""
        at = {1.0: self.at_costs.runs, **self.at_costs.at_other_costs}
        line = self._compare_policies()
        question = "What do restart costs do to the answer?"
        if len(at) == 1:
            said = "Not tried: start costs are simulated at 0 and 5 times theirs up to 250 jobs."
            return AdvicePart(question, (said,), f"{line} --start-costs 0,5")
        return AdvicePart(question, costs_in_words(at, LEVEL), line)

    def _possible(self) -> AdvicePart:
        """Say how far the best is from anything possible."""
        notes = [note for note in self.at_costs.notes if "anything possible" in note]
        line, question = self._compare_policies(), "How far from possible?"
        if not notes:
            said = "Not worked out: the log has more than 1,000 jobs."
            return AdvicePart(question, (said,), line)
        limits = (
            "On this log, all of it known beforehand. A floor, not a promise: the best possible "
            "schedule may lie anywhere above it."
        )
        return AdvicePart(question, (f"{notes[0]}.", limits), line)

    def _more(self, change: OtherClusters, add: str) -> AdvicePart:
        """Say what more GPUs bring."""
        table = change.sweep.table()
        policies, seeds = list(dict.fromkeys(table["policy"])), table["seed"].unique()
        among = len(self.race.policies)
        level = 1 - (1 - LEVEL) / among
        words = ["--policies", ",".join(policies), "--add", add, "--draws", str(len(seeds))]
        words += ["--first-seed", str(seeds.min()), "--level", f"{level:g}"]
        chosen = (
            f"(Other draws than those that chose among policies; {level:.0%} each is {LEVEL:.0%} "
            f"for all {among} of them, whichever was chosen.)"
        )
        said = (*change.sentences(level), f"({change.rests_on}.)", chosen)
        return AdvicePart(f"What would {add} bring?", said, self._line("what-if", *words))

    def _groups(self, by: str) -> AdvicePart:
        """Say what the largest groups of jobs had."""
        shown = [label for label in self.race.left if label in self.compared.runs][:1]
        base = RECORDED if RECORDED in self.compared else shown[0]
        beside = base == RECORDED and self._comparable
        table = self.compared.runs[base].by(by).sort_values("share", ascending=False)
        best = self.compared.runs[shown[0]].by(by) if beside else None
        said = [
            f"The {min(_SHOWN, len(table))} of {len(table)} with most GPU time, mean wait in one "
            f"run, without intervals "
            + ("as recorded" if base == RECORDED else f"({base})")
            + f", and under {shown[0]}" * beside
            + ":"
        ]
        for name, row in table.head(_SHOWN).iterrows():
            said.append(_group_line(name, row, best))
        return AdvicePart(f"By {by}?", tuple(said), self._compare("--by", by))

    def _rests(self) -> AdvicePart:
        notes = tuple(dict.fromkeys(f"{note}." for note in self.compared.workload.notes))
        more = (
            "Jobs come when they came, whatever their users would do with shorter waits.",
            "One log: another month may be another answer.",
        )
        return AdvicePart("What does this rest on?", (*notes, *more, *self.lacks), self._compare())


def _group_line(name: object, row: pd.Series[Any], best: pd.DataFrame | None) -> str:
    wait = f"{row['queueing_s'] / 3600:.2f} h"
    if best is not None:
        other = best["queueing_s"].to_dict()[name]
        wait += f", {other / 3600:.2f} h"
    return f"{name}: {row['share']:.0%} of GPU time, {row['jobs']:,.0f} jobs, wait {wait}"
