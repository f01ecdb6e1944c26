"""`check_network`: what every model of speeds keeps, asked by itself and in runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from apportion.checks import seed as check_seed
from apportion.errors import InputError
from apportion.sim.about import AboutRun
from apportion.sim.deciders import get_decider
from apportion.sim.engine.speeds import TableSpeeds
from apportion.sim.network.registry import get_network
from apportion.sim.settings import settings_for
from apportion.testing.run_case import Drawn, fail
from apportion.testing.scheduler import check_scheduler, kind_for
from apportion.testing.stays import TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.network.model import NetworkModel
    from apportion.sim.network.shapes import Shape
    from apportion.testing.run_case import On

_PICTURES = 8
"""So often gangs are put on devices at random."""


def check_network(
    network: NetworkModel | str, *, seed: int = 0, n_jobs: int = 2, on: On | None = None
) -> None:
    """Check a model of speeds by itself, on gangs that lie anywhere, and in runs.

    - Overheads are finite numbers >= 0, the same whenever they are asked for. Of a job type that
      it does not know it says so by an `InputError`.
    - Rates of gangs are finite numbers >= 0, one for each, and the same when asked again of speeds
      made anew. No gang is faster than without the network, or than on the same devices with
      nobody else there; if speeds are `apart`, none is slower either. Asked for gangs that are
      left, it says what it says of these by themselves, whatever order they stand in. What it is
      given it leaves as it is.
    - `check_scheduler` holds of runs with it, in rounds and by leases.

    Parameters
    ----------
    network
        The model, or its name.
    seed, n_jobs, on
        As for `check_scheduler`.

    Raises
    ------
    AssertionError
        For the first property that does not hold; the message names it, the model, the numbers,
        the input and where the model is written.
    """
    asked_of = _Heard(network, Drawn.of(on, kind_for(network), seed=check_seed(seed)), seed)
    _check_overheads(asked_of)
    rng = np.random.default_rng([seed, 2])
    for _ in range(_PICTURES):
        _check_rates(asked_of, rng)
    told: dict[str, Any] = {"network": network, "seed": seed, "on": on}
    check_scheduler("fifo", mechanism="rounds", **told, n_jobs=n_jobs)
    check_scheduler("dally_no_wait", **told, n_jobs=1)


@dataclass(frozen=True)
class _Heard:
    """A network, and what it is asked about."""

    network: Any
    on: Drawn
    seed: int

    @property
    def model(self) -> Any:
        """The model itself, made anew if it has a name."""
        return get_network(self.network, cluster=self.on.cluster).model

    def begun(self) -> AboutRun:
        """Return what a run on it is about, all of whose jobs are there."""
        workload, cluster, _ = self.on
        told = {"network": self.network, "seed": self.seed}
        chosen, known = settings_for([get_decider("fifo")], "rounds", told, elastic=False)
        about = AboutRun.of(workload, cluster, chosen, known)
        about.place()
        about.truth.admit(float(workload.jobs["arrival_s"].max()))
        return about

    def like(self, gangs: Gangs) -> NDArray[np.intp]:
        """Return a number for each gang, the same for equal ones: which is first may count."""
        jobs = self.begun().workload.jobs
        keys = jobs[["job_type", "scale_factor"]].iloc[gangs.job].assign(kind=gangs.option)
        return np.asarray(keys.groupby([*keys.columns]).ngroup(), dtype=np.intp)

    def fail(
        self, broken: str, numbers: str, what: str, error: BaseException | None = None
    ) -> NoReturn:
        """Say what it breaks, of what was asked about."""
        fail(self.model, broken, numbers, text=f"{what}, of {self.on.text}", error=error)


def _check_overheads(asked_of: _Heard) -> None:
    """Ask for the overheads of all models on some shapes, there and back."""
    workload, cluster, _ = asked_of.on
    asked = [
        (job_type, shape)
        for job_type in sorted(set(workload.jobs["job_type"]))
        for shape in _shapes(cluster.largest_machine, cluster.machines_per_rack)
    ]
    first, again = (
        {key: _overhead(asked_of, network, *key) for key in keys}
        for keys in (asked, asked[::-1])
        for network in [get_network(asked_of.network, cluster=cluster)]
    )
    for key in asked:
        if first[key] != again[key]:
            numbers = f"{first[key]!r}, then {again[key]!r}"
            asked_of.fail("telling the same overhead at any time", numbers, f"overhead{key}")
    unknown = "a job type that nobody knows"
    try:
        asked_of.model.overhead(unknown, asked[-1][1])
    except InputError:
        pass
    except Exception as error:
        numbers = f"{type(error).__name__}: {error} in place of an InputError that says what is"
        what = f"overhead{(unknown, asked[-1][1])}"
        asked_of.fail("clear about a job type that it does not know", numbers, what, error)


def _shapes(per_machine: int, per_rack: int | None) -> list[Shape]:
    """Return some shapes that a cluster holds."""
    sizes = sorted({1, 2, per_machine} & set(range(1, per_machine + 1)))
    shapes: list[Shape] = [((size,),) for size in sizes]
    if per_rack is None or per_rack > 1:
        shapes += [((size, size),) for size in sizes]
        shapes.append(((sizes[-1], 1),))
    if per_rack is not None:
        shapes += [((size,), (size,)) for size in sizes]
    return shapes


def _overhead(asked_of: _Heard, network: NetworkModel, job_type: str, shape: Shape) -> float:
    try:
        return network.overhead(job_type, shape)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        asked_of.fail("able to tell an overhead", said, f"overhead{(job_type, shape)}", error)


def _check_rates(asked_of: _Heard, rng: np.random.Generator) -> None:
    """Put gangs anywhere, and compare their rates with those that must be the same or higher."""
    gangs, text = _anywhere(asked_of.begun(), rng)
    rates, alone = _rates(asked_of, gangs, text), _rates(asked_of, gangs, text, without=True)
    if (rates > alone * (1 + TOLERANCE)).any():
        numbers = f"steps/s are {rates} with it and {alone} without"
        asked_of.fail("without effect or slowing gangs down", numbers, text)
    again = _rates(asked_of, gangs, text)
    if not np.array_equal(rates, again):
        asked_of.fail("deterministic", f"steps/s are {rates}, then {again}", text)
    turned = rng.permutation(rates.size)
    other = _rates(asked_of, _lines(gangs, turned), text)
    like = asked_of.like(gangs)
    one, same = np.lexsort((rates, like)), np.lexsort((other, like[turned]))
    if not np.allclose(other[same], rates[one], rtol=TOLERANCE):
        numbers = f"steps/s are {rates}, and {other} of the same gangs in the order {turned}"
        asked_of.fail("indifferent to the order of gangs", numbers, text)
    _check_neighbours(asked_of, gangs, rates, text, rng)


def _check_neighbours(
    asked_of: _Heard, gangs: Gangs, rates: NDArray[np.float64], text: str, rng: np.random.Generator
) -> None:
    """Leave out neighbours: all but one gang, and some."""
    by_itself = np.concatenate(
        [_rates(asked_of, _lines(gangs, [line]), text) for line in range(rates.size)]
    )
    numbers = f"steps/s are {rates} together and {by_itself} each by itself"
    if (rates > by_itself * (1 + TOLERANCE)).any():
        asked_of.fail("one on which neighbours never make a gang faster", numbers, text)
    apart = bool(getattr(asked_of.begun().speeds(), "apart", False))
    if apart and not np.allclose(rates, by_itself, rtol=TOLERANCE):
        asked_of.fail("apart, as it says", numbers, text)
    there = rng.random(rates.size) < 0.6
    if not apart and there.any():
        left = _rates(asked_of, gangs, text, there=there)[there]
        only = _rates(asked_of, gangs.among(there), text)
        if not np.allclose(left, only, rtol=TOLERANCE):
            numbers = f"steps/s are {left} with there={there}, and {only} of these gangs alone"
            asked_of.fail("the same when others are gone (there)", numbers, text)


def _anywhere(about: AboutRun, rng: np.random.Generator) -> tuple[Gangs, str]:
    """Return gangs on devices that are drawn, and the devices as text."""
    assert about.told is not None
    placer, jobs, pools = about.told.devices, about.jobs, about.told.layout.pools
    free = [rng.permutation(len(pool.machine_of)).tolist() for pool in pools]
    for job in rng.permutation(jobs.active).tolist():
        kind, gpus = int(rng.integers(len(pools))), int(jobs.scale[job])
        if jobs.speed[job, kind] > 0 and len(free[kind]) >= gpus:
            placer.devices.hold(job, kind, sorted(free[kind][:gpus]))
            del free[kind][:gpus]
    here = np.array(sorted(placer.held), dtype=np.intp)
    named = {about.told.ids[job]: placer.held[job][1] for job in here.tolist()}
    return placer.gangs(here), f"rates of gangs on the devices {named}"


def _lines(gangs: Gangs, lines: Sequence[int] | NDArray[np.intp]) -> Gangs:
    """Return some lines, in this order."""
    chosen = np.asarray(lines, dtype=np.intp)
    return gangs._replace(
        job=gangs.job[chosen],
        gang=gangs.gang[chosen],
        option=gangs.option[chosen],
        gpus=gangs.gpus[chosen],
        devices=[gangs.devices[line] for line in chosen.tolist()],
    )


def _rates(
    asked_of: _Heard,
    gangs: Gangs,
    text: str,
    *,
    there: NDArray[np.bool_] | None = None,
    without: bool = False,
) -> NDArray[np.float64]:
    """Return the steps/s of gangs, of speeds made anew; what was given must stay as it is."""
    about = asked_of.begun()
    assert about.told is not None
    before = repr(gangs), about.truth.speed.copy()
    try:
        speeds = TableSpeeds(about.truth, about.told.layout) if without else about.speeds()
        found = np.array(speeds.rates(gangs) if there is None else speeds.rates(gangs, there))
    except Exception as error:
        asked_of.fail("able to tell rates", f"{type(error).__name__}: {error}", text, error)
    if repr(gangs) != before[0] or not np.array_equal(about.truth.speed, before[1]):
        asked_of.fail("one that leaves alone what it is given", "gangs or speeds changed", text)
    right = found.shape == gangs.job.shape and (np.isfinite(found) & (found >= 0)).all()
    if not right:
        asked_of.fail(
            "telling one rate >= 0 for each gang",
            f"they are {found} of {gangs.job.size} gangs",
            text,
        )
    return found
