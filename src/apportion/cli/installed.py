"""``apportion policies``, ``accelerators`` and ``doctor``: what is there, and whether it works."""

from __future__ import annotations

import json
import os
import platform
import sys
import textwrap
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import cvxpy
from threadpoolctl import threadpool_info

from apportion._version import __version__
from apportion.checks import as_word, choice
from apportion.cli.output import print_table, say, width
from apportion.cli.parser import DEFAULTS
from apportion.cluster import accelerators
from apportion.cluster.accelerators import ACCELERATORS
from apportion.errors import SolveError
from apportion.mechanism.deciders import DECIDERS, scheduler_table
from apportion.mechanisms import MECHANISMS
from apportion.mechanisms.settings import settings_of
from apportion.policies import WHOLE, policy_table, solve
from apportion.policies.registry import POLICIES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    import pandas as pd

    from apportion.policies import Policy


def list_known(args: argparse.Namespace) -> None:
    """List what the command is called."""
    (_accelerators if args.listed == "accelerators" else _policies)(args)


def _policies(args: argparse.Namespace) -> None:
    """List the policies with their problems, the schedulers with their rules, and sources."""
    POLICIES.load()
    DECIDERS.load()
    policies, schedulers = policy_table(), scheduler_table()
    if args.about is not None:
        rows = [*policies.to_dict("records"), *schedulers.to_dict("records")]
        told: dict[str, dict[Any, Any]] = {row["name"]: row for row in rows}
        told |= {name: _settings(name, kind) for name, kind in MECHANISMS.items()}
        choice("policy, scheduler or mechanism", args.about, told)
        if args.about in list(POLICIES):
            kind = POLICIES[args.about]
            settings = ", ".join(f"{name}={value!r}" for name, value in _defaults(kind).items())
            told[args.about] |= {"columns": ", ".join(kind.columns), "settings": settings}
        _show_one(told[args.about], args.format)
        return
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


def _settings(name: str, kind: Any) -> dict[str, str]:
    """Return what is set in brackets behind a mechanism, and the defaults."""
    usual = {
        each.name: "" if each.default is None else f" (default: {as_word(each.default)})"
        for each in settings_of(kind)
    }
    return {"name": name, **{each.name: each.help + usual[each.name] for each in settings_of(kind)}}


def _defaults(kind: type[Policy]) -> dict[str, Any]:
    """Return the settings of a policy, as they are where none is given."""
    default = kind()
    names = (each.name for each in fields(cast("Any", kind)))
    return {name: getattr(default, name) for name in names}


def _show_one(about: Mapping[str, Any], layout: str) -> None:
    """Print what is known of one thing, a line for each fact."""
    facts = {key: value for key, value in about.items() if value == value}
    if layout == "json":
        print(json.dumps(facts, indent=2))
        return
    for key, value in facts.items():
        if value != "":
            shown = f"{value:.4g}" if isinstance(value, float) else value
            say(f"{key}: {shown}", "    ")


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
    if args.about is not None:
        choice("accelerator", args.about, ACCELERATORS)
        facts = ACCELERATORS[args.about]._asdict()
        _show_one({"accelerator": args.about, **facts}, args.format)
        return
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


_NEEDED = ("cvxpy", "highspy", "clarabel", "numpy", "scipy", "pandas", "joblib", "threadpoolctl")
_EXTRAS = {
    "cli": ("rich",),
    "plot": ("matplotlib",),
    "parquet": ("pyarrow",),
    "ray": ("ray",),
    "dask": ("distributed",),
    "service": ("fastapi", "uvicorn", "prometheus_client"),
}


def doctor(args: argparse.Namespace) -> None:
    """Print versions, solvers, threads and extras; solve a problem whose answer is known."""
    print(f"apportion {__version__}, Python {platform.python_version()} ({platform.machine()})")
    print(f"  {sys.executable}\n")
    print_table(["package", "version"], [[name, _version(name)] for name in _NEEDED], left=(0, 1))
    print(f"\nSolvers known to cvxpy: {', '.join(sorted(cvxpy.installed_solvers()))}")
    pools = {f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info()}
    limit = os.environ.get("OMP_NUM_THREADS", "not set")
    print(f"Processors {os.cpu_count()}, OMP_NUM_THREADS {limit}, threads {', '.join(pools)}")
    print("  (results do not depend on threads; solving uses one)\n")
    rows = []
    for extra, modules in _EXTRAS.items():
        missing = [name for name in modules if find_spec(name) is None]
        how = f"missing {', '.join(missing)}: pip install 'apportion[{extra}]'"
        rows.append([extra, how if missing else ", ".join(map(_version_of, modules))])
    print_table(["extra", "what is there"], rows, left=(0, 1))
    _try()


def _try() -> None:
    """Solve a problem whose answer is known by hand: two alike jobs share a GPU in halves."""
    found = solve("max_min_fairness", {"a": {"gpu": 1.0}, "b": {"gpu": 1.0}}, workers={"gpu": 1})
    if found.gap > 1e-6 or abs(found.X - 0.5).to_numpy().max() > 1e-6:
        raise SolveError(
            f"Two alike jobs should share a GPU in halves; the shares are "
            f"{found.X.to_numpy().ravel().tolist()}, gap {found.gap:.1e}."
        )
    print(f"\nA small problem was solved and certified (gap {found.gap:.0e}): all is well.")


def _version_of(module: str) -> str:
    return f"{module} {_version(module.replace('_', '-'))}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
