from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from apportion.errors import InputError
from apportion.sim.traces.table import parse_table
from apportion.sim.traces.text import read_text

if TYPE_CHECKING:
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
