"""The page on design, held to the code: its pictures, what they name, and what it counts."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest
from tests import test_shape
from tests.documentation.lines import ROW, TOTAL, by_row, files, lines_of_code, totals
from tests.test_layout import FOLDERS, ROOT, sources

PAGE = (ROOT / "docs" / "background" / "design.md").read_text(encoding="utf-8")
PICTURES = re.findall(r"^```text\n(.*?)^```$", PAGE, flags=re.S | re.M)
COLUMNS = 88
"""What the site shows of a line without a bar to scroll with."""

UP, DOWN = "│├┤┴┼└┘", "│├┤┬┼┌┐"
"""Signs with an arm upwards, and downwards."""


def at(lines: list[str], row: int, column: int) -> str:
    return lines[row][column] if 0 <= row < len(lines) and column < len(lines[row]) else " "


@pytest.mark.parametrize("picture", PICTURES, ids=["loop", "solve"])
def test_lines_and_arrows_of_a_picture_meet(picture: str) -> None:
    lines = picture.splitlines()
    assert max(map(len, lines)) <= COLUMNS
    loose = []
    for row, line in enumerate(lines):
        for column, sign in enumerate(line):
            above, below = at(lines, row - 1, column), at(lines, row + 1, column)
            met = {
                "down": sign not in DOWN or below in f"{UP}▼",
                "up": sign not in UP or above in DOWN or (sign == "│" and above.strip()),
                "head": sign != "▼" or (below != " " and (above in DOWN or above.isalpha())),
                "tail": sign != "►" or at(lines, row, column - 1) == "─",
            }
            loose += [(row, column, sign, side) for side, right in met.items() if not right]
    assert not loose


def test_a_line_that_meets_nothing_is_seen() -> None:
    for broken in ("┌──┐\n│  │\n└──┘\n", "a\n│\n▼\nb\n"):
        test_lines_and_arrows_of_a_picture_meet(broken)
    for broken in ("┌──┐\n│   │\n└──┘\n", "a\n│\n ▼\n b\n", "a  ► b\n"):
        with pytest.raises(AssertionError):
            test_lines_and_arrows_of_a_picture_meet(broken)


def test_what_the_pictures_name_is_there() -> None:
    loop, solve = PICTURES
    for module, name in re.findall(r"(labelled|solving/\w+)\.(\w+)", solve):
        where = f"apportion.policies.{module.replace('/', '.')}"
        assert pkgutil.resolve_name(f"{where}:{name}"), name
    for file in re.findall(r"\b(?:sim|solving)/[\w/]+\.py", loop):
        assert (ROOT / file).exists(), file
    classes = {
        name
        for package in FOLDERS
        for file in sources(package)
        for name in re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.M)
    }
    named = set(re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)*\b", loop + solve))
    known = {name for name in named if name in classes}
    assert {"AboutRun", "InRounds", "InConfigurations", "TrueState", "Iterating"} <= known
    words = {"Decision", "Event", "Record", "Run", "Parts", "Speeds", "Sharing", "Fluid"}
    assert words <= known
    two = {name for name in named if re.fullmatch(r"(?:[A-Z][a-z]+){2,}", name)}
    assert two <= classes


def test_every_folder_of_the_library_has_its_line() -> None:
    table = PAGE.partition("## Folders")[2].partition("## What the folders cost")[0]
    folders = {
        file.parent.relative_to(ROOT).as_posix() for package in FOLDERS for file in sources(package)
    }
    named = {each.rstrip("/") for each in re.findall(r"`([\w/]+/)`", table)}
    tops = {folder.relative_to(ROOT).as_posix() for folder in FOLDERS.values()}
    # A folder within one of the page, but for the tops, may go without a line of its own.
    rest = {each for each in folders - named if Path(each).parent.as_posix() not in named - tops}
    assert not rest


@pytest.mark.thorough
def test_lines_and_files_are_counted() -> None:
    """As of the last count: within five in a hundred, as the code goes on between two."""
    told = [int(each.replace(",", "")) for each in TOTAL.findall(PAGE)[0]]
    assert told == pytest.approx(totals(), rel=0.05)
    rows = {row: int(lines.replace(",", "")) for row, lines in ROW.findall(PAGE)}
    assert rows == pytest.approx(by_row(PAGE), rel=0.1, abs=500)
    assert sum(rows.values()) == told[0]


def test_code_is_told_from_text() -> None:
    said = ['"""A text', 'of two lines."""', "", "# A comment.", 'x = """one', 'two"""  # beside']
    said += ["def f():", '    "Said."', "    return x"]
    text = "\n".join([*said, ""])
    assert lines_of_code(text) == 4


def test_limits_are_those_that_are_tested() -> None:
    words = {"three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "fifteen": 15}
    kept = " ".join(PAGE.partition("## What keeps it so")[2].partition("\n## ")[0].split())
    numbers = re.findall(r"at most (\d+) and (\d+)", kept)
    limits = (test_shape.SOLVE_FILES, test_shape.SOLVE_FUNCTIONS)
    assert numbers == [tuple(map(str, limits)), (str(test_shape.LINES), str(test_shape.SCREEN))]
    assert f"loose files in a folder: at most {test_shape.LOOSE};" in kept
    found = re.search(r"parameters of a function: at most (\d+), with (\w+) exceptions", kept)
    assert found is not None
    assert int(found[1]) == test_shape.PARAMETERS
    assert words[found[2]] == len(test_shape.MANY_PARAMETERS)
    doors = re.search(r"`isinstance` tests on what users bring: (\w+) ", kept)
    assert doors is not None
    assert words[doors[1]] == sum(test_shape.DOORS.values())
    walk = re.search(r"`solve` of 20 jobs goes through (\w+) files", PAGE)
    assert walk is not None
    assert words[walk[1]] == test_shape.SOLVE_FILES


def test_stages_and_modules_that_it_lists_are_files() -> None:
    stages = PAGE.partition("| stage, in `solving/`")[2].partition("\nA session")[0]
    first = re.findall(r"^\| (`.*?) \|", stages, flags=re.M)
    named = [name for cell in first for name in re.findall(r"`([\w/]+)`", cell)]
    assert len(named) > 12
    home = ROOT / "policies" / "solving"
    assert [n for n in named if not (home / f"{n}.py").exists() and not (home / n).exists()] == []
    shifts = PAGE.partition("`mechanism/time_shifts/` decides")[2].partition("\n\n")[0]
    modules = re.findall(r"`(\w+)`", shifts.partition("modules are")[2])
    home = ROOT / "mechanism" / "time_shifts"
    assert modules
    assert [name for name in modules if not (home / f"{name}.py").exists()] == []


def test_names_of_code_that_it_says_are_in_the_code() -> None:
    code = {word for text in files().values() for word in re.findall(r"\w+", text)}
    prose = re.sub(r"^```.*?^```$", "", PAGE, flags=re.S | re.M)
    spans = re.findall(r"`([A-Za-z_][\w.]*(?:\([\w, .=-]*\))?)`", prose)
    said = {word for span in spans for word in re.findall(r"[A-Za-z_]\w+", span)}
    of_files = {"py", "json", "tests", "benchmarks", "examples", "PATH"}
    stems = {part for file in files() for part in file.with_suffix("").parts}
    assert len(said) > 80
    assert sorted(said - code - stems - of_files) == []
