"""Runs on a Dask cluster: one that is started here, or one that runs."""

from __future__ import annotations

import _thread
import asyncio
import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import joblib

from apportion.errors import ApportionError
from apportion.experiments.machine.workers import Workers, try_in_a_process

if TYPE_CHECKING:
    from collections.abc import Generator

    from distributed import Client

_SECONDS_TO_CONNECT = 45.0
_SECONDS_BETWEEN_LOOKS = 1.0


@contextmanager
def dask_workers(address: str | None, n_jobs: int | None) -> Generator[Workers]:
    """Make Dask the active back end of joblib.

    A cluster that is started here listens on 127.0.0.1 alone, and ends with the block.

    Raises
    ------
    ApportionError
        If the cluster cannot be reached.
    """
    from distributed import CancelledError, Client, KilledWorker, LocalCluster
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    losses = (
        *(KilledWorker, CancelledError, FutureCancelledError, CommClosedError),
        *(asyncio.CancelledError, TimeoutError, OSError),
    )
    if address is not None:
        _check_reachable(address)
        with (
            _without_tracebacks_of(losses),
            Client(address) as client,
            joblib.parallel_config(backend="dask"),
        ):
            cores = sum(cast("dict[str, int]", client.ncores()).values())
            if not cores:
                raise ApportionError(
                    f"The Dask cluster at {address!r} has no workers; start some with "
                    f"`dask worker {address}`."
                )
            with _watched(client) as gone:
                yield Workers(n_jobs or cores, "Dask", losses, gone)
        return
    here = n_jobs or joblib.cpu_count()
    # One run at a time in each process, as for the other back ends.
    # No dashboard; its declared type, which is inferred from the default, leaves None out.
    none = cast("str", None)
    local = LocalCluster(
        n_workers=here, threads_per_worker=1, host="127.0.0.1", dashboard_address=none
    )
    with local, Client(local), joblib.parallel_config(backend="dask"):
        yield Workers(here, "Dask", losses)


@contextmanager
def _without_tracebacks_of(losses: tuple[type[BaseException], ...]) -> Generator[None]:
    """Keep Dask's client from showing where in it a loss was noticed: one line says it in the end.

    A client that is closed while it tries to reconnect shows its own being cancelled.
    """

    def other(record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], losses))

    loggers = [logging.getLogger(f"distributed.{name}") for name in ("client", "core", "utils")]
    for each in loggers:
        each.addFilter(other)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(other)


def _check_reachable(address: str) -> None:
    """Try an address in bounded time.

    Raises
    ------
    ApportionError
        If no cluster answers.
    """
    if address.startswith("inproc:"):  # of this very process; no other could reach it
        return
    code = "import sys, distributed; distributed.Client(sys.argv[1], timeout=15).close()"
    try:
        try_in_a_process(code, address, _SECONDS_TO_CONNECT)
    except ApportionError as error:
        raise ApportionError(
            f"Cannot reach a Dask cluster: {error}. Give the address that `dask scheduler` "
            f"prints, such as tcp://10.0.0.1:8786."
        ) from error


@contextmanager
def _watched(client: Client) -> Generator[threading.Event]:
    """Interrupt the main thread when the connection is given up: joblib would wait for ever."""
    gone, done = threading.Event(), threading.Event()

    def watch() -> None:
        while not done.wait(_SECONDS_BETWEEN_LOOKS):
            if client.status == "closed":
                gone.set()
                _thread.interrupt_main()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield gone
    finally:
        done.set()
        watcher.join()
