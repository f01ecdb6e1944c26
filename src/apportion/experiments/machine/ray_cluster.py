"""Runs on a Ray cluster: one that is started here, or one that runs."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import joblib

from apportion.errors import ApportionError
from apportion.experiments.machine.workers import Workers, one_line, try_in_a_process

if TYPE_CHECKING:
    from collections.abc import Generator

_SECONDS_TO_REACH_A_PORT = 5.0
_SECONDS_TO_CONNECT = 60.0
_MODE, _TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
_ADVICE = (
    "Give the address that `ray start --head` prints, such as 10.0.0.1:6379. A cluster that was "
    "started where a token lies in ~/.ray/auth_token asks for it: set RAY_AUTH_MODE=token here and "
    "on every node, with the same token."
)


@contextmanager
def ray_workers(address: str | None, n_jobs: int | None) -> Generator[Workers]:
    """Make Ray the active back end of joblib; a cluster that is started here ends with the block.

    Ray listens on all interfaces of the machine. A cluster that is started here asks for a token
    that nobody else knows.

    Raises
    ------
    ApportionError
        If the cluster cannot be reached.
    """
    # Nobody who sweeps policies asked for statistics of use to be sent anywhere.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.exceptions import RayError
    from ray.util.joblib.ray_backend import RayBackend

    joblib.register_parallel_backend("ray", _yielding(RayBackend))
    own = not ray.is_initialized()
    with _own_token(needed=own and address is None):
        if own:
            _connect(address, n_jobs)
        try:
            cpus = int(ray.cluster_resources().get("CPU", 1))
            with joblib.parallel_config(backend="ray"):
                at_once = min(n_jobs or cpus, cpus)
                yield Workers(at_once, "Ray", (RayError, ConnectionError))
        finally:
            if own:
                ray.shutdown()


def _connect(address: str | None, n_jobs: int | None) -> None:
    """Start a cluster here, or connect to the one at an address.

    Raises
    ------
    ApportionError
        If it cannot be reached.
    """
    import ray
    from ray.exceptions import RayError

    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is None:
        here = n_jobs or joblib.cpu_count()
        options |= {"address": "local", "num_cpus": here, "include_dashboard": False}
    else:
        _check_reachable(address)
        options |= {"address": address}
    try:
        ray.init(**options)
    except (ConnectionError, ValueError, RuntimeError, RayError) as error:
        where = "start a Ray cluster" if address is None else f"reach a Ray cluster at {address!r}"
        advice = "" if address is None else f" {_ADVICE}"
        raise ApportionError(f"Cannot {where}: {one_line(str(error))}.{advice}") from error


def _check_reachable(address: str) -> None:
    """Try an address in bounded time; Ray itself would try for minutes.

    Raises
    ------
    ApportionError
        If nothing listens there, or what does is no Ray cluster that lets us in.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host, int(port)), _SECONDS_TO_REACH_A_PORT).close()
        except (OSError, OverflowError) as error:
            raise ApportionError(
                f"Cannot reach a Ray cluster at {address!r}: {error}. {_ADVICE}"
            ) from error
    code = "import sys, ray; ray.init(sys.argv[1], log_to_driver=False); ray.shutdown()"
    try:
        try_in_a_process(code, address, _SECONDS_TO_CONNECT)
    except ApportionError as error:
        raise ApportionError(f"Cannot reach a Ray cluster: {error}. {_ADVICE}") from error


@contextmanager
def _own_token(*, needed: bool) -> Generator[None]:
    """Let a local cluster ask for a token of this process, and leave no trace of it.

    Ray would write one into the home folder, and leave its mode in the environment; clusters that
    are started later then ask for tokens unasked. Whoever has chosen a mode keeps it.
    """
    if not needed or _MODE in os.environ:
        yield
        return
    before = os.environ.get(_TOKEN)
    os.environ[_TOKEN] = before or _token()
    try:
        yield
    finally:
        os.environ.pop(_MODE, None)
        if before is None:
            os.environ.pop(_TOKEN, None)
        _forget_token()


@cache
def _token() -> str:
    return secrets.token_hex(32)


def _forget_token() -> None:
    """Let Ray read its mode and its token anew when it is started again in this process."""
    raylet = import_module("ray._raylet")
    with suppress(AttributeError):  # of versions without tokens
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()


def _yielding(ray_backend: Any) -> Any:
    """Let Ray's back end give results as they come, and work with a single CPU.

    It inherits from joblib's pool of processes that it may not yield, which stands for trouble with
    processes of that pool, and that one worker is none; Ray puts a pool of its own in place of it.
    """

    def configure(backend: Any, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        if n_jobs != 1:
            at_once: int = ray_backend.configure(backend, n_jobs, parallel, **options)
            return at_once
        PicklingPool.__bases__ = (Pool,)
        remote = {"ray_remote_args": backend.ray_remote_args}
        backend._pool = MemmappingPool(1, **backend.backend_kwargs, **remote)
        backend.parallel = parallel
        return 1

    from joblib.pool import MemmappingPool, PicklingPool
    from ray.util.multiprocessing.pool import Pool

    members = {"supports_return_generator": True, "configure": configure}
    return type("YieldingRayBackend", (ray_backend,), members)
