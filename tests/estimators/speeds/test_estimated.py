from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from tests.estimators.speeds.drawn import COLUMNS, drawn_covariance, drawn_rows

from apportion.errors import InputError
from apportion.estimators import EstimatedSpeeds, SpeedModel
from apportion.estimators.speeds.measurements import Measurements

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

NAN = np.nan


class GangProgress(NamedTuple):
    job: Any
    column: Any


def drawn(seed: int, count: int) -> Floats:
    rng = np.random.default_rng(seed)
    mean = 0.8 * np.log([1, 2, 4, 8] * 3)
    return np.exp(drawn_rows(rng, count, drawn_covariance(rng), mean)[0])


REFERENCES, JOBS = np.split(drawn(0, 32), [12])


def believed(**options: Any) -> EstimatedSpeeds:
    return EstimatedSpeeds(REFERENCES, COLUMNS, **options)


def run(beliefs: EstimatedSpeeds, job: Any, column: int, speed: float, seconds: float = 60) -> Any:
    return beliefs.observe(GangProgress([job], [column]), [speed * seconds], [seconds])


def as_modelled(measured: dict[int, float], optimism: float) -> Floats:
    """Speeds of a row by the model, told as they are where measured."""
    row = np.full((1, 12), NAN)
    row[0, list(measured)] = list(measured.values())
    model = SpeedModel(COLUMNS).fit(REFERENCES)
    speeds, sd = model.predict(row, return_std=True)
    return np.asarray((speeds * np.where(np.isnan(row), np.exp(optimism * sd), 1.0))[0])


@pytest.mark.parametrize("optimism", [0.0, 1.0, 2.5])
def test_policies_are_told_hope_where_nothing_was_measured(optimism: float) -> None:
    beliefs = believed(optimism=optimism)
    for column in (0, 5, 6):
        run(beliefs, 3, column, JOBS[3, column])
    told = beliefs.speeds([3])[0]
    modelled = as_modelled({column: JOBS[3, column] for column in (0, 5, 6)}, optimism)
    unmeasured = [column for column in range(12) if column not in (0, 5, 6)]
    np.testing.assert_allclose(told[unmeasured], modelled[unmeasured], rtol=0.06)
    # The posterior mean of a noisy measurement lies near it.
    np.testing.assert_allclose(
        told, np.where(np.isin(np.arange(12), unmeasured), told, JOBS[3]), 0.1
    )


