"""Rules of elastic jobs: each job is given a type and a number of GPUs, or none.

`rule` says what a rule is shown and what it answers, for rules of one's own; `greedy` and
`searches` are those that come with the package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.mechanism.elastic.greedy import AFS as AFS
    from apportion.mechanism.elastic.greedy import Tiresias as Tiresias
    from apportion.mechanism.elastic.greedy import base_workers as base_workers
    from apportion.mechanism.elastic.greedy import elastic_share as elastic_share
    from apportion.mechanism.elastic.greedy import shortest_first as shortest_first
    from apportion.mechanism.elastic.rule import ElasticJobs as ElasticJobs
    from apportion.mechanism.elastic.rule import ElasticRule as ElasticRule
    from apportion.mechanism.elastic.rule import seconds_left as seconds_left
    from apportion.mechanism.elastic.searches import OptimusGreedy as OptimusGreedy


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
