"""``python -m benchmarks.readme``: what pages say that their commands and their code print.

Each block of text behind ``<!-- printed by: NAME -->`` is printed again. Without ``--write`` those
that differ are shown, with it they are written into their pages. Seconds differ from run to run and
so does the size of a gap; they count for nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PAGES", "PRINTED", "block", "compared", "first_command", "python_blocks", "with_block"]

_ROOT = Path(__file__).parents[1]
PAGES = {
    "README": _ROOT / "README.md",
    "speed": _ROOT / "benchmarks" / "speed" / "README.md",
    "sharing": _ROOT / "docs" / "howto" / "share_gpus.md",
    "policies": _ROOT / "docs" / "reference" / "policies.md",
}


def main() -> None:
    """Print every block again; show or write those that differ."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readme", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the blocks into their pages")
    options = parser.parse_args()
    for name, (page, print_again) in PRINTED.items():
        text = PAGES[page].read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            printed = print_again(text, Path(folder))
        if compared(printed) == compared(block(text, name)):
            print(f"{name}: as the page has it")
            continue
        print(f"{name}: differs from the page\n\n{printed}\n")
        if options.write:
            PAGES[page].write_text(with_block(text, name, printed), encoding="utf-8")


def python_blocks(text: str) -> list[str]:
    """Give the python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```$", text, flags=re.S | re.M)


def first_command(text: str) -> list[str]:
    """Give the words behind the first .venv/bin/apportion of a page."""
    found = re.search(r"\.venv/bin/apportion (.*)$", text, flags=re.M)
    if found is None:
        raise ValueError("The page has no command that begins with .venv/bin/apportion.")
    return shlex.split(found[1])


def _compare(text: str, folder: Path) -> str:
    return _run(["-m", "apportion", *first_command(text)], folder)


def _solve(text: str, folder: Path) -> str:
    return _run(["-c", python_blocks(text)[0]], folder)


PRINTED: dict[str, tuple[str, Callable[[str, Path], str]]] = {
    "the first command": ("README", _compare),
    "solve": ("README", _solve),
    "sharing": ("sharing", _solve),
}
"""The page of a block, and what prints it again given that page and a folder to run in."""


def _run(arguments: list[str], folder: Path) -> str:
    """Run Python in a folder; give what it prints, as wide as it likes."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


def block(text: str, name: str) -> str:
    """Give the block of a page that a name stands for."""
    return _found(text, name)[1]


def with_block(text: str, name: str, printed: str) -> str:
    """Give the page with another block in the place of the one that a name stands for."""
    found = _found(text, name)
    return text[: found.start(1)] + printed + text[found.end(1) :]


def block_of(text: str, name: str) -> str:
    """Return the block of a page that a name stands for."""
    return _found(text, name)[1]


def _found(text: str, name: str) -> re.Match[str]:
    marker = f"<!-- printed by: {re.escape(name)} -->\n"
    found = re.search(rf"{marker}```text\n(.*?)\n```$", text, flags=re.S | re.M)
    if found is None:  # a table: lines up to the first empty one
        found = re.search(rf"{marker}(\|.*?)\n$", text, flags=re.S | re.M)
    if found is None:
        raise ValueError(f"The page has no block that is printed by {name!r}.")
    return found


def compared(printed: str) -> list[list[str]]:
    """Split what was printed into words, without what differs from run to run.

    That is the time that a command took, the seconds in the column ``solving``, the last of the
    table of a comparison, and the size of a gap.
    """
    printed = re.sub(r"\bin \d+(\.\d+)? s\b", "in SECONDS s", printed)
    printed = re.sub(r"\bgap \S+", "gap SMALL", printed)
    if re.search(r"\bsolving$", printed, flags=re.M):
        printed = re.sub(r"^(\w+ .*) [\d.,]+$", r"\1 SECONDS", printed, flags=re.M)
    return [line.split() for line in printed.splitlines()]


if __name__ == "__main__":
    main()
