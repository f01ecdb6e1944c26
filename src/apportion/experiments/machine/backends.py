"""Where the runs of a sweep are computed: processes here, or a Ray or Dask cluster."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import joblib

from apportion.checks import choice, whole
from apportion.errors import ApportionError, InputError
from apportion.experiments.machine.dask_cluster import dask_workers
from apportion.experiments.machine.losses import Workers
from apportion.experiments.machine.ray_cluster import ray_workers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from contextlib import AbstractContextManager

__all__ = ["BACKENDS", "active_backend", "check_backend"]


_ENGINES = {"ray": "ray", "dask": "distributed"}


@contextmanager
def active_backend(backend: str, address: str | None, n_jobs: int | None) -> Generator[Workers]:
    """Make a back end the active one of joblib; a cluster that is started here ends with it.

    Parameters
    ----------
    backend
        One of `BACKENDS`.
    address
        Of a running cluster; None starts one on this machine.
    n_jobs
        Runs at once; None for one per processor of the machine, or of the cluster.

    Yields
    ------
    Workers
        How many there are, and what it means when they are gone.

    Raises
    ------
    ApportionError
        If the cluster cannot be reached; see also `check_backend`.
    """
    check_backend(backend, address, n_jobs)
    with BACKENDS[backend](address, n_jobs) as workers:
        yield workers


def check_backend(backend: str, address: str | None, n_jobs: int | None) -> None:
    """Refuse unknown back ends, an address where there is no cluster, and less than one job.

    Raises
    ------
    InputError
        Naming the option.
    ApportionError
        If the engine is not installed.
    """
    choice("backend", backend, BACKENDS)
    if address is not None and backend == "processes":
        raise InputError(
            f"address is {address!r}, but the back end 'processes' has no cluster; "
            f"give backend='ray' or 'dask', or leave out the address."
        )
    if n_jobs is not None:
        whole("n_jobs", n_jobs, 1)
    if find_spec(_ENGINES.get(backend, "joblib")) is None:
        raise ApportionError(
            f"The back end {backend!r} needs more packages: pip install apportion[{backend}]."
        )


@contextmanager
def _processes(address: str | None, n_jobs: int | None) -> Generator[Workers]:
    with joblib.parallel_config(backend="loky"):
        yield Workers(n_jobs)


BACKENDS: Mapping[str, Callable[[str | None, int | None], AbstractContextManager[Workers]]] = {
    "processes": _processes,
    "ray": ray_workers,
    "dask": dask_workers,
}
"""Back ends by name."""
