"""Reader of the workload files of ASTRA-sim 1.0: compute and communication of every layer."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from apportion.errors import InputError, unknown_name
from apportion.sim.network.profile import Exchange, Layer, ModelProfile
from apportion.sim.traces.text import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_COLLECTIVES: Mapping[str, str] = MappingProxyType(
    {
        "NONE": "all_reduce",
        "ALLREDUCE": "all_reduce",
        "ALLGATHER": "all_gather",
        "REDUCESCATTER": "reduce_scatter",
        "ALLTOALL": "all_to_all",
    }
)
_COLUMNS = 12
_PARTS = ("forward pass", "input gradient", "weight gradient")
_NANOSECOND = 1e-9
"""A cycle of ASTRA-sim, by default."""


def read_astra_workload(path: str | Path, *, cycle_s: float = _NANOSECOND) -> ModelProfile:
    """Read one training iteration.

    The first line names the parallelism, the second the number of layers; then every layer has
    twelve columns: name, a reserved one, compute cycles, collective and bytes of the forward pass,
    the same of the gradients of the inputs and of the weights, and a delay of the update.

    Collectives run over the whole gang, whatever the parallelism. Under ``DATA`` the first layer
    computes no gradient of its inputs, as in ASTRA-sim. The delay of the update is neither
    compute nor communication and is left out. A single word below the last layer is passed over.
    Where fewer layers follow than the file says, as in two of those that Dally's authors publish,
    those are read that are there, with a warning.

    Parameters
    ----------
    path
        The file, plain or gzipped.
    cycle_s
        Seconds of a compute cycle; ASTRA-sim 1.0 has one per nanosecond.

    Raises
    ------
    InputError
        If the file cannot be read, a line is malformed, or more layers follow than the file says;
        it names file and line.

    Warns
    -----
    UserWarning
        If fewer layers follow than the file says.
    """
    file = read_text(path)
    text = file.body.decode("utf-8", errors="replace").splitlines()
    lines = [(number, line.split()) for number, line in enumerate(text, file.first_line)]
    lines = [(number, words) for number, words in lines if words]
    if len(lines) < 2 or len(lines[1][1]) != 1 or not lines[1][1][0].isdecimal():
        raise InputError(
            f"{path}, line {file.first_line + 1}: it must hold the number of layers, below the "
            "parallelism; this is no workload file of ASTRA-sim 1.0."
        )
    parallelism, count = lines[0][1][0], int(lines[1][1][0])
    rows = lines[2:]
    if rows and len(rows[-1][1]) == 1:
        rows.pop()  # a number that belongs to no layer ends the files of Dally's authors
    said = f"{path}, line {lines[1][0]}: {count} layers, but {len(rows)} follow."
    if len(rows) > count or not rows:
        raise InputError(said)
    if len(rows) < count:
        warnings.warn(f"{said} Only these are read.", stacklevel=2)
    layers = [_layer(f"{path}, line {number}", words, cycle_s) for number, words in rows]
    if parallelism == "DATA" and layers:
        layers[0] = replace(layers[0], input_gradient_s=0.0)
    return ModelProfile(file.name, tuple(layers))


def _layer(where: str, words: list[str], cycle_s: float) -> Layer:
    """Read the line of one layer."""
    if len(words) != _COLUMNS:
        raise InputError(f"{where}: {len(words)} columns; a layer has {_COLUMNS}.")
    _number(where, "update delay", words[-1])
    forward, input_gradient, weight_gradient = (
        _part(f"{where}, {part}", words[column : column + 3])
        for part, column in zip(_PARTS, (2, 5, 8), strict=True)
    )
    return Layer(
        words[0],
        forward_s=forward[0] * cycle_s,
        input_gradient_s=input_gradient[0] * cycle_s,
        weight_gradient_s=weight_gradient[0] * cycle_s,
        forward=forward[1],
        input_gradient=input_gradient[1],
        weight_gradient=weight_gradient[1],
    )


def _part(where: str, words: list[str]) -> tuple[float, Exchange]:
    """Cycles and communication of one part of a layer."""
    cycles, collective, size = words
    size_bytes = _number(where, "number of bytes", size)
    if collective not in _COLLECTIVES:
        raise unknown_name(f"communication type in {where}", collective, _COLLECTIVES)
    if collective == "NONE" and size_bytes:
        raise InputError(f"{where}: {size_bytes:g} bytes of NONE; name a collective or write 0.")
    return _number(where, "compute", cycles), Exchange(_COLLECTIVES[collective], size_bytes)


def _number(where: str, what: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{where}: {what} is {text!r}; it must be a number >= 0.")
    return value
