from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import none
from tests.seeds import left_out

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from apportion.sim import Run

# No test may depend on how busy the machine is: examples have no deadline, however slow they are
# to draw, and nothing else is timed. What hangs is ended by whoever runs the tests.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

# Thousands of tests are collected, all of which stay: nothing of them is garbage.
gc.disable()


def pytest_configure(config: pytest.Config) -> None:
    """Say which marks the run leaves out, before tests are imported and their cases made."""
    marks = config.option.markexpr
    if " or " not in marks:
        left_out.update(each[4:] for each in marks.split(" and ") if each.startswith("not "))


@given(none())
def _draw(_: None) -> None:
    """Let hypothesis take down its generators, for which it asks the collector who has them."""


def pytest_collection_finish() -> None:
    """Collect garbage from here on, and do not look at what is there again and again."""
    _draw()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def public_data() -> Path:
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the public traces are not at ../shared/data beside the project root")
    return folder


@pytest.fixture
def own_registry() -> Iterator[None]:
    """Forget what is registered during a test."""
    from apportion.registry import Registry  # as below

    known = {group: each.own() for group, each in Registry.all.items()}
    yield
    for group, each in Registry.all.items():
        each.take_over(known.get(group, {}))


@pytest.fixture
def free_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let starts cost nothing where a test says no cost: for times that are worked out by hand."""
    monkeypatch.setattr("apportion.sim.settings.MEASURED", 0.0)


def _not_drawn(runs: Mapping[str, Run]) -> str:
    """Return what a report has in the place of its plots, with nothing in any of them."""
    from apportion.report.files import part  # not in the process that only hands out tests
    from apportion.report.plots import kinds_of

    return part("figures", [(kind, "") for kind in kinds_of(runs)])


@pytest.fixture(autouse=True)
def without_plots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the plots of reports empty, as they take most of the time.

    Tests in ``tests/report`` draw them, except those that name this fixture.
    """
    named = any("without_plots" in each.args for each in request.node.iter_markers("usefixtures"))
    if named or request.path.parent.name != "report":
        monkeypatch.setattr("apportion.report.built_in._drawn", _not_drawn)
        monkeypatch.setattr("apportion.report.style._svg", lambda figure: "<svg></svg>")
