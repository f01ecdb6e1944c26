"""``apportion doctor``: what this installation has, and whether it works."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

import cvxpy
from threadpoolctl import threadpool_info

from apportion._version import __version__
from apportion.cli.output import print_table
from apportion.errors import SolveError
from apportion.policies import solve

if TYPE_CHECKING:
    import argparse

_NEEDED = ("cvxpy", "highspy", "clarabel", "numpy", "scipy", "pandas", "joblib", "threadpoolctl")
_EXTRAS = {
    "cli": ("rich", "shtab"),
    "plot": ("matplotlib",),
    "parquet": ("pyarrow",),
    "ray": ("ray",),
    "dask": ("distributed",),
    "fast": ("numba",),
    "service": ("fastapi", "uvicorn", "prometheus_client"),
}


def run(args: argparse.Namespace) -> None:
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
