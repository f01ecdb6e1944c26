"""Answers to logs whose truth is known: a policy better by 5 % and by 0 %, GPUs that help or not.

``python -m benchmarks.answers.planted`` draws logs and asks about each. Jobs are alone on their
GPUs, so that nothing but their speeds counts: two queues put every job on the one or on the other
of two types, and a job's speed on the second over that on the first is drawn, exp(normal - s^2/2)
times what is planted, so that the ratio of expected durations is exactly the planted one, while in
a log of some hundred jobs it is off by chance. GPUs that help are 8 more on a crowded cluster, with
the truth from many other logs; GPUs that do not are of a type that a queue gives to jobs by lot,
which are as fast there on average.

Right is: the answer says what is true, or that it is no more than chance where nothing is true, and
the interval holds the truth. Sure of nothing is what must not be: a difference that is said where
there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

import apportion as ap
from apportion.mechanism.queue import QueueScheduler
from benchmarks.experiment import parser
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.mechanism.job_table import JobTable

JOBS, SPREAD = 200, 0.08
GAINS = {"policy better by 5 %": 1.05, "policy better by 0 %": 1.0}


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


class OnSecond(OnType):
    """Everybody on the second type."""

    name = "on_second"

    def __init__(self) -> None:
        super().__init__(kind=1)


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
    arrival_s = np.sort(rng.uniform(0, jobs * 60.0, jobs))
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


def crowded_log(seed: int, jobs: int = 200) -> ap.Workload:
    """Draw a log that fills 16 GPUs to 95 %."""
    rng = np.random.default_rng([seed, 8])
    log = planted_log(seed, 1.0, jobs)
    mean_s = 3600.0 / 16 / 0.95
    return ap.Workload(
        f"crowded-{seed}",
        log.jobs.assign(arrival_s=np.cumsum(rng.exponential(mean_s, jobs))),
        log.throughputs,
    )


class Answer(NamedTuple):
    """What was said of one log, and what is true."""

    case: str
    log: int
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
            return not self.sure
        return self.said.removeprefix("probably ") == ("better" if self.truth < 1 else "worse")

    @property
    def sure(self) -> bool:
        """Whether a difference is said without a "probably"."""
        return self.said in ("better", "worse")


def asked_which(case: str, log: int, gain: float, draws: int) -> Answer:
    """Ask which of two queues to take."""
    found = ap.recommend(
        *([OnFirst(), OnSecond()], planted_log(log, gain), "a=200,b=200"),
        looks=[4, draws],
        n_jobs=1,
        preemption_overhead_seconds=0.0,
    )
    apart = found.race.difference(found.runs, "on_second", "on_first")
    said = {None: "nothing", "on_second": "better", "on_first": "worse"}[found.best]
    return Answer(case, log, 1 / gain, apart.ratio, apart.low, apart.high, said)


def asked_what_if(case: str, log: int, draws: int, truth: float) -> Answer:
    """Ask what 8 more GPUs bring: where they are missed, and where they are as good as others."""
    queue: OnType
    if truth < 1:
        jobs, cluster, add, queue = crowded_log(log), "a=16", "a=8", OnFirst()
    else:
        jobs, cluster, add, queue = planted_log(log, 1.0), "a=200", "b=200", ByLot()
    found = ap.what_if(
        [queue],
        jobs,
        cluster,
        add=add,
        seeds=range(draws),
        n_jobs=1,
        preemption_overhead_seconds=0.0,
    )
    row, sentence = found.table().iloc[1], found.sentences()[0]
    words = {"no difference": "nothing", "shorter": "better", "longer": "worse"}
    words |= {f"probably {word}": f"probably {words[word]}" for word in ("shorter", "longer")}
    said = next(word for start, word in words.items() if f": {start}" in sentence)
    return Answer(
        *(case, log, truth, row["mean_jct_s_ratio"]),
        *(row["mean_jct_s_low"], row["mean_jct_s_high"], said),
    )


def truth_of_more(logs: int) -> float:
    """Return what 8 more GPUs bring over many other logs of the crowded kind."""
    means: dict[str, list[float]] = {"a=16": [], "a=24": []}
    for log in range(10_000, 10_000 + logs):
        for cluster, found in means.items():
            run = ap.simulate(OnFirst(), crowded_log(log), cluster, preemption_overhead_seconds=0.0)
            found.append(float(np.log(run.jobs["jct_s"].mean())))
    return float(np.exp(np.mean(means["a=24"]) - np.mean(means["a=16"])))


def main() -> None:
    """Ask about all logs, and print how often the answers were right."""
    options = parser("answers.planted", __doc__ or "", "two logs of each kind").parse_args()
    logs, draws, many = (2, 6, 4) if options.quick else (20, 12, 100)
    answers: list[Answer] = []
    for case, gain in GAINS.items():
        answers += [asked_which(case, log, gain, draws) for log in range(logs)]
        print(verdicts(answers).iloc[-1].to_dict(), flush=True)
    for case, truth in (("8 GPUs that help", truth_of_more(many)), ("GPUs that do not", 1.0)):
        answers += [asked_what_if(case, log, draws, truth) for log in range(logs)]
        print(verdicts(answers).iloc[-1].to_dict(), flush=True)
    show(verdicts(answers))
    print(machine())
    write_csv(pd.DataFrame(answers), options.out, "answers_planted")


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
                "sure_of_nothing": sum(each.truth == 1 and each.sure for each in own),
                "interval_holds_it": sum(each.holds for each in own),
                "median_width": float(np.median([each.high - each.low for each in own])),
            }
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
