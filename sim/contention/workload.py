"""The workload of Wang et al.: 160 jobs on 16 servers of four V100, and any share of its length."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd

from apportion.checks import choice, number, seconds
from apportion.checks import seed as check_seed
from apportion.sim.network.models.trained import TABLE_III, V100_FLOPS
from apportion.sim.workload import Workload

GANGS: Mapping[int, int] = MappingProxyType({1: 80, 2: 14, 4: 26, 8: 30, 16: 8, 32: 2})
"""Jobs by the GPUs that they want."""


def generate_contended_workload(
    *,
    seed: int = 0,
    scale: float = 1.0,
    accelerator: str = "v100",
    slot_s: float = 0.0,
    batch: int | Mapping[str, int] | None = None,
    peak_flops: float = V100_FLOPS,
) -> Workload:
    """Draw the 160 jobs of section 5: iterations from 1000 to 6000, arrivals over 1200 s.

    The models are those of Table III, drawn evenly. The authors' own draw is not published.

    Parameters
    ----------
    seed
        Seed.
    scale
        Factor to iterations and arrivals; their code has 0.01.
    accelerator
        Name of the type.
    slot_s
        Seconds of a slot at whose start jobs arrive, as those of a second in the text; 0 for any
        time.
    batch
        Batch size of a worker in place of that of Table III, of all jobs or by model: passes take
        as much longer (Equations 3 and 4), what is sent does not change.
    peak_flops
        Peak FLOP/s of the type, by which passes are shorter; by default those of Table III's.

    Raises
    ------
    InputError
        If the scale is not above 0, a slot has less than 0 seconds, a batch less than one sample,
        or a batch is given for another model.
    """
    batches = batch if isinstance(batch, Mapping) else dict.fromkeys(TABLE_III, batch)
    for model in batches:
        choice("model in batch", model, TABLE_III)
    passes_s = {
        name: sum(row.passes_s(batches.get(name), peak_flops)) for name, row in TABLE_III.items()
    }
    seconds("slot_s", slot_s)
    scale = number("scale", scale, strict=True)
    rng = np.random.default_rng(check_seed(seed))
    gpus = rng.permutation(np.repeat(list(GANGS), list(GANGS.values())))
    iterations = np.maximum(np.rint(rng.integers(1000, 6001, gpus.size) * scale), 1.0)
    models = rng.choice(list(TABLE_III), gpus.size)
    arrival_s = np.sort(rng.uniform(0.0, 1200.0 * scale, gpus.size))
    if slot_s:
        arrival_s = np.floor(arrival_s / slot_s) * slot_s
    jobs = pd.DataFrame(
        {
            "job_type": models,
            "scale_factor": gpus,
            "total_steps": iterations,
            "arrival_s": arrival_s,
        }
    )
    rows = [(name, size) for name in TABLE_III for size in GANGS]
    speeds = [1 / passes_s[name] for name, _ in rows]
    index = pd.MultiIndex.from_tuples(rows, names=["job_type", "scale_factor"])
    throughputs = pd.DataFrame({accelerator: speeds}, index=index)
    notes = ("jobs drawn by the description in Wang et al., section 5",)
    return Workload("contended", jobs, throughputs, notes)
