"""What a run tells of links: what each job met there, and which placements were compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from apportion.mechanism.placement import Placer
    from apportion.sim.engine.speeds import Speeds

__all__ = ["link_tables"]


def link_tables(
    speeds: Speeds, placer: Placer, index: pd.Index, given: pd.Index
) -> dict[str, pd.DataFrame]:
    """Return the tables of a run that tell of links, where there is something to tell.

    Those of the speeds, such as ``links``, by job. ``candidates``: of placements that compare
    candidates, by GPUs of gangs: how many ``placements`` and ``candidates`` there were, how many
    ``with_loops``, how often ``none_left`` was without, and how often a gang came to another place
    than the scheduler's own (``moved``).

    Parameters
    ----------
    speeds, placer
        Of the run.
    index, given
        Jobs in the order of the run, and in that of the table.
    """
    found = {}
    for name, table in speeds.tables(index).items():
        found[name] = table.loc[given] if table.index is index else table
    figures = placer.figures()
    if figures:
        found["candidates"] = pd.DataFrame(figures).set_index("gpus")
    return found
