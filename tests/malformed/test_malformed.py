"""Whatever is put in, what comes out is a result or an error of the package, never a traceback."""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING

import pytest
from tests.malformed.calls import all_calls, malformed
from tests.malformed.commands import malformed_command, outcome, right_commands
from tests.malformed.files import RIGHT, TRACES, malformed_read

import apportion as ap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

FEW, MANY = 300, 4000


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in an empty folder, for what a malformed path may write; numbers may overflow."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def survives(case: str, call: Callable[[], Any]) -> None:
    """Run a call that may fail with an error of the package only."""
    try:
        call()
    except ap.ApportionError:
        return
    except Exception as error:
        raise AssertionError(f"{case}: {type(error).__name__}: {error}") from error


def try_calls(folder: Path, cases: range) -> None:
    calls = all_calls(folder)
    for case in cases:
        rng = random.Random(f"call {case}")
        name, call = malformed(rng, calls)
        survives(f"case {case}: {name}", call)


def try_files(folder: Path, cases: range) -> None:
    for case in cases:
        rng = random.Random(f"file {case}")
        name, call = malformed_read(rng, folder)
        survives(f"case {case}: {name}", call)


def try_commands(folder: Path, cases: range, capsys: pytest.CaptureFixture[str]) -> None:
    for case in cases:
        words = malformed_command(random.Random(f"command {case}"), folder)
        try:
            status = outcome(words)
        except Exception as error:
            raise AssertionError(
                f"case {case}: {words}: {type(error).__name__}: {error}"
            ) from error
        said = capsys.readouterr().err
        assert status in (0, 1, 2), (case, words, status)
        if status:
            lines = [line for line in said.splitlines() if line.startswith("apportion: ")]
            assert len(lines) == 1, (case, words, said)


@pytest.mark.thorough
def test_what_is_right_is_accepted(tmp_path: Path) -> None:
    for call in all_calls(tmp_path):
        call.function(**call.arguments)
    for name in TRACES:
        (tmp_path / name).write_text(RIGHT[name])
        assert len(ap.read_workload(tmp_path / name)) == 2
    for words in right_commands(tmp_path):
        assert outcome(words) == 0, words


def test_calls(tmp_path: Path) -> None:
    try_calls(tmp_path, range(FEW))


@pytest.mark.thorough
def test_files(tmp_path: Path) -> None:
    try_files(tmp_path, range(FEW))


@pytest.mark.thorough
def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try_commands(tmp_path, range(FEW // 5), capsys)


@pytest.mark.slow
def test_many_calls(tmp_path: Path) -> None:
    try_calls(tmp_path, range(FEW, MANY))


@pytest.mark.slow
def test_many_files(tmp_path: Path) -> None:
    try_files(tmp_path, range(FEW, MANY))


@pytest.mark.slow
def test_many_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try_commands(tmp_path, range(FEW // 5, MANY // 8), capsys)
