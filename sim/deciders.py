"""Who decides: policies, which share out time, and schedulers, which give GPUs; by name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError, unknown_name
from apportion.mechanism.elastic_deciders import ELASTIC_RULES, ElasticRule
from apportion.mechanism.offers import SCHEDULERS, OfferScheduler
from apportion.mechanism.own import OwnScheduler, is_own
from apportion.mechanism.queue import QUEUES, QueueScheduler
from apportion.mechanism.stay import GATED, GatedScheduler
from apportion.policies import Policy, get_policy, policy_table
from apportion.policies.registry import is_known

if TYPE_CHECKING:
    from apportion.mechanism.own import Decides
    from apportion.registry import Registry

__all__ = ["Decider", "get_decider"]

Decider = Policy | OfferScheduler | QueueScheduler | OwnScheduler | GatedScheduler | ElasticRule
"""What a simulation can be run under."""

_VALUES = OfferScheduler | QueueScheduler | OwnScheduler | GatedScheduler | ElasticRule

_REGISTRIES: tuple[
    Registry[OfferScheduler] | Registry[Any] | Registry[GatedScheduler] | Registry[ElasticRule],
    ...,
] = (SCHEDULERS, QUEUES, GATED, ELASTIC_RULES)


def get_decider(decider: str | Decider | Decides, *, elastic: bool = False) -> Decider:
    """Return a policy, a scheduler or a rule of elastic jobs by name, or the object itself.

    Parameters
    ----------
    decider
        The name, or the object; anything that has ``decide`` as a `Scheduler` of the loop is one.
    elastic
        Whether it is for elastic jobs, for which some names stand for another rule.

    Raises
    ------
    InputError
        For an unknown name, with the nearest one, and for a class in place of a value.
    """
    if isinstance(decider, _VALUES):
        return decider
    if isinstance(decider, type) and hasattr(decider, "decide"):
        raise InputError(f"policy is the class {decider.__name__}; write {decider.__name__}(...).")
    if is_own(decider):
        return OwnScheduler(decider)
    if elastic and isinstance(decider, str) and decider in list(ELASTIC_RULES):
        return ELASTIC_RULES[decider]
    if not isinstance(decider, str):
        return get_policy(decider)  # type: ignore[arg-type]
    known = next((each for each in _REGISTRIES if decider in list(each)), None)
    if known is None and is_known(decider):
        return get_policy(decider)
    # Only a name that nobody knows yet is looked up among the installed packages, which takes long.
    registry = known or next((each for each in _REGISTRIES if decider in each), None)
    if registry is not None:
        found = registry[decider]
        return OwnScheduler(found) if is_own(found) else found
    near = difflib.get_close_matches(decider, [*policy_table()["name"], *SCHEDULERS, *GATED], n=1)
    if near and near[0] in SCHEDULERS:
        raise unknown_name("scheduler", decider, SCHEDULERS)
    if near and near[0] in GATED:
        raise unknown_name("scheduler", decider, GATED)
    return get_policy(decider)
