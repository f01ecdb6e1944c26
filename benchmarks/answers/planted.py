"""Answers to logs whose truth is known: a policy better by 5 % and by 0 %, GPUs that help or not.

``python -m benchmarks.answers.planted`` draws logs and asks about each as a user would, with the
levels and draws that answers have by default. Cases:

- *better by 5 %*, *by 0 %*: jobs are alone on their GPUs. Two queues put every job on the one or on
  the other of two types, and a job's speed on the second over that on the first is drawn,
  exp(normal - s^2/2) times what is planted, so that the ratio of expected durations is exactly the
  planted one, while in a log of some hundred jobs it is off by chance.
- *0 % in a queue*: jobs wait at 95 % load, come in campaigns of ten that are alike, and have a lot
  each. One queue serves the lowest lots first, the other one the highest: by symmetry neither is
  better, whatever a log shows.
- *one policy, two names*: must be no difference at all.
- *8 GPUs that help*: at 120 % load; the truth is from many other logs.
- *8 GPUs that do not*: nobody waits. *GPUs as good as others*: a queue gives jobs to two types by
  lot, which are as fast on average.

What counts was set before anything ran on these logs. Right is an answer that says what is true;
where nothing is true, one that says nothing. Sure of nothing is what must not be: a difference said
where there is none. The interval should hold the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

import apportion as ap
from apportion.mechanism.queue import QueueScheduler
from benchmarks.experiment import chosen, parser
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from apportion.mechanism.job_table import JobTable

JOBS, SPREAD, CAMPAIGN = 200, 0.08, 10
FIRST_LOG = 5000
"""Of the twenty; those from 0 were looked at while levels were chosen."""


@dataclass(frozen=True)
class OnType(QueueScheduler):
    """Everybody on one type, in order of arrival."""

    name = "on_type"
    source = "the baseline of a planted truth"
    kind: int = 0

    def queue(self, jobs: JobTable, now_s: float) -> Iterator[tuple[int, list[int]]]:
        for job in jobs.active.tolist():
            yield job, [self.kind]


class OnFirst(OnType):
    """Everybody on the first type."""

    name = "on_first"


class SameAgain(OnType):
    """Everybody on the first type, by another name."""

    name = "same_again"


class OnSecond(OnType):
    """Everybody on the second type."""

    name = "on_second"

    def __init__(self) -> None:
        super().__init__(kind=1)


@dataclass(frozen=True)
class LowestLot(QueueScheduler):
    """The lowest lot first."""

    name = "lowest_lot"
    source = "the baseline of a planted truth"
    sign: int = 1

    def queue(self, jobs: JobTable, now_s: float) -> Iterator[tuple[int, list[int]]]:
        lots = self.sign * jobs.facts["lot"][jobs.active]
        for job in jobs.active[np.argsort(lots, kind="stable")].tolist():
            yield job, [0]


class HighestLot(LowestLot):
    """The highest lot first."""

    name = "highest_lot"

    def __init__(self) -> None:
        super().__init__(sign=-1)


class ByLot(OnType):
    """Each job on a type by lot, of those that the cluster has; which says nothing of its speed."""

    name = "by_lot"

    def queue(self, jobs: JobTable, now_s: float) -> Iterator[tuple[int, list[int]]]:
        types = len(jobs.capacity)
        for job in jobs.active.tolist():
            yield job, [(job * 2_654_435_761 >> 7) % types]


def planted_log(seed: int, gain: float, jobs: int = JOBS) -> ap.Workload:
    """Draw a log of jobs whose speed on type b over that on type a is `gain` in expectation.

    Each job is a type of its own. Durations on a are exponential, 1 h in the mean.
    """
    rng = np.random.default_rng([seed, 7])
    arrival_s = np.sort(rng.uniform(0, jobs * 600.0, jobs))
    steps = rng.exponential(3600.0, jobs) + 1.0
    # the duration on b is steps / speed: its expectation is steps / gain
    faster = gain * np.exp(rng.normal(0.0, SPREAD, jobs) + SPREAD**2 / 2)
    names = [f"job{number:04d}" for number in range(jobs)]
    table = pd.DataFrame(
        {"arrival_s": arrival_s, "job_type": names, "scale_factor": 1, "total_steps": steps},
        index=names,
    )
    index = pd.MultiIndex.from_tuples([(name, 1) for name in names])
    index.names = ["job_type", "scale_factor"]
    speeds = pd.DataFrame({"a": 1.0, "b": faster}, index=index)
    return ap.Workload(f"planted-{seed}", table, speeds)


def crowded_log(seed: int, load: float, jobs: int, campaign: int = 1) -> ap.Workload:
    """Draw a log that loads 16 GPUs so much; jobs of a campaign have one expected duration."""
    rng = np.random.default_rng([seed, 8])
    log = planted_log(seed, 1.0, jobs)
    mean_s = 3600.0 / 16 / load
    told = {"arrival_s": np.cumsum(rng.exponential(mean_s, jobs)), "lot": rng.uniform(size=jobs)}
    if campaign > 1:
        alike = np.repeat(rng.exponential(1.0, -(-jobs // campaign)), campaign)[:jobs]
        told["total_steps"] = alike * log.jobs["total_steps"] + 1.0
    return ap.Workload(f"crowded-{seed}", log.jobs.assign(**told), log.throughputs)


class Answer(NamedTuple):
    """What was said of one log, and what is true."""

    case: str
    log: str
    truth: float
    ratio: float
    low: float
    high: float
    said: str

    @property
    def holds(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high

    @property
    def right(self) -> bool:
        """Whether what is said is true, or nothing is said where nothing is true."""
        if self.truth == 1:
            return self.said == "nothing"
        return self.said == ("better" if self.truth < 1 else "worse")

    @property
    def sure(self) -> bool:
        """Whether a difference is said."""
        return self.said in ("better", "worse")


FREE: Mapping[str, Any] = {"n_jobs": 1, "preemption_overhead_seconds": 0.0}


def asked_which(
    case: str, log: ap.Workload, policies: list[Any], cluster: str, truth: float, draws: int
) -> Answer:
    """Ask which of two policies to take; the truth is of the second over the first."""
    found = ap.recommend(policies, log, cluster, draws=draws, **FREE)
    (first, second), worse = found.policies, found.table().iloc[1]
    ratio, low, high = worse[["ratio", "low", "high"]]
    if worse.name == first:
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    said = {None: "nothing", second: "better", first: "worse"}[found.best]
    return Answer(case, log.name, truth, ratio, low, high, said)


def asked_what_if(
    case: str, log: ap.Workload, queue: OnType, cluster: str, add: str, truth: float, draws: int
) -> Answer:
    """Ask what more GPUs bring."""
    found = ap.what_if([queue], log, cluster, add=add, seeds=range(draws), **FREE)
    row, sentence = found.table().iloc[1], found.effects()[0]
    words = {"no difference": "nothing", "shorter": "better", "longer": "worse"}
    said = next(word for start, word in words.items() if f": {start}" in sentence)
    return Answer(
        *(case, log.name, truth, row["mean_jct_s_ratio"]),
        *(row["mean_jct_s_low"], row["mean_jct_s_high"], said),
    )


def truth_of_more(logs: int, load: float, jobs: int) -> float:
    """Return what 8 more GPUs bring over many other logs of the crowded kind."""
    means: dict[str, list[float]] = {"a=16": [], "a=24": []}
    for seed in range(10_000, 10_000 + logs):
        for cluster, found in means.items():
            run = ap.simulate(
                *(OnFirst(), crowded_log(seed, load, jobs), cluster),
                preemption_overhead_seconds=0.0,
            )
            found.append(float(np.log(run.jobs["jct_s"].mean())))
    return float(np.exp(np.mean(means["a=24"]) - np.mean(means["a=16"])))


def cases(jobs: int, draws: int, many: int) -> dict[str, Callable[[int], Answer]]:
    """Return what asks about one log, by case."""
    both, alone = [OnFirst(), OnSecond()], f"a={jobs},b={jobs}"
    crowded = cache(partial(truth_of_more, many, 1.2, 2 * jobs))
    return {
        "policy better by 5 %": lambda log: asked_which(
            "policy better by 5 %", planted_log(log, 1.05, jobs), both, alone, 1 / 1.05, draws
        ),
        "policy better by 0 %": lambda log: asked_which(
            "policy better by 0 %", planted_log(log, 1.0, jobs), both, alone, 1.0, draws
        ),
        "0 % in a queue": lambda log: asked_which(
            "0 % in a queue",
            *(crowded_log(log, 0.95, jobs, CAMPAIGN), [LowestLot(), HighestLot()], "a=16", 1.0),
            draws,
        ),
        "one policy, two names": lambda log: asked_which(
            "one policy, two names",
            *(crowded_log(log, 0.95, jobs), [OnFirst(), SameAgain()], "a=16", 1.0, draws),
        ),
        "8 GPUs that help": lambda log: asked_what_if(
            "8 GPUs that help",
            *(crowded_log(log, 1.2, 2 * jobs), OnFirst(), "a=16", "a=8", crowded(), draws),
        ),
        "8 GPUs that do not": lambda log: asked_what_if(
            "8 GPUs that do not",
            *(planted_log(log, 1.0, jobs), OnFirst(), f"a={jobs}", "a=8", 1.0, draws),
        ),
        "GPUs as good as others": lambda log: asked_what_if(
            "GPUs as good as others",
            *(planted_log(log, 1.0, jobs), ByLot(), f"a={jobs}", f"b={jobs}", 1.0, draws),
        ),
    }


def main() -> None:
    """Ask about all logs, and print how often the answers were right."""
    options = parser("answers.planted", __doc__ or "", "two small logs of each kind")
    options.add_argument("--cases", metavar="A;B;...", help="some of them")
    options.add_argument("--logs", type=int, default=20, metavar="N", help="of each kind")
    options.add_argument("--first-log", type=int, default=FIRST_LOG, metavar="N")
    args = options.parse_args()
    asks = cases(60, 4, 3) if args.quick else cases(JOBS, 16, 30)
    names = chosen("case", (args.cases or ";".join(asks)).split(";"), list(asks))
    logs = range(args.first_log, args.first_log + (2 if args.quick else args.logs))
    answers: list[Answer] = []
    for case in names:
        answers += [asks[case](log) for log in logs]
        print(verdicts(answers).iloc[-1].to_dict(), flush=True)
    show(verdicts(answers))
    print(machine())
    write_csv(pd.DataFrame(answers), args.out, "answers_planted")


def verdicts(answers: list[Answer]) -> pd.DataFrame:
    """Return how often answers were right, by case."""
    rows: list[dict[str, Any]] = []
    for case in dict.fromkeys(each.case for each in answers):
        own = [each for each in answers if each.case == case]
        rows.append(
            {
                "case": case,
                "truth": own[0].truth,
                "logs": len(own),
                "right": sum(each.right for each in own),
                "sure": sum(each.sure for each in own),
                "sure_of_nothing": sum(each.truth == 1 and each.sure for each in own),
                "interval_holds_it": sum(each.holds for each in own),
                "median_width": float(np.median([each.high - each.low for each in own])),
            }
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
