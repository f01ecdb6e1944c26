from __future__ import annotations

import bz2
import gzip
import lzma
from typing import TYPE_CHECKING

import pytest

from apportion import text_files
from apportion.errors import InputError
from apportion.sim.traces.table import parse_table
from apportion.text_files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_comments_and_blank_lines_on_top_are_set_apart(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf# one\n\n#two\na,b\r\n1,2\r\n", mtime=0))
    file = read_text(path)
    assert (file.name, file.head, file.comments, file.first_line) == ("t", "a,b", ("one", "two"), 4)
    table = parse_table(file)
    assert table.numbers("b").to_dict() == {5: 2.0}


def test_missing_file_and_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot read .*none.csv: No such file"):
        read_text(tmp_path / "none.csv")
    with pytest.raises(InputError, match=r"Cannot read .*: Is a directory"):
        read_text(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.csv", b"", r"e\.csv is empty"),
        ("e.csv", b"# only\n\n", r"e\.csv is empty"),
        ("t.csv.gz", b"a,b\n", r"t\.csv\.gz is named \.gz, but it is not a gzip file"),
        (
            "t.csv.gz",
            gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9],
            r"t\.csv\.gz is not a whole gzip file",
        ),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_text(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lzma.compress(b"a,b"), "is a xz file; unpack it first"),
        (bz2.compress(b"a,b"), "is a bzip2 file; unpack it first"),
        (b"PK\x03\x04 and so on", "is a zip file; unpack it first"),
        (b"\x28\xb5\x2f\xfd and so on", "is a zstd file; unpack it first"),
        (gzip.compress(b"a.csv".ljust(257, b"\0") + b"ustar"), "is a tar archive"),
    ],
    ids=["xz", "bzip2", "zip", "zstd", "tar.gz"],
)
def test_other_packings_are_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_text(tmp_path / "t.csv")


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
