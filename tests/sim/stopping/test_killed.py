"""Processes killed at random times end with the same files; see ``kills.py`` for many kills."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("kills.py")
KINDS = ["rounds", "exact", "dally", "leases", "pairs", "compare", "sweep", "types", "shared types"]
KINDS += ["iterations"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("kind", KINDS)
def test_four_kills_change_no_file_and_leave_none(kind: str) -> None:
    words = [sys.executable, str(SCRIPT), kind, "4", str(KINDS.index(kind))]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{kind}: 4 kills over ")
    assert ", 0 wrong" in done.stdout, done.stdout
