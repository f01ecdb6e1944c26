"""GPUs of servers as options of one job: how it is posed, and what is read from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.checks import whole
from apportion.errors import InputError
from apportion.policies.instance import Instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.policies.problem import Problem
    from apportion.types import Floats, Ints


_LOAD, _NEIGHBOURS, _SERVER = "load", "neighbours", "server "


def one_job(
    load: Sequence[Sequence[float]],
    available: Sequence[Sequence[bool]],
    gpus: int,
    *,
    neighbours: Sequence[float] | None = None,
) -> Instance:
    """Pose the choice of GPUs for one job.

    Parameters
    ----------
    load
        Seconds of work that wait for each GPU, by server.
    available
        Whether it has memory for the job, by server.
    gpus
        GPUs that the job wants.
    neighbours
        Jobs with traffic on each server, by default none.

    Returns
    -------
    instance
        One row of `gpus` units; options are the GPUs, server by server.

    Raises
    ------
    InputError
        If servers have no GPUs or others in one table than in the other, loads or neighbours are
        no finite numbers >= 0, or the job wants no GPUs.
    """
    sizes = [len(each) for each in load]
    if not sizes or 0 in sizes or sizes != [len(each) for each in available]:
        raise InputError(
            f"load and available tell of servers with {sizes} and "
            f"{[len(each) for each in available]} GPUs; they must be the same, with a GPU or more."
        )
    server = np.repeat(np.arange(len(load)), sizes)
    near = np.zeros(len(load)) if neighbours is None else np.asarray(neighbours, dtype=float)
    loads = np.array([each for row in load for each in row], dtype=float)
    for name, values in (("load", loads), ("neighbours", near)):
        if not (np.isfinite(values) & (values >= 0)).all():
            raise InputError(f"{name} holds a value that is no finite number >= 0.")
    if near.size != len(load):
        raise InputError(f"neighbours has {near.size} values for {len(load)} servers.")
    whole("gpus", gpus, 1, integral=True)
    beside = np.zeros((server.size, 2 + len(load)))
    beside[:, 0], beside[:, 1] = loads, near[server]
    beside[np.arange(server.size), 2 + server] = 1.0
    own = [f"gpu {place}" for place in range(server.size)]
    named = [f"{_SERVER}{place}" for place in range(len(load))]
    return Instance.of_options(
        np.array([[bool(each) for row in available for each in row]], dtype=float),
        np.ones(server.size),
        np.ones(server.size),
        option_accelerator=np.arange(server.size),
        columns={"count": np.array([float(gpus)])},
        usage=sparse.csr_array(beside.reshape(1, -1)),
        resource_capacity=np.full(beside.shape[1], np.inf),
        resource_names=(*own, _LOAD, _NEIGHBOURS, *named),
    )


@dataclass(frozen=True, eq=False)
class GPUs:
    """What is known of the GPUs among which one job has a choice.

    Attributes
    ----------
    load
        Seconds of work that wait for each, shape (GPUs,).
    server
        Place of its server, shape (GPUs,).
    open_
        Whether it has memory for the job, shape (GPUs,).
    neighbours
        Jobs with traffic on each server, shape (servers,).
    """

    load: Floats
    server: Ints
    open_: NDArray[np.bool_]
    neighbours: Floats

    @classmethod
    def of(cls, p: Problem) -> GPUs:
        """Read them from the soft resources of a problem.

        Raises
        ------
        InputError
            If the problem has several rows, no resource ``load``, or GPUs without a server.
        """
        instance = p.instance
        if instance.rows != 1:
            raise InputError(
                f"GPUs are chosen for one job at a time, and there are {instance.rows} rows; give "
                f"one row, with the GPUs that the job wants as its count."
            )
        used = instance.usage.toarray().reshape(instance.options, instance.capacity.size)
        named = [n for n in instance.resource_names[instance.accelerators :] if n[:7] == _SERVER]
        of_server = used[:, p.resource(*named)] if named else np.zeros((instance.options, 1))
        if ((of_server > 0).sum(axis=1) != 1).any():
            raise InputError(
                "Each GPU must be of one server: give soft resources 'server ...', of which the "
                "GPUs of that server use 1 and the others nothing."
            )
        server = of_server.argmax(axis=1)
        near = np.zeros(of_server.shape[1])
        if _NEIGHBOURS in instance.resource_names:
            np.maximum.at(near, server, used[:, p.resource(_NEIGHBOURS)[0]])
        return cls(used[:, p.resource(_LOAD)[0]], server, instance.can_run[0], near)

    @property
    def servers(self) -> int:
        """Number of servers."""
        return self.neighbours.size

    @property
    def unit(self) -> float:
        """The largest load, in which loads are counted where solvers see them beside ones."""
        return float(self.load.max(initial=0.0)) or 1.0

    def server_loads(self, kind: str) -> Floats:
        """Return the load of each server: "sum", "mean" or "available"; shape (servers,)."""
        counted = self.open_ if kind == "available" else np.ones_like(self.open_)
        total = np.bincount(self.server, self.load * counted, self.servers)
        gpus = np.bincount(self.server, minlength=self.servers)
        return np.asarray(total / np.maximum(gpus, 1) if kind == "mean" else total, dtype=float)

    def ranks(self, kind: str) -> Floats:
        """Rank GPUs by load and place, below their servers unless `kind` is "none"."""
        by_server = np.zeros((2, self.load.size))
        if kind != "none":
            by_server = np.stack([self.server, self.server_loads(kind)[self.server]])
        order = np.lexsort((np.arange(self.load.size), self.load, *by_server))
        rank = np.empty(self.load.size)
        rank[order] = np.arange(self.load.size)
        return rank

    def beyond(self, kind: str, gpus: float) -> NDArray[np.bool_]:
        """Tell which GPUs are not of the least loaded servers that could hold so many."""
        most = np.bincount(self.server, minlength=1).max()
        first = np.lexsort((np.arange(self.servers), self.server_loads(kind)))
        return ~np.isin(self.server, first[: int(np.ceil(gpus / most))])
