"""``apportion export``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.allocation import Allocation
from apportion.allocation_files import read_object
from apportion.checks import choice, file_path
from apportion.cli.solve import jobs_table
from apportion.cluster import Cluster
from apportion.errors import InputError
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

if TYPE_CHECKING:
    import argparse

_KUBERNETES: dict[str, Any] = {"kueue": kueue_objects, "kai": kai_queues, "volcano": volcano_queues}


def run(args: argparse.Namespace) -> None:
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
