from __future__ import annotations

import gc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No test may depend on how busy the machine is: examples have no deadline, however slow they are
# to draw, and nothing else is timed. What hangs is ended by whoever runs the tests.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

# Thousands of tests are collected, all of which stay: nothing of them is garbage. (They are not
# frozen afterwards: hypothesis asks the collector who refers to its generators.)
gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage from here on."""
    gc.enable()


@pytest.fixture(scope="session")
def public_data() -> Path:
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the public traces are not at ../shared/data beside the project root")
    return folder


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the plots out of reports, which take most of the time; tests of reports draw them."""
    monkeypatch.setattr("apportion.report.built_in._drawn", lambda runs: "")
