"""``apportion decide``."""

from __future__ import annotations

import json
import signal
import sys
import threading
from contextlib import contextmanager
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.checks import file_path
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.estimators import EstimatedSpeeds
from apportion.service import DecisionService
from apportion.service.answers import json_schema
from apportion.service.lines import answer_lines
from apportion.sim.traces.text import read_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import BinaryIO

_SWITCH_S = 0.001
"""Seconds that a thread may keep others waiting, so that answers go on beside a solve."""


def run(args: argparse.Namespace) -> None:
    """Answer lines of the standard input, or requests."""
    if args.schema:
        print(json.dumps(json_schema(), indent=2))
        return
    if args.cluster is None:
        raise InputError("Say which GPUs there are: --cluster v100=8,k80=16.")
    for name in () if args.http is not None else ("host", "token_file", "most_per_s"):
        if getattr(args, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} is for --http; give that too.")
    sys.setswitchinterval(_SWITCH_S)
    cluster = Cluster.of(args.cluster)
    cluster = Cluster(cluster.gpus, args.gpus_per_machine)
    with (
        DecisionService(
            args.policy,
            cluster,
            None if args.store is None else file_path("--store", args.store),
            time_limit_s=args.time_limit,
            estimates=None if args.references is None else _estimates(args.references, cluster),
        ) as service,
        _ends_in_order(),
    ):
        if args.http is None:
            answer_lines(service, _told(), sys.stdout)
        else:
            _serve(service, args)


@contextmanager
def _ends_in_order() -> Iterator[None]:
    """Let the store be closed when the process is told to end."""

    def end(*_: object) -> None:
        raise SystemExit(0)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _told() -> BinaryIO:
    """Return the standard input, read by a file of its own: its thread may be in it at the end."""
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except OSError:  # no file of the system
        return sys.stdin.buffer


def _estimates(path: str, cluster: Cluster) -> EstimatedSpeeds:
    """Return estimates that begin with the speeds of a file."""
    table: Any = pd.read_csv(BytesIO(read_text(path).body), index_col=0)
    for name in cluster.gpus:
        if name not in table.columns:
            raise InputError(f"{path!r} has no column {name!r}; it needs one per accelerator.")
    return EstimatedSpeeds(table, rows="type")


def _serve(service: DecisionService, args: argparse.Namespace) -> None:
    """Listen, if what it takes is installed."""
    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client") if not find_spec(name)]
    if missing:
        raise InputError(
            f"--http needs {', '.join(missing)}: install apportion[service], or send lines."
        )
    from apportion.service.http import serve_http

    token = None if args.token_file is None else read_text(args.token_file).body.decode().strip()
    if token == "":
        raise InputError(f"{args.token_file!r} holds no token.")
    serve_http(
        service,
        host=args.host or "127.0.0.1",
        port=args.http,
        token=token,
        most_per_s=args.most_per_s or 1000.0,
    )
