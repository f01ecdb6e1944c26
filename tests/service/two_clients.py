"""Two clients at once over HTTP, with odd messages among theirs, and kills of the service.

``unshare -n python -m tests.service.two_clients FOLDER SEED`` in a network namespace of its own:
a service listens on loopback there. Prints as JSON what was answered by number, and the state.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.service.answers import fits
from tests.service.draws import CLUSTER, drawn_job
from tests.service.test_messages import odd_message

PORT, MESSAGES, KILLS = 8765, 60, 2


class Client(threading.Thread):
    """Sends valid and odd messages about jobs of its own; each until it has an answer."""

    def __init__(self, name: str, seed: int, token: str) -> None:
        super().__init__()
        self.name, self.rng, self.token = name, np.random.default_rng(seed), token
        self.answers: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.statuses: dict[int, int] = {}
        self.failed: list[BaseException] = []

    def run(self) -> None:
        try:
            for number in range(MESSAGES):
                message = self.message(number)
                if self.rng.random() < 0.4:
                    self.ask(odd_message(self.rng, message) | {"id": f"{self.name}?{number}"})
                self.answers.append((message, self.ask(message)))
        except BaseException as error:
            self.failed.append(error)

    def message(self, number: int) -> dict[str, Any]:
        there = {
            job
            for told, answer in self.answers
            if told["op"] == "add" and answer["ok"]
            for job in told["jobs"]
        }
        kind = str(self.rng.choice(["add", "add", "update", "decide", "explain", "health"]))
        message: dict[str, Any] = {"op": kind if there else "add", "id": f"{self.name}{number}"}
        job = str(self.rng.choice(sorted(there))) if there else ""
        if message["op"] == "add":
            message["jobs"] = {f"{self.name}-{number}": drawn_job(self.rng)}
        elif kind == "update":
            message["jobs"] = {job: {"weight": float(self.rng.integers(1, 5))}}
        elif kind == "explain":
            message["job"] = job
        elif kind == "decide":
            message["devices"] = bool(self.rng.random() < 0.3)
        return message

    def ask(self, message: Any) -> dict[str, Any]:
        """Send until there is an answer: the service may be down, or ask for patience."""
        until_s = time.monotonic() + 60
        while time.monotonic() < until_s:
            connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)
            headers = {"Authorization": f"Bearer {self.token}"}
            try:
                connection.request("POST", "/v1/message", json.dumps(message), headers)
                found = connection.getresponse()
                answer = fits(json.loads(found.read()))
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
                continue
            finally:
                connection.close()
            self.statuses[found.status] = self.statuses.get(found.status, 0) + 1
            if found.status in (429, 503):
                time.sleep(float(found.headers.get("Retry-After", 0.2)))
                continue
            assert (found.status == 200) == answer["ok"], (found.status, answer)
            return answer
        raise TimeoutError(f"no answer to {message}")


def started(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "apportion", "decide", "--cluster", CLUSTER]
    command += ["--store", str(folder / "x.db"), "--http", str(PORT), "--most-per-s", "40"]
    return subprocess.Popen([*command, "--token-file", str(folder / "token")])


def main() -> None:
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (folder / "token").write_text("secret")
    rng, process = np.random.default_rng(seed), started(folder)
    clients = [Client(name, seed + k, "secret") for k, name in enumerate("ab")]
    try:
        for client in clients:
            client.start()
        for _ in range(KILLS):
            time.sleep(float(rng.uniform(4, 7)))
            process.kill()
            process.wait()
            process = started(folder)
        for client in clients:
            client.join(200)
        if failed := [str(each) for client in clients for each in client.failed]:
            raise SystemExit("; ".join(failed))
        again = [clients[0].ask(told) for client in clients for told, _ in client.answers]
        state = clients[0].ask({"op": "state"})["state"]
    finally:
        process.kill()
        process.wait()
    said = [answer for client in clients for _, answer in client.answers]
    kept = [told["op"] != "health" for client in clients for told, _ in client.answers]
    for before, after, matters in zip(said, again, kept, strict=True):
        assert not matters or before == after, (before, after)
    statuses = {str(k): v for client in clients for k, v in client.statuses.items()}
    print(json.dumps({"said": said, "state": state, "statuses": statuses}))


if __name__ == "__main__":
    main()
