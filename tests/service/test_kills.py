"""A service that is killed at any moment, and started again: nothing is lost, nothing doubled."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.service.draws import CLUSTER, drawn_messages

from apportion.service import DecisionService

if TYPE_CHECKING:
    from pathlib import Path


def started(store: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "apportion", "decide", "--cluster", CLUSTER]
    return subprocess.Popen(
        [*command, "--store", str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def answers_before(
    process: subprocess.Popen[bytes], messages: list[dict[str, Any]], kill_after: int
) -> list[dict[str, Any]]:
    """Send everything at once, and kill the process once it has answered so many."""
    assert process.stdin
    assert process.stdout
    text = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    writer = threading.Thread(target=_write, args=(process.stdin, text))
    writer.start()
    found = []
    for line in process.stdout:
        found.append(json.loads(line))
        if len(found) == kill_after:
            break
    process.kill()
    process.wait()
    writer.join()
    process.stdout.close()
    return found


def _write(pipe: IO[bytes], text: bytes) -> None:
    """Write until the reader is gone."""
    with contextlib.suppress(BrokenPipeError), pipe:
        pipe.write(text)


@pytest.mark.parametrize(
    "kills", [pytest.param(1, marks=pytest.mark.thorough), pytest.param(20, marks=pytest.mark.slow)]
)
def test_killed_at_any_moment(kills: int, tmp_path: Path) -> None:
    """The sender sends again what had no answer, and something that had one."""
    messages = drawn_messages(8, 400, asks=("decide", "explain"))
    with DecisionService("max_min_fairness", CLUSTER) as service:
        expected = [service.answer(message) for message in messages]
    rng, store = np.random.default_rng(9), tmp_path / "decisions.db"
    answered: dict[str, dict[str, Any]] = {}
    for kill in range(kills + 1):
        left = [each for each in messages if each["id"] not in answered]
        again = [messages[rng.integers(len(messages) - len(left))]] if answered else []
        most = len(left) // (kills + 1 - kill)
        until = int(rng.integers(1, most + 1)) if kill < kills else len(left)
        found = answers_before(started(store), [*again, *left], until + len(again))
        for answer in found:
            answer.pop("line")
            assert answered.setdefault(answer["id"], answer) == answer
    assert [answered[each["id"]] for each in messages] == expected
