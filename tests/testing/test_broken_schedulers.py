"""Mistakes in schedulers, placements, gates and orders of one's own, each found and named."""

from __future__ import annotations

import itertools
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.seeds import sampled

import apportion as ap
from apportion.mechanism.gates import GATES, HOLD, START
from apportion.mechanism.placements import PLACEMENTS, Gang, Strategy
from apportion.mechanism.scheduler import Decision
from apportion.testing import check_scheduler

pytestmark = pytest.mark.usefixtures("own_registry")
HERE = Path(__file__).name


class Patient:
    """Keeps the contract: first come, first served, on the fastest type, until a job is done."""

    name = "patient"

    def start(self, about: Any) -> None:
        self.jobs, self.devices, self.about = about.jobs, about.devices, about
        self.waiting: list[int] = []
        self.here: list[int] = []

    def decide(self, event: Any) -> Any:
        done = [] if event.ran is None else event.ran.done.tolist()
        self.devices.release(done)
        self.waiting += event.arrived.tolist()
        new = [job for job in self.queue() if self.place(job)]
        self.waiting = [job for job in self.waiting if job not in new]
        self.here = sorted([*(job for job in self.here if job not in done), *new])
        here = np.array(self.here, dtype=int)
        return Decision(self.devices.gangs(here), starts=np.isin(here, new))

    def queue(self) -> list[int]:
        return self.waiting

    def place(self, job: int) -> bool:
        kinds = [kind for kind in np.argsort(-self.jobs.speed[job]) if self.jobs.speed[job, kind]]
        gangs = (Gang(job, int(self.jobs.scale[job]), int(kind)) for kind in kinds)
        return any(self.devices.give(gang) is not None for gang in gangs)


@pytest.mark.thorough
def test_a_scheduler_without_mistakes_passes() -> None:
    check_scheduler(Patient(), n_jobs=1)


class Drawing(Patient):
    def queue(self) -> list[int]:
        return list(np.random.default_rng().permutation(self.waiting))


class Counting(Patient):
    runs: ClassVar[list[int]] = []

    def queue(self) -> list[int]:
        self.runs.append(1)  # of the class: the next run finds it
        return self.waiting[:: 1 if len(self.runs) < 60 else -1]


class Raising(Patient):
    def queue(self) -> list[int]:
        return [{0: 0}[job] for job in self.waiting]  # here


class Crowding(Patient):
    def decide(self, event: Any) -> Any:
        decision = super().decide(event)
        gangs = decision.gangs
        if gangs.job.size > 1 and gangs.gpus[0] == gangs.gpus[1]:
            both = [gangs.devices[0], *gangs.devices[:1], *gangs.devices[2:]]
            option = gangs.option.copy()
            option[1] = option[0]
            return decision._replace(gangs=gangs._replace(devices=both, option=option))
        return decision


class Locked(Patient):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class ByName(Patient):
    def queue(self) -> list[int]:
        return sorted(self.waiting, key=lambda job: str(self.about.ids[job])[::-1])


class Lonely(Patient):
    def queue(self) -> list[int]:
        spread = 1 / (self.jobs.capacity.size - 1)  # on one type only
        return self.waiting if spread else []


class Idle(Patient):
    def place(self, job: int) -> bool:
        return False


