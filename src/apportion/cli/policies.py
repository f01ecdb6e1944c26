"""``apportion policies`` and ``apportion accelerators``: what is known by name."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

from apportion.cli.output import print_table, say, width
from apportion.cli.parser import DEFAULTS
from apportion.cluster import accelerators
from apportion.mechanism.deciders import DECIDERS, scheduler_table
from apportion.policies import WHOLE, policy_table
from apportion.policies.registry import POLICIES

if TYPE_CHECKING:
    import argparse

    import pandas as pd


def run(args: argparse.Namespace) -> None:
    """List what the command is called."""
    (_accelerators if args.listed == "accelerators" else _policies)(args)


def _policies(args: argparse.Namespace) -> None:
    """List the policies with their problems, the schedulers with their rules, and sources."""
    POLICIES.load()
    DECIDERS.load()
    policies, schedulers = policy_table(), scheduler_table()
    if args.format == "json":
        kinds = {"policies": policies, "schedulers": schedulers}
        listed = {kind: table.to_dict("records") for kind, table in kinds.items()}
        print(json.dumps(listed, indent=2))
        return
    needed = {each.name: options for options, kind in WHOLE.items() for each in kind}
    options = policies["name"].map(needed)
    print("Policies share out time; they are solved as convex problems.\n")
    _show(policies[options.isna()], "problem")
    print()
    say("With _agnostic behind its name a policy takes every accelerator type for the same.")
    for each in WHOLE:
        print()
        say(f"Policies that choose one option for each job, or none; options are {each}.")
        print()
        _show(policies[options == each], "problem")
    print("\nCompared where no --policies are named:\n")
    for of, names in DEFAULTS.items():
        say(f"{of}: {', '.join(names)}", "  ")
    for mechanism, table in schedulers.groupby("mechanism", sort=False):
        print()
        say(f"Schedulers {_DO.get(str(mechanism), f'that work by {mechanism}.')}")
        print()
        _show(table, "rule")


_DO = {
    "leases": "that offer GPUs on racks to waiting jobs, for a lease.",
    "iterations": "that place jobs once, on GPUs that are shared, and let transfers pass a gate.",
    "configurations": "of elastic jobs, beside the policies that choose a type and GPUs.",
    "queue": "that serve jobs in the order of a queue.",
}
"""What those do that work by a mechanism."""


def _show(table: pd.DataFrame, what: str) -> None:
    """Print a table of name, what is decided and source, long texts on several lines."""
    rows = []
    # What the names leave of a line; three gaps between the columns, and the edges.
    room = width() - int(table["name"].str.len().max()) - 6
    wide = min(44, max(room * 3 // 5, 20))
    narrow = min(28, max(room - wide, 14))
    for name, text, source in table[["name", what, "source"]].itertuples(index=False):
        texts, sources = textwrap.wrap(text, wide), textwrap.wrap(source, narrow)
        height = max(len(texts), len(sources))
        names = [name] + [""] * (height - 1)
        texts += [""] * (height - len(texts))
        sources += [""] * (height - len(sources))
        rows += [list(row) for row in zip(names, texts, sources, strict=True)]
    print_table(["name", what, "source"], rows, left=(0, 1, 2))


_HEADS = ("GB", "GB/s", "fp32", "tf32", "fp16", "fp8", "W", "$/h", "year")


def _accelerators(args: argparse.Namespace) -> None:
    """List the types of GPUs that are known by name."""
    table = accelerators()
    if args.format == "json":
        print(table.to_json(orient="index", indent=2))
        return
    shown = table.map(lambda value: value if isinstance(value, str) else _figure(value))
    say(
        "Memory (GB), its bandwidth (GB/s), dense arithmetic (10^12 operations/s), power (W), list "
        "price on demand ($/h)."
    )
    print()
    *figures, sources = (shown[name] for name in shown)
    rows = [[str(name), *row] for name, *row in zip(shown.index, *figures, strict=True)]
    print_table(["accelerator", *_HEADS], rows)
    print()
    for source, names in sources[sources != ""].groupby(sources, sort=False).groups.items():
        say(f"Price of {', '.join(map(str, names))}: {source}.", "  ")
    print("\nSlices that MIG makes of a GPU are known as well: a100-1g.5gb, h100-3g.40gb, ...")


def _figure(value: float) -> str:
    """Write a figure; nothing where there is none."""
    return "" if value != value else f"{value:g}"
