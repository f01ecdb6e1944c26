"""Rules of elastic jobs: each job is given a type and a number of GPUs, or none.

`rule` says what a rule is shown and what it answers, for rules of one's own; `greedy` and
`searches` are those that come with the package.
"""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.mechanism.elastic.greedy import (
    AFS,
    Tiresias,
    base_workers,
    elastic_share,
    shortest_first,
)
from apportion.mechanism.elastic.rule import ElasticJobs, ElasticRule, seconds_left
from apportion.mechanism.elastic.searches import OptimusGreedy, PolluxSearch

__all__ = [
    "AFS",
    "ElasticJobs",
    "ElasticRule",
    "OptimusGreedy",
    "PolluxSearch",
    "Tiresias",
    "base_workers",
    "elastic_share",
    "seconds_left",
    "shortest_first",
]

open_doors(globals())
