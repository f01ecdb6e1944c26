"""Where runs are computed: processes here, or a Ray or Dask cluster."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import joblib

from apportion.checks import choice, whole
from apportion.errors import ApportionError, InputError
from apportion.experiments.machine.dask_cluster import dask_workers
from apportion.experiments.machine.ray_cluster import ray_workers
from apportion.experiments.machine.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from contextlib import AbstractContextManager

_ENGINES = {"ray": "ray", "dask": "distributed"}


@dataclass(frozen=True)
class Where:
    """Where runs are computed.

    Attributes
    ----------
    backend
        One of `BACKENDS`; None for the back end of joblib that is active, which is processes
        unless the caller has chosen another with ``joblib.parallel_config``.
    address
        Of a running cluster; None starts one on this machine.
    n_jobs
        Runs at once; None for one per processor of the machine, or of the cluster.

    Raises
    ------
    InputError
        For an unknown back end, an address where there is no cluster, and less than one job.
    ApportionError
        If the engine is not installed.
    """

    backend: str | None = None
    address: str | None = None
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        if self.backend is not None:
            choice("backend", self.backend, BACKENDS)
        if self.address is not None and self.backend not in _ENGINES:
            raise InputError(
                f"address is {self.address!r}, but the back end 'processes' has no cluster; "
                f"give backend='ray' or 'dask', or leave out the address."
            )
        if self.n_jobs is not None:
            whole("n_jobs", self.n_jobs, 1)
        if self.backend in _ENGINES and find_spec(_ENGINES[self.backend]) is None:
            raise ApportionError(
                f"The back end {self.backend!r} needs more packages: "
                f"pip install apportion[{self.backend}]."
            )


@contextmanager
def active_backend(where: Where) -> Generator[Workers]:
    """Make a back end the active one of joblib; a cluster that is started here ends with it.

    Yields
    ------
    Workers
        How many there are, and what it means when they are gone.

    Raises
    ------
    ApportionError
        If the cluster cannot be reached.
    """
    if where.backend is None:
        yield Workers(where.n_jobs)
        return
    with BACKENDS[where.backend](where.address, where.n_jobs) as workers:
        yield workers


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
