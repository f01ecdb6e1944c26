from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from apportion import text_files
from apportion.errors import InputError
from apportion.text_files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("line", [b"\n", b"# a comment\n", b"          ", b"a,b\n", b"#", b"0"])
@pytest.mark.parametrize("pack", [gzip.compress, bytes], ids=["gzip", "plain"])
def test_what_is_unpacked_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: bytes, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(text_files, "LARGEST_FILE", 2**21)
    path = tmp_path / "t.csv"
    path.write_bytes(pack(line * (2**23 // len(line))))
    with pytest.raises(InputError, match=r"more than (2 MiB of text|1 MiB)"):
        read_text(path)
    path.write_bytes(pack(b"a,b\n1,2\n" + b"# c\n" * 1000))
    assert read_text(path).head == "a,b"


def test_lines_are_bounded_and_many_blank_ones_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\n" * 4_000_000 + b"#" + b"x" * 900_000 + b"\na,b\n1,2\n")
    file = read_text(path)  # hours, if every line were cut off the rest by copying it
    assert (file.head, file.first_line) == ("a,b", 4_000_002)
    assert file.comments == ("x" * 900_000,)
    monkeypatch.setattr(text_files, "MOST_LINES", 1)
    with pytest.raises(InputError, match="more than 1 lines"):
        read_text(path)
