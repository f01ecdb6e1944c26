"""Runs in which each lease is an event of its own, even if it is sure to be renewed."""

from __future__ import annotations

from typing import Any

import pytest

import apportion as ap
from apportion.mechanism.leases.renewals import RenewalForecast


def leased(
    scheduler: Any, workload: ap.Workload, cluster: ap.Cluster, *, every: bool, **settings: Any
) -> ap.Run:
    """Simulate a scheduler, with `every` lease an event."""
    with pytest.MonkeyPatch.context() as patch:
        if every:
            patch.setattr(RenewalForecast, "will_renew", lambda *_: False)
        return ap.simulate(scheduler, workload, cluster, **settings)
