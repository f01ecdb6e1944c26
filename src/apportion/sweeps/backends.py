"""Where the runs of a sweep are computed: processes here, or a Ray or Dask cluster."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import joblib

from apportion.checks import choice, whole
from apportion.errors import ApportionError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["BACKENDS", "active_backend", "check_backend"]


_ENGINES = {"ray": "ray", "dask": "distributed"}


@contextmanager
def active_backend(backend: str, address: str | None, n_jobs: int | None) -> Generator[int | None]:
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
    int or None
        Runs at once.

    Raises
    ------
    ApportionError
        If the cluster cannot be reached; see also `check_backend`.
    """
    check_backend(backend, address, n_jobs)
    with BACKENDS[backend](address, n_jobs) as at_once:
        yield at_once


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
def _processes(address: str | None, n_jobs: int | None) -> Generator[int | None]:
    with joblib.parallel_config(backend="loky"):
        yield n_jobs


@contextmanager
def _ray(address: str | None, n_jobs: int | None) -> Generator[int | None]:
    # Nobody who sweeps policies asked for statistics of use to be sent anywhere.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.util.joblib.ray_backend import RayBackend

    joblib.register_parallel_backend("ray", _yielding(RayBackend))
    own = not ray.is_initialized()
    if own:
        options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if address is None:
            here = n_jobs or joblib.cpu_count()
            options |= {"address": "local", "num_cpus": here, "include_dashboard": False}
        else:
            options |= {"address": address}
        try:
            ray.init(**options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ApportionError(f"Cannot reach a Ray cluster at {address!r}: {error}") from error
    try:
        cpus = int(ray.cluster_resources().get("CPU", 1))
        with joblib.parallel_config(backend="ray"):
            yield min(n_jobs or cpus, cpus)
    finally:
        if own:
            ray.shutdown()


def _yielding(ray_backend: Any) -> Any:
    """Let Ray's back end give results as they come.

    It inherits from joblib's pool of processes that it may not, which stands for trouble with
    processes of that pool; Ray puts a pool of its own in place of it.
    """
    return type("YieldingRayBackend", (ray_backend,), {"supports_return_generator": True})


@contextmanager
def _dask(address: str | None, n_jobs: int | None) -> Generator[int | None]:
    from distributed import Client, LocalCluster

    if address is not None:
        try:
            client = Client(address)
        except (OSError, ValueError) as error:
            raise ApportionError(f"Cannot reach a Dask cluster at {address!r}: {error}") from error
        with client, joblib.parallel_config(backend="dask"):
            yield n_jobs or sum(cast("dict[str, int]", client.ncores()).values())
        return
    here = n_jobs or joblib.cpu_count()
    # One run at a time in each process, as for the other back ends.
    # No dashboard; its declared type, which is inferred from the default, leaves None out.
    address_of_none = cast("str", None)
    local = LocalCluster(n_workers=here, threads_per_worker=1, dashboard_address=address_of_none)
    with local, Client(local), joblib.parallel_config(backend="dask"):
        yield here


BACKENDS: dict[str, Callable[[str | None, int | None], Any]] = {
    "processes": _processes,
    "ray": _ray,
    "dask": _dask,
}
"""Back ends by name."""
