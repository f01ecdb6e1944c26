"""Errors on published measurements, where they are: as good as the model was found to be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.estimators.single import MODEL, SIMPLE, errors, settings, ways

if TYPE_CHECKING:
    from pathlib import Path


def test_on_gavels_and_polluxs_measurements_errors_are_low_and_below_simple_ways(
    public_data: Path,
) -> None:
    most = {("family out", 3): 0.28, ("family out", 8): 0.18, ("application out", 3): 0.135}
    seen, methods = 0, {name: ways()[name] for name in (MODEL, *SIMPLE)}
    for setting in settings(public_data / "gavel"):
        for (name, cells), limit in most.items():
            if setting.name == name:
                seen += 1
                rows = errors(setting, cells, 3, methods)
                found = {str(row["method"]): float(row["error"]) for row in rows}
                assert found[MODEL] <= limit
                assert found[MODEL] < 0.95 * min(found[way] for way in SIMPLE)
    assert seen == len(most)
