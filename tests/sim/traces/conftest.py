from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

SHARED_DATA = Path(__file__).resolve().parents[4] / "shared" / "data"


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    def find(name: str) -> Path:
        path = SHARED_DATA / name
        if not path.exists():
            pytest.skip(f"needs the public data {path}, which is not there")
        return path

    return find


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_lines(name: str, *lines: str) -> Path:
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write_lines
