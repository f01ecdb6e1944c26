from __future__ import annotations

import math

import numpy as np
import pytest
from tests.estimators.goodput.drawn import drawn_goodput

from apportion import InputError
from apportion.estimators.goodput import (
    BatchLimits,
    GangConfiguration,
    Goodput,
    StepTimes,
    bootstrapped,
    goodput_table,
)

CONFIGURATIONS = [
    GangConfiguration(gpus, -(-gpus // 4), name)
    for name in ("t4", "a100")
    for gpus in (1, 2, 4, 8, 16)
]


def test_a_table_holds_what_each_job_says_alone_in_any_order() -> None:
    rng = np.random.default_rng(5)
    jobs = {
        f"job {row}": {"t4": drawn_goodput(rng), "a100": drawn_goodput(rng)} for row in range(9)
    }
    del jobs["job 3"]["a100"]
    table = goodput_table(jobs, CONFIGURATIONS)
    order, back = rng.permutation(len(CONFIGURATIONS)), list(jobs)[::-1]
    other = goodput_table({name: jobs[name] for name in back}, [CONFIGURATIONS[c] for c in order])
    assert np.array_equal(other.to_frame().loc[list(jobs)].to_numpy(), table.goodput[:, order])
    for row, models in enumerate(jobs.values()):
        for column, (gpus, nodes, name) in enumerate(CONFIGURATIONS):
            model = models.get(name)
            best = model.best(gpus, nodes) if model else (0.0, 0, 0)
            cell = (table.goodput, table.local_batch, table.accumulation)
            assert [values[row, column] for values in cell] == [float(value) for value in best]


def test_speedups_are_relative_to_what_is_asked() -> None:
    job = Goodput(StepTimes(0.1, 0.01), np.inf, BatchLimits(8, 800, local_most=100))
    table = goodput_table({"one": job}, [GangConfiguration(k) for k in (1, 2, 4)])
    assert table.over_least()[0] == pytest.approx([1, 2, 4])
    assert table.speedups(table.goodput[:, 1])[0] == pytest.approx([0.5, 1, 2])
    with pytest.raises(InputError, match="job 'one' is 0"):
        table.speedups(np.array([0.0]))
    with pytest.raises(InputError, match="is missing"):
        table.speedups(np.array([1.0, 2.0]))
    nowhere = goodput_table({"one": job}, [GangConfiguration(801)])
    assert nowhere.goodput[0, 0] == 0.0
    with pytest.raises(InputError, match="'one' can run on none"):
        nowhere.over_least()


def test_types_never_tried_on_several_gpus_follow_the_one_that_was() -> None:
    tried = StepTimes(0.2, 0.01, alpha_n=0.4, beta_n=0.02, alpha_r=0.2, beta_r=0.01, gamma=2.0)
    fast, slow = StepTimes(0.05, 0.002), StepTimes(0.5, 0.04)
    times = bootstrapped({"a": fast, "b": tried, "c": slow}, {"a": 1, "b": 8, "c": 1}, 20)
    assert times["b"] is tried
    for name, own in (("a", fast), ("c", slow)):
        for gpus, nodes in ((1, 1), (2, 1), (8, 2)):
            one = own.throughput(1, 1, 20) / tried.throughput(1, 1, 20)
            expected = one * tried.throughput(gpus, nodes, 20)
            assert times[name].throughput(gpus, nodes, 20) == pytest.approx(expected)
    same = bootstrapped({"a": fast, "c": slow}, {"a": 1, "c": 1}, 20)
    assert same == {"a": fast, "c": slow}
    with pytest.raises(InputError, match="most GPUs tried on 'a' is 0"):
        bootstrapped({"a": fast}, {"a": 0}, 20)
    with pytest.raises(InputError, match="Unknown accelerator among those tried 'a'"):
        bootstrapped({"a": fast}, {}, 20)
    with pytest.raises(InputError, match="No accelerator type"):
        bootstrapped({}, {}, 20)


def test_mistakes_in_tables_are_named() -> None:
    job = Goodput(StepTimes(0.1, 0.01), 100.0, BatchLimits(8, 800))
    with pytest.raises(InputError, match="stands twice"):
        goodput_table({"one": job}, [GangConfiguration(1), GangConfiguration(1)])
    with pytest.raises(InputError, match=r"Unknown accelerator of job 'one' 'v100'.*t4"):
        goodput_table({"one": {"v100": job}}, [GangConfiguration(1, 1, "t4")])
    with pytest.raises(InputError, match="Unknown search"):
        goodput_table({}, [], search="random")  # type: ignore[arg-type]
    assert goodput_table({}, [GangConfiguration(1)]).goodput.shape == (0, 1)
    assert goodput_table({"one": job}, []).goodput.shape == (1, 0)
    assert math.isfinite(goodput_table({"one": job}, [GangConfiguration(800, 1)]).goodput[0, 0])
