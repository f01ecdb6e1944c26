"""``apportion completion``: commands and options completed by a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.cli.parser import whole_parser
from apportion.errors import ApportionError

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> None:
    """Print the completion script of a shell."""
    try:
        import shtab
    except ImportError as error:
        raise ApportionError("Completion needs shtab: pip install 'apportion[cli]'.") from error
    print(shtab.complete(whole_parser()[0], shell=args.shell))
