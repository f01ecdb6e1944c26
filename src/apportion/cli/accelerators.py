"""``apportion accelerators``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.cli.output import print_table
from apportion.cluster import accelerators

if TYPE_CHECKING:
    import argparse

__all__ = ["run"]

_HEADS = ("GB", "GB/s", "fp32", "tf32", "fp16", "fp8", "W", "$/h", "year", "price of")


def run(args: argparse.Namespace) -> None:
    """List the types of GPUs that are known by name."""
    table = accelerators()
    if args.json:
        print(table.to_json(orient="index", indent=2))
        return
    shown = table.map(lambda value: value if isinstance(value, str) else _figure(value))
    print("Memory (GB), its bandwidth (GB/s), dense arithmetic (10^12 operations/s), power (W),")
    print("list price on demand ($/h).\n")
    rows = [[str(name), *row] for name, row in zip(shown.index, shown.to_numpy(), strict=True)]
    print_table(["accelerator", *_HEADS], rows, left=(0, len(_HEADS)))


def _figure(value: float) -> str:
    """Write a figure; nothing where there is none."""
    return "" if value != value else f"{value:g}"
