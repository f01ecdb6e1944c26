"""Elastic gangs: every interval each job is given a type and a number of GPUs anew.

`options` says which numbers there are, `packing` on which GPUs gangs come, `by_links` on which
others if these suit their links, `restarts` what a change costs, and `scheduler` puts them
together. `virtual_nodes` does so where types are not told apart, `beside_requests` on GPUs that
also serve requests, and `reclaims` says which GPUs training gives back for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.mechanism.configurations.asked import RESTARTS as RESTARTS
    from apportion.mechanism.configurations.asked import Asked as Asked
    from apportion.mechanism.configurations.asked import ByLinks as ByLinks
    from apportion.mechanism.configurations.asked import JobRestarts as JobRestarts
    from apportion.mechanism.configurations.asked import OptionChoice as OptionChoice
    from apportion.mechanism.configurations.asked import lost_seconds as lost_seconds
    from apportion.mechanism.configurations.beside_requests import BesideRequests as BesideRequests
    from apportion.mechanism.configurations.beside_requests import Reclaim as Reclaim
    from apportion.mechanism.configurations.beside_requests import ServingSide as ServingSide
    from apportion.mechanism.configurations.packing import GANG_SIZES as GANG_SIZES
    from apportion.mechanism.configurations.packing import GangOptions as GangOptions
    from apportion.mechanism.configurations.packing import pack as pack
    from apportion.mechanism.configurations.reclaims import RECLAIMS as RECLAIMS
    from apportion.mechanism.configurations.reclaims import GangWorth as GangWorth
    from apportion.mechanism.configurations.reclaims import Loan as Loan
    from apportion.mechanism.configurations.reclaims import ServingPlaces as ServingPlaces
    from apportion.mechanism.configurations.reclaims import change_of_speedup as change_of_speedup
    from apportion.mechanism.configurations.reclaims import reclaim_rule as reclaim_rule
    from apportion.mechanism.configurations.scheduler import InConfigurations as InConfigurations
    from apportion.mechanism.configurations.virtual_nodes import OnVirtualNodes as OnVirtualNodes
    from apportion.mechanism.configurations.virtual_nodes import VirtualNodes as VirtualNodes


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
