"""A client that has only the schema: spoilt, doubled and late messages, and kills between them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import sampled
from tests.service.answers import fits
from tests.service.draws import CLUSTER, drawn_messages

from apportion.service import DecisionService
from apportion.service.lines import answers_to

if TYPE_CHECKING:
    from pathlib import Path

ODD: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    1e308,
    10**400,
    "",
    " ",
    "x",
    "n" * 300,
    [],
    {},
    [None],
    {"": 1},
)


def spoilt(rng: np.random.Generator, value: Any, depth: int = 0) -> Any:
    """Return a message with one thing wrong with it, or none by chance, at any depth."""
    if rng.random() < 0.3 or depth > 3 or not isinstance(value, dict) or not value:
        return ODD[rng.integers(len(ODD))]
    changed = dict(value)
    name = list(changed)[rng.integers(len(changed))]
    kind = rng.integers(4)
    if kind == 0:
        del changed[name]
    elif kind == 1:
        changed[("x", "", "weigth", "order", "v")[rng.integers(5)]] = ODD[rng.integers(len(ODD))]
    else:
        changed[name] = spoilt(rng, changed[name], depth + 1)
    return changed


def written(rng: np.random.Generator, message: Any) -> bytes:
    """Return the message in text, now and then cut or with another byte in it."""
    text = bytearray(json.dumps(message).encode())
    if (kind := rng.random()) < 0.1 and len(text) > 1:
        del text[rng.integers(1, len(text)) :]
    elif kind < 0.2:
        text[rng.integers(len(text))] = rng.integers(32, 256)
    return bytes(text)


class Held:
    """Who has which devices, as the answers say, held to what was said before."""

    def __init__(self) -> None:
        self.here: set[str] = set()
        self.held: dict[str, Any] = {}

    def take(self, message: dict[str, Any], answer: dict[str, Any]) -> None:
        if message["op"] in ("add", "remove"):
            self.here ^= {*message["jobs"]}
            self.held = {job: each for job, each in self.held.items() if job in self.here}
        decided = answer.get("decision", {})
        if "devices" not in decided:
            return
        now = decided["devices"]
        given = [(each["accelerator"], n) for each in now.values() for n in each["devices"]]
        assert len(given) == len({*given})
        told = {
            "started": now.keys() - self.held.keys(),
            "moved": {job for job in now.keys() & self.held if now[job] != self.held[job]},
            "preempted": self.held.keys() - now.keys(),
            "waiting": self.here - now.keys() - self.held.keys(),
        }
        assert {name: {*decided[name]} for name in told} == told
        assert {*decided["cannot_run"]} <= self.here
        self.held = now


@pytest.mark.thorough
@pytest.mark.parametrize("policy", sampled(["max_min_fairness", "easy"], 2))
def test_a_client_that_spoils_doubles_and_kills(policy: str, tmp_path: Path) -> None:
    rng, held = np.random.default_rng(len(policy)), Held()
    file, kept = tmp_path / "0.db", list[tuple[dict[str, Any], dict[str, Any]]]()
    service, said = DecisionService(policy, CLUSTER, file), {True: 0, False: 0}

    def ask(text: bytes) -> dict[str, Any]:
        (answer,) = answers_to(service, [text])
        said[answer["ok"]] += 1
        return fits(answer)

    for number, message in enumerate(drawn_messages(11, 120, asks=("decide",) * 5)):
        if message["op"] == "decide":
            message["devices"] = True
        for _ in range(2):  # spoilt ones are refused, or are questions that change nothing here
            odd = spoilt(rng, {**message, "id": f"odd{number}"})
            if isinstance(odd, dict):
                odd |= {"id": message["id"]}
                odd["v"] = "apportion.decide/0"
            assert not ask(written(rng, odd))["ok"]
        if rng.random() < 0.1:  # killed: the file is what it is
            folder = shutil.copytree(file.parent, tmp_path.parent / f"{tmp_path.name}-{number}")
            before = ask(b'{"op": "state"}')
            service.close()
            file = folder / file.name
            service = DecisionService(policy, CLUSTER, file)
            assert ask(b'{"op": "state"}') == before
        answer = ask(json.dumps(message).encode())
        if answer["ok"]:
            kept.append((message, answer))
            assert answer["number"] == len(kept)
            held.take(message, answer)
        again, first = kept[rng.integers(len(kept))]
        assert ask(json.dumps(again).encode()) == first
    service.close()
    assert min(len(kept), said[False]) > 60, (len(kept), said)
