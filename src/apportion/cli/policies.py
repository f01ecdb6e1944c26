"""``apportion policies``."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

from apportion.cli.output import print_table
from apportion.policies import policy_table

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]


def run(args: argparse.Namespace) -> None:
    """List the policies with their problems and sources."""
    table = policy_table()
    if args.json:
        print(json.dumps(table.to_dict("records"), indent=2))
        return
    rows = []
    for name, problem, source in table[["name", "problem", "source"]].itertuples(index=False):
        problems, sources = textwrap.wrap(problem, 44), textwrap.wrap(source, 28)
        height = max(len(problems), len(sources))
        names = [name] + [""] * (height - 1)
        problems += [""] * (height - len(problems))
        sources += [""] * (height - len(sources))
        rows += [list(row) for row in zip(names, problems, sources, strict=True)]
    print_table(["name", "problem", "source"], rows, left=(0, 1, 2))
    print("\nWith _agnostic behind its name a policy takes every accelerator type for the same.")
