"""Lines of the library by folder, as the page on design has them.

``python -m tests.documentation.lines`` counts them anew and writes them there.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from typing import TYPE_CHECKING

from tests.test_layout import FOLDERS, ROOT, sources

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "background" / "design.md"
HEADING = "## What the folders cost"
ROW = re.compile(r"^\| ((?:`[\w/]+/`(?:, )?)+) \| ([\d,]+) \|", re.M)
TOTAL = re.compile(r"There are ([\d,]+)\nlines in ([\d,]+) files, of which ([\d,]+) are code")
_SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def files() -> dict[Path, str]:
    """Return what each file of the library says."""
    every = [file for package in FOLDERS for file in sources(package)]
    return {file.relative_to(ROOT): file.read_text(encoding="utf-8") for file in every}


def lines_of_code(text: str) -> int:
    """Count the lines that are no comment, no text of documentation and not blank."""
    told = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT and token.string:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - told)


def by_row(page: str) -> dict[str, int]:
    """Return the lines of each row of the table: a file belongs to its innermost folder there."""
    home = {
        folder: row
        for row, _ in ROW.findall(page.partition(HEADING)[2])
        for folder in re.findall(r"[\w/]+(?=/`)", row)
    }
    found = Counter(dict.fromkeys(home.values(), 0))
    for file, text in files().items():
        inner = next(each.as_posix() for each in file.parents if each.as_posix() in home)
        found[home[inner]] += len(text.splitlines())
    return dict(found)


def totals() -> tuple[int, int, int]:
    """Return the lines, files and lines of code of the library."""
    texts = files().values()
    lines = sum(len(each.splitlines()) for each in texts)
    return lines, len(texts), sum(map(lines_of_code, texts))


def with_counts(page: str) -> str:
    """Return the page with the numbers of today; code to the next hundred."""
    before, heading, after = page.partition(HEADING)
    counted = by_row(page)
    after = ROW.sub(lambda row: f"| {row[1]} | {counted[row[1]]:,} |", after)
    lines, count, code = totals()
    said = f"There are {lines:,}\nlines in {count:,} files, of which {round(code, -2):,} are code"
    return before + heading + TOTAL.sub(said, after)


if __name__ == "__main__":
    PAGE.write_text(with_counts(PAGE.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
