"""From the words of a command to an exit status; every error becomes one line.

Imports that a command does without are put off until somebody asks for what they hold.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import logging
import os
import re
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from apportion.cli.parser import parse
from apportion.cli.sections import called
from apportion.errors import ApportionError, InputError
from apportion.own_code import place_of, said_with_place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


logger = logging.getLogger(__name__)

_FAILED, _MISUSED, _INTERRUPTED = 1, 2, 130


def from_shell() -> int:
    """Run the command of a process that does nothing else, and return its exit status.

    What is alive at its end is not looked at for cycles: where a thousand modules are, that takes
    a sixth of a small solve, and the process gives its memory back in any case.
    """
    status = main()
    gc.freeze()
    return status


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Returns
    -------
    int
        0; 1 if solving or simulating failed; 2 if the input cannot be used; 130 after Ctrl-C.
    """
    args = argparse.Namespace(verbose=False, flags={}, sections={})
    words = sys.argv[1:] if argv is None else argv
    try:
        args = parse(words)
        _run(args)
    except KeyboardInterrupt:
        return _say(_interrupted(args), _INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone, as in `apportion policies | head -1`: nothing is left to say, and
        # Python must not try to flush the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except ApportionError as error:
        logger.info("The error came from here:", exc_info=error)
        text = _in_options(" ".join(said_with_place(error).split()), args, words)
        return _say(f"error: {text}", _MISUSED if isinstance(error, InputError) else _FAILED)
    except Exception as error:
        if place_of(error) is None:
            raise
        logger.info("The error came from here:", exc_info=error)
        said = " ".join(said_with_place(error).split())
        return _say(f"error: {type(error).__name__}: {said}", _FAILED)
    return 0


def _run(args: argparse.Namespace) -> None:
    """Import what the command needs, and run it."""
    logging.basicConfig(format="%(name)s: %(message)s")
    if getattr(args, "verbose", False):
        logging.getLogger("apportion").setLevel(logging.INFO)
    # cvxpy imports one for an atom that no policy has, scipy one since numpy names it, and the
    # others are imported to see that they are there.
    with (
        uncollected(),
        put_off("scipy.stats", "entropy"),
        put_off("scipy.optimize"),
        put_off("osqp"),
        put_off("numpy.f2py"),
    ):
        module, _, function = args.module.partition(":")
        command = getattr(importlib.import_module(f"apportion.cli.{module}"), function or "run")
    command(args)
    sys.stdout.flush()


_ARGUMENT = re.compile(
    r"""(?<![\w'"])(?<!\w\()([a-z_]+)=(?:'([^']*)'|"([^"]*)"|([0-9][\w.]*)|(True))?(?!\.\.\.|[\w(\[{'"])"""
)
"""An argument as Python has it: a name, and a text, a number or True, or nothing."""


def _in_options(text: str, args: argparse.Namespace, words: Sequence[str]) -> str:
    """Write arguments of Python as options of the command, and say where settings are given."""
    where: list[str] = []

    def option(found: re.Match[str]) -> str:
        if found[1] not in args.flags:
            given = called(args, found[1])
            if given != found[1] and not any(f"{found[1]}=" in word for word in words):
                where.append(given)
            return found[0]
        value = next((f" {each}" for each in found.groups()[1:4] if each is not None), "")
        return f"{args.flags[found[1]]}{value}"

    said = _ARGUMENT.sub(option, text)
    return f"{said} (In brackets: {where[-1]}.)" if where else said


def _interrupted(args: argparse.Namespace) -> str:
    """Say what an interrupted command leaves behind."""
    finished = {"compare": "policies", "sweep": "runs"}.get(getattr(args, "module", ""))
    if finished is None:
        return "interrupted."
    return (
        f"interrupted; finished {finished} are kept in {args.out}, and the same command goes on "
        f"from there."
    )


def _say(text: str, status: int) -> int:
    """Print one line to standard error and return the exit status."""
    print(f"apportion: {text}", file=sys.stderr)
    return status


class _PutOff(ModuleType):
    """A module that is imported when one of its functions is called, or anything else is asked."""

    functions: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name not in self.functions:
            return getattr(self._imported(), name)
        return lambda *args, **kwargs: getattr(self._imported(), name)(*args, **kwargs)

    def _imported(self) -> ModuleType:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return importlib.import_module(self.__name__)


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no cycles meanwhile: what is imported stays, and is looked through many times."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@contextmanager
def put_off(module: str, *functions: str) -> Iterator[None]:
    """Let those who import functions of a module meanwhile have them when they call them first.

    Where the module has been imported already nothing changes.
    """
    if module in sys.modules:
        yield
        return
    spec = find_spec(module)
    if spec is None:
        yield
        return
    stands_in = _PutOff(module)
    stands_in.functions, stands_in.__spec__ = functions, spec
    stands_in.__path__ = spec.submodule_search_locations or []
    sys.modules[module] = stands_in
    package, _, name = module.rpartition(".")
    inside = vars(sys.modules[package]) if package else {}
    inside.setdefault(name, stands_in)  # as of any module of a package
    try:
        yield
    finally:
        if sys.modules.get(module) is stands_in:
            del sys.modules[module]
        if inside.get(name) is stands_in:
            del inside[name]
