from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def public_data() -> Path:
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the public traces are not at ../shared/data beside the project root")
    return folder
