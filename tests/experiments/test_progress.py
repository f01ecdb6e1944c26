from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from apportion.experiments.machine.cells import Display

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("seed", range(20))
def test_progress_never_falls_whatever_the_files_say(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    runs = int(random.integers(1, 6))
    display = Display(runs, tmp_path)
    told = np.zeros(runs)
    finished: set[int] = set()
    before = 0.0
    for _ in range(60):
        number = int(random.integers(runs))
        what = random.random()
        file = tmp_path / str(number)
        if what < 0.2:
            file.write_text("")  # is just being written
        elif what < 0.25:
            display.finish(number)
            finished.add(number)
        elif what < 0.3:
            file.write_text("0.0")  # a run that begins anew, its worker having died
        else:
            told[number] = random.uniform(told[number], 1.0)
            report = display.reports[number]
            assert report is not None
            report(told[number], 0)
        now = display.done()
        assert before <= now <= runs
        expected = sum(1.0 if each in finished else told[each] for each in range(runs))
        assert now <= expected + 1e-3
        before = now
    for number in range(runs):
        display.finish(number)
    assert display.done() == runs


def test_what_is_not_shown_is_counted_all_the_same() -> None:
    display = Display(2, None)
    display.finish(0)
    assert (display.done(), display.reports) == (1, [None, None])
