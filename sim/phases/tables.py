"""What a run tells of links: a table of what each job met there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.sim.phases.phase_speeds import PhaseSpeeds

if TYPE_CHECKING:
    import pandas as pd

    from apportion.sim.engine.speeds import Speeds

__all__ = ["link_tables"]


def link_tables(speeds: Speeds, index: pd.Index, given: pd.Index) -> dict[str, pd.DataFrame]:
    """Return the table ``links`` of speeds that follow links phase by phase; else nothing.

    Parameters
    ----------
    speeds
        Of the run.
    index, given
        Jobs in the order of the run, and in that of the table.
    """
    if not isinstance(speeds, PhaseSpeeds):
        return {}
    return {"links": speeds.table(index).loc[given]}
