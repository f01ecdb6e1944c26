"""What a session returns: an allocation in arrays by class, with labels when they are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.allocation import Allocation

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.policies.base import Policy
    from apportion.policies.sessions.job_kinds import RollSnapshot
    from apportion.policies.solution import Solution
    from apportion.types import Floats


@dataclass(frozen=True, eq=False, repr=False)
class SessionAllocation:
    """What `Allocation` holds, made when it is read: identical jobs have identical rows.

    Attributes
    ----------
    solution
        Shares (classes, options) and throughputs (classes,) by class, objective, gap and the rest.
    policy_asked, cluster, options
        What it is the allocation of.
    """

    solution: Solution
    policy_asked: Policy
    cluster: Cluster
    options: pd.Index
    _roll: RollSnapshot

    @property
    def objective(self) -> float:
        """The policy's objective, in `unit`."""
        return self.solution.objective

    @property
    def gap(self) -> float:
        """Certified relative distance of the objective from the optimum."""
        return self.solution.gap

    @property
    def status(self) -> str:
        """Return "optimal", or "optimal_inaccurate" where the gap is above 1e-6."""
        return self.solution.status

    @property
    def policy(self) -> str:
        """The policy, as it would be written."""
        return repr(self.policy_asked)

    @property
    def unit(self) -> str:
        """Unit of the objective."""
        return self.policy_asked.unit

    @property
    def message(self) -> str:
        """What a reader should know beside the numbers."""
        return self.solution.message

    @property
    def stats(self) -> dict[str, Any]:
        """Jobs, classes, path of the solve, numbers changed, seconds by stage."""
        return self.solution.stats

    @cached_property
    def class_of(self) -> NDArray[np.intp]:
        """Class of each job, shape (jobs,)."""
        return np.array([kind.place for kind in self._roll.kinds()], dtype=np.intp)

    @cached_property
    def shares(self) -> Floats:
        """Share of time of each job under each option, shape (jobs, options)."""
        return self.solution.X[self.class_of]

    @cached_property
    def X(self) -> pd.DataFrame:
        """Fraction of time in [0, 1]; rows are jobs, columns options."""
        return pd.DataFrame(self.shares, index=self._index, columns=self.options)

    @cached_property
    def throughput(self) -> pd.Series:
        """Effective throughput of each job, steps/s."""
        each = self.solution.throughput[self.class_of]
        return pd.Series(each, index=self._index, name="throughput")

    @cached_property
    def prices(self) -> pd.Series:
        """What one more GPU of each type would improve the objective by."""
        return pd.Series(self.solution.prices, index=[*self.cluster.accelerators], name="price")

    @cached_property
    def _index(self) -> pd.Index:
        return pd.Index(self._roll.ids())

    def labelled(self) -> Allocation:
        """Return the same as an `Allocation`, with all its tables."""
        return Allocation(
            X=self.X,
            throughput=self.throughput,
            objective=self.objective,
            prices=self.prices,
            gap=self.gap,
            status=self.status,
            policy=self.policy,
            unit=self.unit,
            message=self.message,
            stats=self.stats,
        )

    def to_frame(self) -> pd.DataFrame:
        """See `Allocation.to_frame`."""
        return self.labelled().to_frame()

    def to_dict(self) -> dict[str, Any]:
        """See `Allocation.to_dict`."""
        return self.labelled().to_dict()

    def to_json(self, path: str | Path | None = None) -> str:
        """See `Allocation.to_json`."""
        return self.labelled().to_json(path)

    def to_csv(self, path: str | Path | None = None) -> str:
        """See `Allocation.to_csv`."""
        return self.labelled().to_csv(path)

    def to_parquet(self, path: str | Path) -> None:
        """See `Allocation.to_parquet`."""
        self.labelled().to_parquet(path)

    def plot(self, ax: Any = None) -> Any:
        """See `Allocation.plot`."""
        return self.labelled().plot(ax)

    def __repr__(self) -> str:
        return repr(self.labelled())

    def _repr_html_(self) -> str:
        return self.labelled()._repr_html_()