@pytest.mark.parametrize(
    ("scheduler", "said"),
    sampled(
        [
            (Drawing(), r"Drawing\(\) is not (deterministic|indifferent)"),
            (Counting(), r"Counting\(\) is not (deterministic|indifferent)"),
            (Raising(), rf"Raising\(\) is not able to run: KeyError: .*Raised in .*{HERE}:\d+"),
            (Crowding(), "gives device . of type . to two gangs"),
            (
                Locked(),
                r"Locked\(.*is not (able to run|the same after pickling): TypeError: cannot pickle",
            ),
            (ByName(), "not indifferent to the names and rows of jobs: job .* is complete at"),
            (Lonely(), r"ZeroDivisionError.*run_case\('types', seed=0.*Raised in Lonely.queue"),
            (Idle(), r"Idle\(\) is not able to run: SolveError: .* would wait for ever"),
        ],
        5,
    ),
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_mistakes_of_schedulers(scheduler: Any, said: str) -> None:
    with pytest.raises(AssertionError) as raised:
        check_scheduler(scheduler, n_jobs=1)
    text = str(raised.value)
    assert re.search(said, text, flags=re.DOTALL), text
    assert type(scheduler).__name__ in text
    assert "Input: simulate(" in text
    assert f"{HERE}:" in text


@dataclass(frozen=True)
class OldNames(ap.QueueScheduler):
    """Serves in an order of texts, which are in another order in every process."""

    name = "old_names"

    def queue(self, jobs: Any, now_s: float) -> Any:
        for job in sorted(jobs.active.tolist(), key=lambda job: hash(f"job {job % 5}")):
            yield job, np.argsort(-jobs.speed[job], kind="stable")


@pytest.mark.slow
def test_what_differs_from_process_to_process_is_found() -> None:
    with pytest.raises(AssertionError, match="not the same in worker processes: mean_jct_s is"):
        check_scheduler(OldNames())


class Choosing(Strategy):
    """Keeps the contract: the lowest numbers."""

    name = "choosing"

    def choose(self, gang: Any, devices: Any) -> Any:
        free = devices.free_for(gang)
        numbers = sorted(one for each in free.emptiest_first() for one in free.free_on(each))
        return self.among(numbers, gang.gpus) if len(numbers) >= gang.gpus else None

    def among(self, numbers: list[int], gpus: int) -> Any:
        return numbers[:gpus]


class AnyTime(Choosing):
    def among(self, numbers: list[int], gpus: int) -> Any:
        return np.random.default_rng().permutation(numbers)[:gpus].tolist()


class TooFew(Choosing):
    def among(self, numbers: list[int], gpus: int) -> Any:
        return numbers[: gpus - 1]


class Taken(Choosing):
    def choose(self, gang: Any, devices: Any) -> Any:
        return list(range(gang.gpus))


class Pairs(Choosing):
    def among(self, numbers: list[int], gpus: int) -> Any:
        return [numbers[0], numbers[1], *numbers[2:gpus]][:gpus] if len(numbers) else numbers[gpus]


class Never(Choosing):
    def among(self, numbers: list[int], gpus: int) -> Any:
        return None


class Everywhere(Choosing):
    turns: ClassVar[Any] = itertools.count()

    def among(self, numbers: list[int], gpus: int) -> Any:
        turned = next(self.turns) % len(numbers)
        return sorted([*numbers[turned:], *numbers[:turned]][:gpus])


@pytest.mark.parametrize(
    ("placement", "said"),
    sampled(
        [
            (AnyTime, "AnyTime is not deterministic: a second run has another table 'schedule'"),
            (TooFew, r"TooFew is not able to run: InputError: .*chose \[0?\] for job"),
            (Taken, r"Taken is not able to run: InputError: .* not free.*Answered by Taken.choose"),
            (Pairs, r"Pairs is not able to run: IndexError.*Raised in Pairs.among"),
            (Never, "Never is not able to run: .*would wait for ever"),
            (Everywhere, "Everywhere is not deterministic"),
        ],
        4,
    ),
)
def test_mistakes_of_placements(placement: type[Strategy], said: str) -> None:
    PLACEMENTS["choosing"] = Choosing
    PLACEMENTS["broken"] = placement
    with pytest.raises(AssertionError) as raised:
        check_scheduler("fifo", placement="broken", n_jobs=1)
    text = str(raised.value)
    assert re.search(said, text, flags=re.DOTALL), text
    assert "placement='broken'" in text
    assert f"{HERE}:" in text


@pytest.mark.thorough
def test_a_placement_without_mistakes_passes() -> None:
    PLACEMENTS["choosing"] = Choosing
    check_scheduler("fifo", placement="choosing", n_jobs=1)


class Opening:
    """Keeps the contract: one transfer on a link at a time."""

    name = "opening"

    def decide(self, now_s: float, flow: Any, links: Any) -> float:
        return HOLD if any(links.on(link) for link in flow.links) else START


class Gambling(Opening):
    def decide(self, now_s: float, flow: Any, links: Any) -> float:
        if links.flows and np.random.default_rng().random() < 0.5:
            return HOLD
        return START


class Unsaid(Opening):
    def decide(self, now_s: float, flow: Any, links: Any) -> Any:
        return None


class Lost(Opening):
    def decide(self, now_s: float, flow: Any, links: Any) -> float:
        return START if links.on(flow.links[5]) else HOLD


class Shut(Opening):
    def decide(self, now_s: float, flow: Any, links: Any) -> float:
        return HOLD


class Remembering(Opening):
    """Remembers how many it has let in, from run to run."""

    def __init__(self) -> None:
        self.let_in = 0

    def decide(self, now_s: float, flow: Any, links: Any) -> float:
        self.let_in += 1
        return START if self.let_in < 20 else super().decide(now_s, flow, links)


class Undecided(Opening):
    def decide(self, now_s: float, flow: Any, links: Any) -> float:
        return float("nan")


@pytest.mark.parametrize(
    ("gate", "said"),
    sampled(
        [
            (Gambling(), "not deterministic"),
            (Unsaid(), "not able to run: InputError"),
            (Lost(), "not able to run: IndexError: .*Raised in Lost.decide"),
            (Shut(), "not able to run: .*"),
            (Remembering(), "not (deterministic|the same)"),
            (Undecided(), "not able to run: InputError"),
        ],
        3,
    ),
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_mistakes_of_gates(gate: Any, said: str) -> None:
    GATES["broken"] = gate
    with pytest.raises(AssertionError) as raised:
        check_scheduler("ada_srsf", gate="broken", n_jobs=1)
    text = str(raised.value)
    assert re.search(rf"{type(gate).__name__}\(\) is {said}", text, flags=re.DOTALL), text
    assert f"{HERE}:" in text


@dataclass(frozen=True, repr=False)
class Longest(ap.Order):
    """Keeps the contract: the longest iterations first."""

    rule = "longest iteration first"

    def turn(self, job: Any) -> Any:
        return 0, -job.iteration_ns


class Chance(Longest):
    def turn(self, job: Any) -> Any:
        return 0, int(np.random.default_rng().integers(1000))


class Half(Longest):
    def turn(self, job: Any) -> Any:
        return 0, job.gpus / 2


class Alone(Longest):
    def turn(self, job: Any) -> Any:
        return job.iteration_ns


class Unknown(Longest):
    def turn(self, job: Any) -> Any:
        return 0, job.size


class Growing(Longest):
    given: ClassVar[list[int]] = []

    def turn(self, job: Any) -> Any:
        self.given.append(job.gpus)
        return 0, -len(self.given) * (-1) ** (len(self.given) // 5)


class Big(Longest):
    def turn(self, job: Any) -> Any:
        return 0, {1: 1, 2: 2, 4: 3}[job.gpus]


@pytest.mark.parametrize(
    ("order", "said"),
    sampled(
        [
            (Chance(), "not deterministic"),
            (Half(), "not able to run: InputError: .* must be two whole.*Answered by Half.turn"),
            (Alone(), "not able to run: InputError: .* must be two whole"),
            (Unknown(), "not able to run: AttributeError: .*Raised in Unknown.turn"),
            (Growing(), "not (deterministic|indifferent)"),
            (Big(), "not able to run: KeyError"),
        ],
        3,
    ),
    ids=lambda value: "" if isinstance(value, str) else type(value).__name__,
)
def test_mistakes_of_orders(order: Any, said: str) -> None:
    with pytest.raises(AssertionError) as raised:
        check_scheduler("ada_srsf", order=order, n_jobs=1)
    text = str(raised.value)
    assert re.search(said, text, flags=re.DOTALL), text
    assert type(order).__name__ in text
    assert f"{HERE}:" in text


@pytest.mark.thorough
def test_a_gate_and_an_order_without_mistakes_pass() -> None:
    GATES["opening"] = Opening()
    check_scheduler("ada_srsf", gate="opening", order=Longest(), n_jobs=1)
