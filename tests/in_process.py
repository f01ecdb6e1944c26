"""Scripts and benchmarks run in this process: each import of the library costs a second or two."""

from __future__ import annotations

import runpy
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import joblib
import pytest

from apportion.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Printed", "run_benchmark", "run_command", "run_script"]


class Printed(NamedTuple):
    """What was written to the standard output, and to that for errors."""

    out: str
    err: str


def run_script(script: Path, folder: Path) -> Printed:
    """Run a script in a folder, as ``python script`` would, but that processes are not started."""
    return _run(lambda: runpy.run_path(str(script), run_name="__main__"), [str(script)], folder)


def run_benchmark(name: str, *options: str, folder: Path) -> Printed:
    """Run a benchmark in a folder, as ``python -m benchmarks.NAME`` would."""
    main: Callable[[], object] = import_module(f"benchmarks.{name}").main
    return _run(main, [name, *options], folder)


def run_command(words: list[str]) -> Printed:
    """Run a command, as ``apportion WORDS`` would, where this process is."""
    return _run(lambda: main(words), ["apportion", *words], Path.cwd())


def _run(code: Callable[[], object], words: list[str], folder: Path) -> Printed:
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", words)
        with (
            joblib.parallel_config(backend="sequential"),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            status = _status(code)
    assert not status, err.getvalue()
    return Printed(out.getvalue(), err.getvalue())


def _status(code: Callable[[], object]) -> object:
    """Run code; return what it exits with, if it does."""
    try:
        code()
    except SystemExit as done:
        return done.code
    return None
