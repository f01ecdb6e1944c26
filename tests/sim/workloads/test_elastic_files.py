"""Elastic workloads with columns of one's own, saved and read."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

JOBS = 5
TEXTS = ["ann", "1", "007", "True", "nan", "", "=1+1", "'x", " a", "b, c", 'd"e', "é", "-", "1e400"]


@cache
def drawn() -> ap.ElasticWorkload:
    return ap.generate_elastic_workload(jobs=JOBS, seed=2)


def with_columns(rng: np.random.Generator) -> ap.ElasticWorkload:
    """Draw columns of one's own, and of the jobs table, in any number and order."""
    numbers = [0.1, -3.0, 1e-300, 2.0**50 + 1, np.pi, 0.0, np.nan]
    columns = {
        "power_w": rng.choice(numbers, JOBS),
        "gpu_memory": rng.integers(0, 10**6, JOBS),
        "user": rng.choice(TEXTS, JOBS),
        "team = x": rng.choice(TEXTS, JOBS),
        "restartable": rng.random(JOBS) < 0.5,
        "entity": rng.choice(["red", "blue"], JOBS),
        "weight": rng.choice([0.5, 2.0], JOBS),
        "rigid": rng.random(JOBS) < 0.5,
    }
    names = rng.permutation(list(columns))[: int(rng.integers(1, len(columns) + 1))].tolist()
    return replace(drawn(), jobs=drawn().jobs.assign(**{name: columns[name] for name in names}))


@pytest.mark.parametrize("seed", each_seed(8, 30))
def test_columns_come_back_as_they_were(seed: int, tmp_path: Path) -> None:
    load = with_columns(np.random.default_rng(seed))
    file, _ = load.save(tmp_path / ("jobs.csv.gz" if seed % 2 else "jobs.csv"))
    back = ap.read_elastic_workload(file)
    assert set(back.jobs) == set(load.jobs)
    for name in load.jobs:
        mine, theirs = load.jobs[name], back.jobs[name]
        assert theirs.index.tolist() == mine.index.tolist()
        for one, other in zip(mine.tolist(), theirs.tolist(), strict=True):
            assert one == other or (one != one and other != other), name
            assert isinstance(one, str | bool) == isinstance(other, str | bool), name
    again = tmp_path / "again.csv"
    back.save(again)
    assert json.loads(again.with_name("again.applications.json").read_text())["columns"].keys() == (
        set(load.jobs) - {"weight", "entity", "rigid", "arrival_s", "application", "gpus", "batch"}
    )


@pytest.mark.parametrize("name", ["name", "time", "num_replicas", "batch_size"])
def test_names_that_files_need_are_refused(name: str, tmp_path: Path) -> None:
    load = replace(drawn(), jobs=drawn().jobs.assign(**{name: 1.0}))
    with pytest.raises(InputError, match=f"Cannot save the column '{name}'"):
        load.save(tmp_path / "jobs.csv")
    assert not list(tmp_path.iterdir())


def test_misspelt_columns_are_refused_by_either(tmp_path: Path) -> None:
    load = replace(drawn(), jobs=drawn().jobs.assign(wieght=1.0))
    with pytest.raises(InputError, match="Did you mean 'weight'"):
        load.save(tmp_path / "jobs.csv")
    file, _ = drawn().save(tmp_path / "jobs.csv")
    table = pd.read_csv(file, comment="#").assign(wieght=1.0)
    table.to_csv(file, index=False)
    with pytest.raises(InputError, match=r"jobs.csv.*'wieght'. Did you mean 'weight'"):
        ap.read_elastic_workload(file)


def test_files_of_before_have_no_kinds_and_are_read(tmp_path: Path) -> None:
    load = replace(drawn(), jobs=drawn().jobs.assign(user="ann", power_w=3.5, soon=True))
    file, beside = load.save(tmp_path / "jobs.csv")
    facts = json.loads(beside.read_text())
    del facts["columns"]
    beside.write_text(json.dumps(facts))
    pd.testing.assert_frame_equal(ap.read_elastic_workload(file).jobs, load.jobs, check_dtype=False)
