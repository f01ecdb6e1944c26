"""Who decides: policies, which share out time, and schedulers, which give GPUs; by name."""

from __future__ import annotations

import difflib

from apportion.errors import unknown_name
from apportion.mechanism.offers import SCHEDULERS, OfferScheduler
from apportion.mechanism.queue import QUEUES, QueueScheduler
from apportion.policies import Policy, get_policy, policy_table

__all__ = ["Decider", "get_decider"]

Decider = Policy | OfferScheduler | QueueScheduler
"""What a simulation can be run under."""


def get_decider(decider: str | Decider) -> Decider:
    """Return a policy or a scheduler by name, or the object itself.

    Raises
    ------
    InputError
        For an unknown name, with the nearest one.
    """
    if isinstance(decider, OfferScheduler | QueueScheduler):
        return decider
    if not isinstance(decider, str):
        return get_policy(decider)
    if decider in SCHEDULERS:
        return SCHEDULERS[decider]
    if decider in QUEUES:
        return QUEUES[decider]
    near = difflib.get_close_matches(decider, [*policy_table()["name"], *SCHEDULERS], n=1)
    if near and near[0] in SCHEDULERS:
        raise unknown_name("scheduler", decider, SCHEDULERS)
    return get_policy(decider)
