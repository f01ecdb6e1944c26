"""What logs call GPUs, and what they are called here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apportion.cluster import ACCELERATORS

if TYPE_CHECKING:
    from collections.abc import Collection

_GPU = re.compile(r"gres/gpu(?::([^=]+))?=(.*)")
_SLICE = re.compile(r"(?<![a-z0-9])\d+g\.\d+gb")
"""A part of a GPU, as NVIDIA's MIG calls it: ``1g.5gb``."""


def accelerator_of(name: str, known: Collection[str] = ()) -> str:
    """Return the name in `apportion.accelerators` of what a log calls a type of GPU.

    ``Tesla_V100-SXM2-32GB`` is a v100, ``nvidia_a100_80gb_pcie`` an a100_80gb. Names in `known`,
    those of parts of GPUs (``a100_1g.5gb``) and those that nobody knows stay as they are.

    Examples
    --------
    >>> accelerator_of("nvidia_a100_80gb_pcie"), accelerator_of("Tesla_V100"), accelerator_of("gh1")
    ('a100_80gb', 'v100', 'gh1')
    """
    lower = name.lower()
    if name in known or _SLICE.search(lower):
        return name
    if lower in known or lower in ACCELERATORS:
        return lower
    words = re.split(r"[^a-z0-9]+", lower)
    found = next((word for word in words if word in ACCELERATORS), name)
    return "a100_80gb" if found == "a100" and "80gb" in words else found


def tres_gpus(text: str) -> tuple[int, str] | None:
    """Return how many GPUs a text of Slurm's TRES counts, and of which type most of them are.

    Returns
    -------
    int, str
        0 where there are none; the type is empty where it is not said.
    None
        Where what stands for GPUs is no number.

    Examples
    --------
    >>> tres_gpus("billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G")
    (4, 'a100')
    """
    by_type: dict[str, int] = {}
    for item in text.split(","):
        found = _GPU.fullmatch(item.strip())
        if found is None:
            continue
        if not re.fullmatch(r"\d{1,9}", found[2]):
            return None
        kind = found[1] or ""
        by_type[kind] = by_type.get(kind, 0) + int(found[2])
    # Slurm counts GPUs with a type a second time without.
    total = by_type.pop("", 0)
    kind = max(by_type, key=lambda name: by_type[name], default="")
    return max(total, sum(by_type.values())), kind if by_type.get(kind) else ""
