from __future__ import annotations

import pytest

from apportion import InputError
from apportion.estimators.goodput import StepTimes, bootstrapped


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
