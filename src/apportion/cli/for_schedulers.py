"""``apportion decide`` and ``export``: answers for schedulers."""

from __future__ import annotations

import json
import signal
import sys
import threading
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.allocation import Allocation
from apportion.allocation_files import read_object
from apportion.checks import choice, file_path
from apportion.cli.solve import jobs_table, throughputs_of
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.estimators import EstimatedSpeeds
from apportion.exports import (
    gpus_by,
    kai_queues,
    kueue_objects,
    slurm_commands,
    slurm_reservations,
    volcano_queues,
    whole_gpus,
)
from apportion.report.files import check_folder, write_text
from apportion.service import DecisionService
from apportion.service.answers import json_schema
from apportion.service.lines import answer_lines
from apportion.text_files import read_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import BinaryIO


_SWITCH_S = 0.001
"""Seconds that a thread may keep others waiting, so that answers go on beside a solve."""


def run_decide(args: argparse.Namespace) -> None:
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
    table = throughputs_of(path)
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

    token = None if args.token_file is None else read_text(args.token_file).text().strip()
    if token == "":
        raise InputError(f"{args.token_file!r} holds no token.")
    serve_http(
        service,
        host=args.host or "127.0.0.1",
        port=args.http,
        token=token,
        most_per_s=args.most_per_s or 1000.0,
    )


_KUBERNETES: dict[str, Any] = {"kueue": kueue_objects, "kai": kai_queues, "volcano": volcano_queues}


def run_export(args: argparse.Namespace) -> None:
    """Read an allocation and whose jobs they are, and write quotas or commands."""
    choice("the system", args.system, ("slurm", *_KUBERNETES))
    out = None if args.out is None else file_path("--out", args.out)
    if out is not None:
        check_folder(out.parent)
    gpus = gpus_by(_shares(args.file), jobs_table(args.jobs_table), args.by)
    cluster = None if args.cluster is None else Cluster.of(args.cluster)
    if args.reserve is None and args.gpus_per_machine is not None:
        raise InputError("--gpus-per-machine is for --reserve; give that too.")
    if args.reserve is not None and args.system != "slurm":
        raise InputError("--reserve is for slurm.")
    if args.system == "slurm":
        made = _commands_of_slurm(gpus, args)
        text = "\n".join(made) + "\n"
    else:
        make = _KUBERNETES[args.system]
        objects = make(whole_gpus(gpus, cluster))
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        text = json.dumps(listed, indent=2) + "\n"
    if out is None:
        print(text, end="")
    else:
        print(f"Written: {write_text(out, text)}")


def _commands_of_slurm(gpus: pd.DataFrame, args: argparse.Namespace) -> list[str]:
    owners: Any = "users" if args.by == "user" else "accounts"
    if args.reserve is None:
        return slurm_commands(gpus, owners=owners)
    if args.cluster is not None:
        gpus = whole_gpus(gpus, args.cluster)
    return slurm_reservations(gpus, args.gpus_per_machine or 4, args.reserve, owners=owners)


def _shares(path: str) -> pd.DataFrame:
    """Read the shares that ``apportion solve --out`` or `Allocation.to_json` has written."""
    content = read_object(file_path("the allocation", path), "allocation")
    if "shares" not in content:
        return Allocation.from_dict(content).X
    shares = content["shares"]
    if not isinstance(shares, dict) or not all(isinstance(each, dict) for each in shares.values()):
        raise InputError(f"{path!r} holds no shares by job and accelerator.")
    # An answer of `apportion decide` has the shares of time beside the steps per second.
    shares = {job: each.get("time", each) for job, each in shares.items()}
    for job, each in shares.items():
        if not isinstance(each, dict) or not all(
            type(part) in (int, float) for part in each.values()
        ):
            raise InputError(f"{path!r}: the shares of {job!r} must be numbers by accelerator.")
    return pd.DataFrame.from_dict(shares, orient="index")
