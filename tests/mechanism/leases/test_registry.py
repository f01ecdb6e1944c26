from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from apportion.errors import InputError
from apportion.mechanism.deciders import DECIDERS, get_scheduler, scheduler_table
from apportion.mechanism.leases import AutoTunedTimers
from apportion.mechanism.orders import LeastAttainedService

SCHEDULERS: list[str] = scheduler_table("leases")["name"].tolist()


@pytest.mark.parametrize("name", sorted(SCHEDULERS))
def test_every_scheduler_survives_pickling_and_shows_its_name(name: str) -> None:
    scheduler = get_scheduler(name)
    assert pickle.loads(pickle.dumps(scheduler)) == scheduler
    assert repr(scheduler).startswith(f"OfferScheduler(name={name!r}")
    assert get_scheduler(scheduler) is not None
    assert get_scheduler(scheduler) == scheduler


def test_the_table_lists_every_scheduler_in_a_line_each() -> None:
    table = scheduler_table()
    assert set(table["name"]) == set(DECIDERS)
    assert table.groupby("name").size().drop("tiresias").eq(1).all()
    both = table.loc[table["name"] == "tiresias", "mechanism"]
    assert both.tolist() == ["leases", "configurations"]
    assert table.map(lambda text: bool(text) and "\n" not in text).all(axis=None)


def test_options_reach_the_scheduler_and_its_parts() -> None:
    scheduler = get_scheduler("dally", history_s=7200.0, lease_s=600.0, label="short")
    assert scheduler == replace(
        get_scheduler("dally"), timers=AutoTunedTimers(7200.0), lease_s=600.0, label="short"
    )
    assert "history_s=7200.0" in repr(scheduler)
    assert "bounded" not in repr(scheduler)
    other = get_scheduler("tiresias", order=LeastAttainedService(), threshold=0.5)
    assert (other.order, other.rule.threshold) == (LeastAttainedService(), 0.5)


def test_a_scheduler_is_a_name_or_a_scheduler() -> None:
    with pytest.raises(InputError, match="not int"):
        get_scheduler(3)
