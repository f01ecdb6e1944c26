"""Mistakes in networks and mechanisms of one's own, each found and named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled
from tests.testing.test_broken_schedulers import Patient

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.placements import Gang
from apportion.mechanism.scheduler import Decision
from apportion.sim.about import Parts
from apportion.sim.network.registry import NETWORKS
from apportion.sim.record import Columns
from apportion.testing import check_mechanism, check_network
from apportion.testing.run_case import drawn

pytestmark = pytest.mark.usefixtures("own_registry")
HERE = Path(__file__).name


class Hops:
    """Keeps the contract: a tenth more time for each machine beside the first."""

    name = "hops"

    def overhead(self, job_type: str, shape: Any) -> Any:
        return 0.1 * (sum(map(len, shape)) - 1)


class Below(Hops):
    def overhead(self, job_type: str, shape: Any) -> Any:
        return 0.1 - 0.2 * len(shape)


class NoNumber(Hops):
    def overhead(self, job_type: str, shape: Any) -> Any:
        return "much"


class Weather(Hops):
    def overhead(self, job_type: str, shape: Any) -> Any:
        return np.random.default_rng().random()


class Growing(Hops):
    asked: ClassVar[list[int]] = []

    def overhead(self, job_type: str, shape: Any) -> Any:
        self.asked.append(1)
        return 0.001 * len(self.asked)


class OneModel(Hops):
    def overhead(self, job_type: str, shape: Any) -> Any:
        return {"VGG11": 0.1}[job_type]


class Unclear(Hops):
    """Knows the models of the racks, and stumbles over any other."""

    def overhead(self, job_type: str, shape: Any) -> Any:
        known = ["VGG11", "AlexNet", "MobileNetV3", "ResNet18", "ResNet50", "BERT-large"]
        return 0.1 * known.index(job_type)


class Uplink(Hops):
    """Keeps the contract: gangs in several racks share one uplink."""

    def speeds(self, alone: Any, about: Any) -> Any:
        return OnUplink(alone, about.layout)


class OnUplink:
    def __init__(self, alone: Any, layout: Any) -> None:
        self.alone, self.layout = alone, layout

    def rates(self, gangs: Any, there: Any = None) -> Any:
        across = np.array([self.racks(held) > 1 for held in gangs.devices], dtype=bool)
        sends = across if there is None else across & there
        return self.alone.rates(gangs, there) / (1 + 0.2 * across * sends.sum())

    def racks(self, held: Any) -> int:
        return len({rack for rack, machine, gpus in self.layout.placement(held)})


def network(of_rates: Any, **more: Any) -> Any:
    """Make a class whose speeds are a function of those without it, of gangs and of who is left."""

    class OfSpeeds(OnUplink):
        def rates(self, gangs: Any, there: Any = None) -> Any:
            return of_rates(self, gangs, there)

    for name, value in more.items():
        setattr(OfSpeeds, name, value)

    class Made(Hops):
        def speeds(self, alone: Any, about: Any) -> Any:
            return OfSpeeds(alone, about.layout)

    return Made()


def hurried(self: Any, gangs: Any, there: Any) -> Any:
    return self.alone.rates(gangs, there) * 1.1


def by_job(self: Any, gangs: Any, there: Any) -> Any:
    slow = np.array([1.0, 2.0, 4.0, 8.0] * 20)[: gangs.job.size]  # of lines, not of jobs
    return self.alone.rates(gangs, there) / slow


def in_place(self: Any, gangs: Any, there: Any) -> Any:
    gangs.devices[0][1].sort(reverse=True)
    return self.alone.rates(gangs, there)


def crowded(self: Any, gangs: Any, there: Any) -> Any:
    return self.alone.rates(gangs, there) / gangs.job.size


def all_there(self: Any, gangs: Any, there: Any) -> Any:
    return self.alone.rates(gangs, there) / gangs.job.size


def company(self: Any, gangs: Any, there: Any) -> Any:
    here = gangs.job.size if there is None else there.sum()
    return self.alone.rates(gangs, there) * here / (1 + here)


def one_number(self: Any, gangs: Any, there: Any) -> Any:
    return 1.0


def one_less(self: Any, gangs: Any, there: Any) -> Any:
    return self.alone.rates(gangs, there) - 50.0


def wild(self: Any, gangs: Any, there: Any) -> Any:
    return self.alone.rates(gangs, there) * np.random.default_rng().random()


def lost(self: Any, gangs: Any, there: Any) -> Any:
    return self.nothing


NETWORK_MISTAKES = [
    (Below(), "able to tell an overhead: InputError: .*is -0.1.*Answered by Below.overhead"),
    (NoNumber(), "able to tell an overhead: InputError: .*'much'"),
    (Weather(), "telling the same overhead at any time: 0"),
    (Growing(), "telling the same overhead at any time: 0"),
    (OneModel(), "able to tell an overhead: KeyError: .*Raised in OneModel.overhead"),
    (Unclear(), "clear about a job type that it does not know: ValueError.*Raised in Unclear"),
    (network(hurried), "without effect or slowing gangs down: steps/s are"),
    (network(by_job), "indifferent to the order of gangs"),
    (network(in_place), "one that leaves alone what it is given"),
    (network(crowded, apart=True), "apart, as it says"),
    (network(all_there), r"the same when others are gone \(there\)"),
    (network(company), "one on which neighbours never make a gang faster"),
    (network(one_number), r"able to tell rates: InputError: .*have the shape \(\)"),
    (network(one_less), "able to tell rates: InputError: .*must be a number of steps/s >= 0"),
    (network(wild), "deterministic: steps/s are"),
    (network(lost), "able to tell rates: AttributeError: .*Raised in lost"),
]


@pytest.mark.parametrize(("model", "said"), sampled(NETWORK_MISTAKES, 4))
def test_mistakes_of_networks(model: Any, said: str) -> None:
    with pytest.raises(AssertionError) as raised:
        check_network(model, n_jobs=1)
    text = str(raised.value)
    assert re.search(f"is not {said}", text, flags=re.DOTALL), text
    assert type(model).__qualname__ in text
    assert "apportion.testing.run_case('racks', seed=0)" in text
    assert f"{HERE}:" in text


@pytest.mark.slow
@pytest.mark.parametrize("made", [Hops(), Uplink()], ids=lambda made: type(made).__name__)
def test_networks_without_mistakes_pass(made: Any) -> None:
    check_network(made)


@pytest.mark.slow
def test_a_network_of_some_models_is_checked_on_jobs_that_train_them() -> None:
    class OfTwo(Hops):
        def overhead(self, job_type: str, shape: Any) -> Any:
            known = {"mine": 0.1, "yours": 0.3}
            if job_type not in known:
                raise InputError(f"{job_type!r} is not known.")
            return known[job_type] * (sum(map(len, shape)) - 1)

    with pytest.raises(AssertionError, match="is not known"):
        check_network(OfTwo(), n_jobs=1)
    load, cluster = drawn("racks")
    assert isinstance(load, ap.Workload)
    few = load.jobs.iloc[:8]
    jobs = few.assign(job_type=np.where(np.arange(8) % 2, "mine", "yours"))
    keys = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]].drop_duplicates())
    speeds = pd.DataFrame({"gpu": 1.0}, index=keys)
    check_network(OfTwo(), n_jobs=1, on=(ap.Workload("two models", jobs, speeds), cluster))


class Lottery:
    """Keeps the contract: GPUs are drawn for in every round, by shares."""

    seconds = 600.0
    name = "lottery"

    def parts(self, decider: Any, about: Any) -> Any:
        told = about.place("consolidated")
        sharing = about.sharing(decider)
        return Parts(
            self.scheduler(told, sharing), about.fluid(), sharing.asked, self.columns(told)
        )

    def scheduler(self, told: Any, sharing: Any) -> Any:
        return Draws(self.seconds, told, sharing)

    def columns(self, told: Any) -> Any:
        return [Won(told.jobs.jobs)]


class Draws:
    event_driven = False

    def __init__(self, seconds: float, told: Any, sharing: Any) -> None:
        self.seconds, self.told, self.sharing = seconds, told, sharing
        self.rng = self.seeded(told)

    def seeded(self, told: Any) -> np.random.Generator:
        return np.random.default_rng(told.seed)

    def decide(self, event: Any) -> Any:
        jobs, devices = self.told.jobs, self.told.devices
        before = dict(devices.held)
        devices.release(before)
        shares = self.sharing.solve(event.now_s).alone
        with np.errstate(divide="ignore"):
            lots = self.rng.exponential(size=shares.shape) / shares
        for row, kind in zip(*np.unravel_index(lots.argsort(axis=None), lots.shape), strict=True):
            job = int(jobs.active[row])
            if shares[row, kind] > 0 and job not in devices.held:
                devices.give(Gang(job, int(jobs.scale[job]), int(kind), jobs.job_type[job]))
        here = np.array(sorted(devices.held), dtype=int)
        return Decision(devices.gangs(here), starts=self.starts(here, before))

    def starts(self, here: Any, before: Any) -> Any:
        held = self.told.devices.held
        return np.array([held[job] != before.get(job) for job in here.tolist()], dtype=bool)

    def valid_for_s(self, now_s: float) -> float:
        return self.seconds


class Won(Columns):
    def __init__(self, jobs: int) -> None:
        self.rounds = np.zeros(jobs, dtype=int)

    def ran(self, now_s: float, end_s: float, ran: Any, active: int) -> None:
        self.rounds[ran.gangs.job] += ran.times

    def of_jobs(self, jobs: Any) -> Any:
        return {"rounds_won": self.rounds}


def lottery(scheduler: type[Draws] = Draws, columns: Any = None) -> Any:
    """Make a lottery of other parts."""

    class Changed(Lottery):
        def scheduler(self, told: Any, sharing: Any) -> Any:
            return scheduler(self.seconds, told, sharing)

        def columns(self, told: Any) -> Any:
            return [] if columns is None else [columns(told.jobs.jobs)]

    return Changed()


class Unseeded(Draws):
    def seeded(self, told: Any) -> np.random.Generator:
        return np.random.default_rng()


class NeverStarts(Draws):
    def starts(self, here: Any, before: Any) -> Any:
        return np.zeros(here.size, dtype=bool)


class Endless(Draws):
    def valid_for_s(self, now_s: float) -> Any:
        return -1.0


class Stumbling(Draws):
    def starts(self, here: Any, before: Any) -> Any:
        return [before[job] for job in here.tolist()]


class Nothing(Lottery):
    def parts(self, decider: Any, about: Any) -> Any:
        return None


class Once(Lottery):
    """Keeps its generator from run to run."""

    rng = np.random.default_rng(0)

    def scheduler(self, told: Any, sharing: Any) -> Any:
        made = super().scheduler(told, sharing)
        made.rng = self.rng
        return made


class Wider(Won):
    def of_jobs(self, jobs: Any) -> Any:
        return {"rounds_won": self.rounds[:-1]}


@pytest.mark.parametrize(
    ("mechanism", "said"),
    sampled(
        [
            (Nothing(), r"able to run: InputError: .*must return apportion.sim.about.Parts"),
            (lottery(Unseeded), "deterministic"),
            (lottery(NeverStarts), "able to run: InputError: .*go on where it was not"),
            (lottery(Endless), "able to run: InputError: .*valid_for_s -1.0"),
            (lottery(Stumbling), r"able to run: KeyError: .*Raised in Stumbling.starts"),
            (lottery(columns=Wider), "able to run: ValueError: Length of values"),
            (Once(), "deterministic"),
        ],
        5,
    ),
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_mistakes_of_mechanisms(mechanism: Any, said: str) -> None:
    with pytest.raises(AssertionError) as raised:
        check_mechanism(mechanism, n_jobs=1)
    text = str(raised.value)
    assert re.search(f"is not {said}", text, flags=re.DOTALL), text
    assert type(mechanism).__qualname__ in text
    assert f"{HERE}:" in text


@pytest.mark.slow
def test_a_mechanism_without_mistakes_passes() -> None:
    check_mechanism(Lottery())


@pytest.mark.slow
def test_a_mechanism_of_who_decides_by_itself_passes() -> None:
    class Usual:
        name = "usual"

        def parts(self, decider: Any, about: Any) -> Any:
            return ap.Queue().parts(decider, about)

    check_mechanism(Usual(), schedulers=[Patient()], n_jobs=1)


def test_own_networks_are_found_by_their_names() -> None:
    NETWORKS["below"] = lambda profiles: Below()
    with pytest.raises(AssertionError, match=r"Below\(\) is not able to tell an overhead"):
        check_network("below", n_jobs=1)
