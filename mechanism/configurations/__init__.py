"""Elastic gangs: every interval each job is given a type and a number of GPUs anew.

`options` says which numbers there are, `packing` on which GPUs gangs come, `by_links` on which
others if these suit their links, `restarts` what a change costs, and `scheduler` puts them
together. `virtual_nodes` does so where types are not told apart, `beside_requests` on GPUs that
also serve requests, and `reclaims` says which GPUs training gives back for them.
"""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.mechanism.configurations.asked import Asked, ByLinks, JobRestarts, OptionChoice
from apportion.mechanism.configurations.beside_requests import (
    BesideRequests,
    Reclaim,
    ServingSide,
)
from apportion.mechanism.configurations.packing import GANG_SIZES, GangOptions, pack
from apportion.mechanism.configurations.reclaims import (
    RECLAIMS,
    GangWorth,
    Loan,
    ServingPlaces,
    change_of_speedup,
    reclaim_rule,
)
from apportion.mechanism.configurations.restarts import RESTARTS, Checkpoints, lost_seconds
from apportion.mechanism.configurations.scheduler import InConfigurations
from apportion.mechanism.configurations.virtual_nodes import OnVirtualNodes, VirtualNodes

__all__ = [
    "GANG_SIZES",
    "RECLAIMS",
    "RESTARTS",
    "Asked",
    "BesideRequests",
    "ByLinks",
    "Checkpoints",
    "GangOptions",
    "GangWorth",
    "InConfigurations",
    "JobRestarts",
    "Loan",
    "OnVirtualNodes",
    "OptionChoice",
    "Reclaim",
    "ServingPlaces",
    "ServingSide",
    "VirtualNodes",
    "change_of_speedup",
    "lost_seconds",
    "pack",
    "reclaim_rule",
]

open_doors(globals())
