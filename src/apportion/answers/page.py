"""`advise`: one page on a log, in words, each part with the command that prints its numbers."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np

from apportion.annotations import checked
from apportion.answers.other_clusters import what_if
from apportion.answers.race import LOOKS, recommend
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.experiments import compare
from apportion.experiments.fitted_jobs import made_for
from apportion.experiments.sources import sources_of
from apportion.jobs import is_recorded, most_at_once
from apportion.report.files import write_text
from apportion.report.html import page_of
from apportion.statistics import paired
from apportion.statistics.batches import batch_figures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from apportion.answers.other_clusters import OtherClusters
    from apportion.answers.race import Recommendation
    from apportion.experiments import Comparison
    from apportion.mechanisms.setting_names import ComparisonSettings

__all__ = ["Advice", "AdvicePart", "advise"]

POLICIES = ("shortest_job_first", "max_min_fairness", "fcfs", "easy", "minimum_completion_time")
"""Who is asked where nobody says."""

RECORDED = "as_recorded"
_MORE_GPUS = 8
_SHOWN = 5
_KNOW_LENGTHS = (
    *("shortest_job_first", "makespan", "finish_time_fairness", "minimum_completion_time"),
    *("easy", "conservative", "allox", "min_cost_slos"),
)
"""Deciders that go by how long jobs still run, which a log tells and users do not."""


@checked
def advise(
    log: Any,
    cluster: Cluster | Mapping[str, int] | str,
    policies: Sequence[str] = POLICIES,
    *,
    add: str | None = None,
    by: str | None = None,
    draws: int = 16,
    seed: int = 0,
    out: str | Path | None = None,
    n_jobs: int | None = None,
    command: Sequence[str] = (),
    **settings: Unpack[ComparisonSettings],
) -> Advice:
    """Say what a scheduler loses, which one to take, and what would help, on one page.

    It puts `apportion.compare`, `apportion.recommend`, `apportion.floor` and `apportion.what_if`
    into words; what chance would do as well is said to be so.

    Parameters
    ----------
    log
        A workload as `apportion.sweep` takes it; one with recorded starts and ends for what the
        scheduler of the log loses.
    cluster
        Where it ran, as for `apportion.simulate`.
    policies
        Names of deciders to choose from, two at least.
    add
        GPUs to ask about, ``"a100=8"``; 8 more of the type that there is most of by default.
    by
        A column of the jobs for what groups had; ``user`` by default, if there is one.
    draws
        Resamples of the log, 4 at least.
    seed
        For what a log leaves open.
    out
        Folder for ``advice.html`` and ``advice.txt``, and where finished runs are kept.
    n_jobs
        Runs at once.
    command
        Options of the command line that say what this is about, for the commands on the page.
    **settings
        As for `apportion.compare`.

    Raises
    ------
    InputError
        As `apportion.compare` and `apportion.recommend`.
    ApportionError
        If a run fails.
    """
    cluster = Cluster.of(cluster)
    if len(policies) < 2:
        raise InputError("advise chooses among policies; give two at least.")
    if draws < LOOKS[0]:
        raise InputError(f"draws is {draws}; it must be {LOOKS[0]} at least.")
    (source,) = sources_of([log])
    jobs = made_for(source, cluster, 1.0, seed, resample=False)
    if jobs.elastic is True:
        raise InputError("advise is about jobs whose gangs have one size, not elastic ones.")
    recorded = is_recorded(jobs.jobs)
    folder = None if out is None else Path(out)

    def inside(name: str) -> Path | None:
        return None if folder is None else folder / name

    names = [*[RECORDED] * recorded, *policies]
    compared = compare(
        *(names, jobs, cluster),
        seed=seed,
        start_costs=() if recorded else "usual",
        n_jobs=n_jobs,
        out=inside("compare"),
        raise_on_failure=False,
        **settings,
    )
    at_costs = compared
    if recorded:
        at_costs = compare(
            *(policies, jobs, cluster),
            seed=seed,
            start_costs="usual",
            n_jobs=n_jobs,
            raise_on_failure=False,
            **settings,
        )
    looks = [*(each for each in LOOKS if each < draws), draws]
    given: dict[str, Any] = {"n_jobs": n_jobs, **settings}
    race = recommend(policies, log, cluster, looks=looks, out=inside("recommend"), **given)
    most = max(cluster.gpus, key=lambda name: cluster.gpus[name])
    more = add or f"{most}={_MORE_GPUS}"
    change = what_if(
        *([race.left[0]], log, cluster),
        add=more,
        seeds=range(draws),
        out=inside("whatif"),
        **given,
    )
    group = by or ("user" if "user" in jobs.jobs else None)
    page = _Page(compared, at_costs, race, change, command=tuple(command), add=more)
    advice = Advice(jobs.name, str(cluster), page.parts(group))
    if folder is not None:
        write_text(folder / "advice.txt", f"{advice}\n")
        write_text(folder / "advice.html", advice.to_html())
    return advice


class AdvicePart(NamedTuple):
    """A part of the page: a question, its answer in sentences, and the command that prints it."""

    question: str
    answer: tuple[str, ...]
    command: str


@dataclass(frozen=True)
class Advice:
    """What `apportion.advise` returns.

    Attributes
    ----------
    log, cluster
        Their names.
    parts
        The page from top to bottom.
    """

    log: str
    cluster: str
    parts: tuple[AdvicePart, ...]

    def __str__(self) -> str:
        blocks = [f"{self.log} on {self.cluster}"]
        for part in self.parts:
            blocks.append("\n".join([part.question, *part.answer, f"  $ {part.command}"]))
        return "\n\n".join(blocks)

    def to_html(self) -> str:
        """Return the page as one HTML file that loads nothing."""
        sections = []
        for part in self.parts:
            said = "".join(f"<p>{escape(each)}</p>" for each in part.answer)
            link = f'<p class="legend"><code>{escape(part.command)}</code></p>'
            sections.append((escape(part.question), said + link))
        return page_of(self.log, "What to do", f"{self.log} on {self.cluster}", sections)


@dataclass(frozen=True)
class _Page:
    """Puts what was found into words."""

    compared: Comparison
    at_costs: Comparison
    race: Recommendation
    change: OtherClusters
    command: tuple[str, ...] = field(kw_only=True)
    add: str = field(kw_only=True)

    def parts(self, by: str | None) -> tuple[AdvicePart, ...]:
        """Return the page."""
        found = [self._loses(), self._which(), self._costs(), self._possible(), self._more()]
        if by is not None:
            found.append(self._groups(by))
        return (*(part for part in found if part is not None), self._rests())

    def _line(self, name: str, *words: str) -> str:
        return shlex.join(["apportion", name, *self.command, *words])

    def _compare(self, *words: str) -> str:
        policies = ",".join([*self.compared, *self.compared.errors])
        return self._line("compare", "--policies", policies, *words)

    def _mean_h(self, label: str, column: str = "jct_s") -> float:
        return float(self.compared[label].measured[column].mean()) / 3600

    def _loses(self) -> AdvicePart:
        """Say what the scheduler of the log loses."""
        question = "What does your scheduler lose?"
        if RECORDED not in self.compared:
            why = self.compared.errors.get(RECORDED, "the log tells no starts and ends of jobs")
            return AdvicePart(question, (f"That cannot be said: {why}",), self._compare())
        said = [
            f"As recorded, jobs took {self._mean_h(RECORDED):.2f} h from arrival to end in the "
            f"mean, {self._mean_h(RECORDED, 'queueing_s'):.2f} h of it waiting."
        ]
        tables = {label: run.measured for label, run in self.compared.runs.items()}
        batches = batch_figures(tables).get("mean_jct_s")
        labels = list(tables)
        for label in labels[1:]:
            said.append(self._against_the_log(label, batches, labels))
        said += self._why_not_all()
        return AdvicePart(question, tuple(said), self._compare("--against", RECORDED))

    def _against_the_log(
        self, label: str, batches: np.ndarray | None, labels: Sequence[str]
    ) -> str:
        """Say by how much jobs would have been done earlier under a decider."""
        knows = " (it knows how long each job will run)" if _knows(label) else ""
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
        return f"{means}, {interval} {'earlier' if apart.estimate < 0 else 'later'}."

    def _why_not_all(self) -> list[str]:
        """Say what else may lie behind the waits of a log."""
        peak = most_at_once(self.compared.workload.jobs)
        total = self.compared.cluster.total_gpus
        said = [
            "The replay knows no failures, quotas, drained machines or waiting for other "
            "resources, so not all of a gain is the scheduler's. Starts are charged on top of the "
            "durations of the log."
        ]
        if peak > total:
            said.append(
                f"The log had {peak:,} GPUs in use at once, and the cluster given has "
                f"{total:,}: the comparison above is unfair to the deciders."
            )
        elif peak < 0.8 * total:
            said.append(
                f"The log never had more than {peak:,} GPUs in use, and the cluster given has "
                f"{total:,}: if fewer were there, these gains are too large."
            )
        return said

    def _which(self) -> AdvicePart:
        """Say which decider."""
        said = self.race.sentences()
        left = self.race.left
        if _knows(left[0]):
            blind = [label for label in self.race.table().index if not _knows(label)]
            said.insert(
                1,
                f"{left[0]} goes by how long jobs run, which is known here to the second; with "
                f"guesses of users it gains less."
                + (f" The best that does not is {blind[0]}." if blind else ""),
            )
        draws = str(int(self.race.runs["seed"].nunique()))
        policies = ",".join(self.race.race.policies)
        line = self._line("recommend", "--policies", policies, "--draws", draws)
        return AdvicePart("Which decider?", tuple(said), line)

    def _costs(self) -> AdvicePart | None:
        """Say what costs of restarts do to the answer."""
        at = {1.0: self.at_costs.runs, **self.at_costs.at_other_costs}
        line = self._line("compare", "--policies", ",".join(self.race.race.policies))
        question = "What do restart costs do to the answer?"
        if len(at) == 1:
            said = "Not tried: start costs are simulated at 0 and 5 times theirs up to 250 jobs."
            return AdvicePart(question, (said,), f"{line} --start-costs 0,5")
        best = {}
        for times, runs in sorted(at.items()):
            means = {label: float(run.measured["jct_s"].mean()) for label, run in runs.items()}
            label = min(means, key=lambda name: means[name])
            best[times] = label, means[label] / 3600
        said = "; ".join(
            f"x {times:g}: {name} {mean:.2f} h" for times, (name, mean) in best.items()
        )
        same = len({name for name, _ in best.values()}) == 1
        verdict = "the same is ahead at each" if same else "they change who is ahead"
        word = "Nothing" if same else "Perhaps something"
        answer = f"{word}: {verdict} (which may be chance): {said}."
        return AdvicePart(question, (answer,), line)

    def _possible(self) -> AdvicePart | None:
        """Say how far the best is from anything possible."""
        notes = [note for note in self.at_costs.notes if "anything possible" in note]
        line = self._line("compare", "--policies", ",".join(self.race.race.policies))
        question = "How far from possible?"
        if not notes:
            return AdvicePart(
                question, ("Not worked out: the log has more than 1,000 jobs.",), line
            )
        limits = "A floor, not a promise: the best possible schedule may lie anywhere above it."
        return AdvicePart(question, (f"{notes[0]}.", limits), line)

    def _more(self) -> AdvicePart:
        """Say what more GPUs bring."""
        policy = self.race.left[0]
        draws = str(int(self.change.sweep.table()["seed"].nunique()))
        words = ("--policies", policy, "--add", self.add, "--draws", draws)
        said = (*self.change.sentences(), f"({self.change.rests_on})")
        return AdvicePart(f"What would {self.add} bring?", said, self._line("whatif", *words))

    def _groups(self, by: str) -> AdvicePart:
        """Say what the largest groups of jobs had."""
        base = RECORDED if RECORDED in self.compared else self.race.left[0]
        table = self.compared.runs[base].by(by).sort_values("share", ascending=False)
        best = self.compared.runs[self.race.left[0]].by(by)
        said = [
            f"The {min(_SHOWN, len(table))} of {len(table)} with most GPU time, mean wait "
            + (f"as recorded, and under {self.race.left[0]}:" if base == RECORDED else f"({base}):")
        ]
        for name, row in table.head(_SHOWN).iterrows():
            said.append(_group_line(name, row, best if base == RECORDED else None))
        return AdvicePart(f"By {by}?", tuple(said), self._compare("--by", by))

    def _rests(self) -> AdvicePart:
        """Say what all of it rests on."""
        notes = tuple(dict.fromkeys(f"{note}." for note in self.compared.workload.notes))
        more = (
            "Jobs come when they came, whatever their users would do with shorter waits.",
            "One log: another month may be another answer.",
        )
        return AdvicePart("What does this rest on?", (*notes, *more), self._compare())


def _group_line(name: object, row: pd.Series[Any], best: pd.DataFrame | None) -> str:
    """Say what one group had."""
    wait = f"{row['queueing_s'] / 3600:.2f} h"
    if best is not None:
        other = best["queueing_s"].to_dict()[name]
        wait += f", {other / 3600:.2f} h"
    return f"{name}: {row['share']:.0%} of GPU time, {row['jobs']:,.0f} jobs, wait {wait}"


def _knows(label: str) -> bool:
    """Whether a decider goes by how long jobs still run."""
    return any(label.startswith(name) for name in _KNOW_LENGTHS)