@pytest.mark.parametrize(
    ("what", "least"),
    [
        ("steady", 0.64),
        ("changes", 0.75),
        ("small changes", 0.5),
        ("glitches", 0.75),
        ("noise", 0.55),
    ],
)
@pytest.mark.parametrize(
    "seeds", [range(1), pytest.param(range(1, 40), marks=pytest.mark.slow)], ids=["few", "more"]
)
def test_what_is_measured_is_doubted_as_far_as_it_is_off(
    what: str, least: float, seeds: range
) -> None:
    """One standard deviation covers about two thirds: with a change of speed at some time as well.

    It covers more after a change or a glitch, which leaves a doubt, and less where a change is
    of the size of the noise or the noise three times as large as was said; never next to nothing.
    """
    count, noise, inside, within = 1500, 0.05, [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        cells = Measurements(1, noise)
        rows, column = cells.rows(range(count)), np.zeros(count, dtype=np.intp)
        before, after = rng.integers(1, 31, (2, count))
        step = {"changes": 1.0, "small changes": 0.2}.get(what, 0.0) * rng.normal(size=count)
        wild = (1.0 if what == "glitches" else 0.0) * rng.normal(size=count)
        real = 3 * noise if what == "noise" else noise
        for at in range(60):
            logs = np.where(at < before, 0.0, step) + real * rng.normal(size=count)
            logs = logs + np.where(at == before - 1, wild, 0.0)
            still = np.flatnonzero(at < before + after)
            cells.enter(rows[still], column[still], logs[still])
        off, sd = np.abs(cells.log[:, 0] - step), noise / np.sqrt(cells.worth[:, 0])
        inside.append((off <= sd).mean())
        within.append((off <= 3 * sd).mean())
    assert least <= np.mean(inside) <= 0.95
    assert np.mean(within) >= 0.8


def test_a_speed_that_changes_is_found_at_once_and_doubted_for_a_while() -> None:
    beliefs, doubt = believed(), []
    for speed in (100.0,) * 20 + (25.0,) * 20:
        run(beliefs, "a", 2, speed)
        doubt.append(float(beliefs.spread(["a"])[0, 2]))
    assert abs(np.log(beliefs.speeds(["a"])[0, 2] / 25.0)) < 0.05
    assert doubt[20] > 5 * doubt[19]
    assert (np.diff(doubt[20:]) < 0).all()
    resumed = believed()
    resumed.restore(json.loads(json.dumps(beliefs.state())))
    assert resumed.spread(["a"]).tolist() == beliefs.spread(["a"]).tolist()


def test_a_type_that_nobody_measured_is_a_guess(caplog: pytest.LogCaptureFixture) -> None:
    holes = REFERENCES.copy()
    holes[:, 8:] = NAN  # the third accelerator, of which there is no data sheet
    columns = [("mine" if name == "k80" else name, gpus) for name, gpus in COLUMNS]
    with caplog.at_level("WARNING"):
        beliefs = EstimatedSpeeds(holes, columns)
    assert "Nothing was measured on ('mine', 1), ('mine', 2)" in caplog.text
    for measured in ({}, {2: 5.0}, {0: 2.0, 5: 3.0, 6: 4.0}):
        name = str(measured)
        for column, speed in measured.items():
            run(beliefs, name, column, speed)
        sd = beliefs.spread([name])[0]
        assert (sd[8:] > 2.0).all()  # that of the weak prior, which no reference makes less
        assert (sd[:8] < 1.5).all()
    inside = []
    for job, truth in enumerate(JOBS):
        run(beliefs, job, 1, truth[1])
        sd = beliefs.spread([job])[0]
        off = np.abs(np.log(beliefs.speeds([job])[0] / truth) - sd)
        inside.append(off[8:] <= sd[8:])
    assert np.mean(inside) >= 0.6
    run(beliefs, "a", 9, 7.0)
    assert beliefs.spread(["a"])[0, 9] < 0.1


def test_short_runs_say_nothing_and_small_changes_are_not_told() -> None:
    beliefs = believed()
    before = beliefs.speeds([0])
    assert run(beliefs, 0, 0, 99.0, seconds=29.9) == []
    np.testing.assert_array_equal(beliefs.speeds([0]), before)
    assert run(beliefs, 0, 0, 99.0, seconds=30) == [0]
    told = beliefs.speeds([0])
    assert told[0, 0] == pytest.approx(99.0)
    assert run(beliefs, 0, 0, 99.5) == []
    np.testing.assert_array_equal(beliefs.speeds([0]), told)
    assert run(beliefs, 0, 0, 200.0) == [0]


def test_failed_runs_and_declared_cells_are_zero_for_good() -> None:
    beliefs = believed()
    assert beliefs.observe(GangProgress([5, 5], [3, 4]), [0.0, 0.0], [30.0, 30.0]) == [5]
    assert beliefs.observe(GangProgress([5], [0]), [0.0], [120.0]) == [5]
    run(beliefs, 5, 1, 7.0)
    run(beliefs, 5, 6, 4.0)
    for values in (beliefs.speeds([5]), beliefs.spread([5])):
        assert values[0, [0, 3, 4]].tolist() == [0.0, 0.0, 0.0]
        assert (values[0, [1, 2, 5, 6, 7, 8, 9, 10, 11]] > 0).all()
    # Once it does run, it can.
    assert run(beliefs, 5, 3, 2.0) == [5]
    assert beliefs.speeds([5])[0, 3] > 0


def test_types_share_what_is_learnt_and_references_are_recognised() -> None:
    names = [f"model {number}" for number in range(12)]
    table = pd.DataFrame(REFERENCES, index=names, columns=pd.Index(COLUMNS))
    table.iloc[4, 3] = 0.0
    beliefs = EstimatedSpeeds(table, rows="type", noise=0.01)
    beliefs.admit([1, 2, 3], ["lm", "lm", "model 4"])
    known = beliefs.speeds([3])[0]
    assert known[3] == 0.0
    np.testing.assert_allclose(known, table.iloc[4], rtol=0.02)
    assert run(beliefs, 1, 0, 50.0) == [1, 2]
    np.testing.assert_array_equal(*beliefs.speeds([1, 2]))
    own = believed()
    assert run(own, 1, 0, 50.0) == [1]
    assert (own.speeds([1]) != own.speeds([2])).all()
    with pytest.raises(InputError, match="Job 9 has no type; `admit` it first"):
        beliefs.speeds([9])
    with pytest.raises(InputError, match="Job 1 is of type 'lm', not of 'cnn'"):
        beliefs.admit([4, 1], ["cnn", "cnn"])
    with pytest.raises(InputError, match="Job 4 has no type"):
        beliefs.speeds([4])


@pytest.mark.parametrize("options", [{}, {"seed": 4}, {"rows": "type"}])
def test_a_run_goes_on_from_its_state(options: dict[str, Any]) -> None:
    whole, halves = believed(**options), believed(**options)

    def work(beliefs: EstimatedSpeeds, seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        beliefs.admit(range(20), ["odd" if job % 2 else "even" for job in range(20)])
        job, column = rng.integers(0, 20, 15), rng.integers(0, 12, 15)
        moved = beliefs.observe(
            GangProgress(job, column), 50 * JOBS[job, column], np.full(15, 50.0)
        )
        return [moved, beliefs.observe(GangProgress(job[:1], column[:1]), [0.0], [50.0])]

    for beliefs in (whole, halves):
        work(beliefs, 1)
    other = believed(**options)
    other.restore(json.loads(json.dumps(halves.state())))
    assert work(other, 2) == work(whole, 2)
    np.testing.assert_array_equal(other.speeds(range(20)), whole.speeds(range(20)))
    assert other.state() == whole.state()


@pytest.mark.parametrize("state", [{}, {"told": []}, [], None, {"measured": {"rows": [1]}}])
def test_what_is_no_state_is_refused_and_changes_nothing(state: Any) -> None:
    beliefs = believed()
    run(beliefs, 1, 1, 4.0)
    before = beliefs.state()
    broken = {**before, "measured": {**before["measured"], "log": [[1.0]]}}
    for given in (state, broken):
        with pytest.raises(InputError, match="This is no state"):
            beliefs.restore(given)
        assert beliefs.state() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimism": NAN}, "optimism is nan"),
        ({"noise": NAN}, "noise is nan"),
        ({"rows": "jobs"}, "'jobs'. Did you mean 'job'"),
        ({"seed": "q"}, "seed is 'q'"),
        ({"references": [[1.0]]}, "The references has shape"),
        ({"columns": 2.5}, "it must be a list"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        EstimatedSpeeds(**{"references": REFERENCES, "columns": COLUMNS, **options})


@pytest.mark.parametrize(
    ("gangs", "steps", "seconds", "message"),
    [
        (GangProgress([1, 2], [0, 0]), [50.0, NAN], [60.0, 60.0], "The steps are nan"),
        (GangProgress([1, 2], [0, 0]), [50.0, 1.0], [60.0, -1.0], "The seconds are -1.0"),
        (
            GangProgress([1, 2], [0, 12]),
            [50.0, 1.0],
            [60.0, 60.0],
            "There is no column 12; valid: 0 to 11",
        ),
        (GangProgress([1, 2], [0, NAN]), [50.0, 1.0], [60.0, 60.0], "There is no column nan"),
        (
            GangProgress([1, 2], [0]),
            [50.0, 1.0],
            [60.0, 60.0],
            r"2 jobs and columns of shape \(1,\)",
        ),
        (GangProgress([1, 2], [0, 0]), [50.0], [60.0, 60.0], r"2 jobs and steps of shape \(1,\)"),
        (GangProgress([1, 2.5], [0, 0]), [50.0, 1.0], [60.0, 60.0], "A job is 2.5"),
        (GangProgress("ab", [0, 0]), [50.0, 1.0], [60.0, 60.0], "jobs is 'ab'"),
        (3, [50.0, 1.0], [60.0, 60.0], "need `job` and `column`"),
        (GangProgress([1, 2], [0, 0]), ["x", 1.0], [60.0, 60.0], "`steps` holds something"),
    ],
)
def test_bad_runs_are_named_and_teach_nothing(
    gangs: Any, steps: Any, seconds: Any, message: str
) -> None:
    beliefs = believed(seed=0)
    beliefs.speeds([1, 2])
    before = beliefs.state()
    with pytest.raises(InputError, match=message):
        beliefs.observe(gangs, steps, seconds)
    assert beliefs.state() == before
