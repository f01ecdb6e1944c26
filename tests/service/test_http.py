"""Over HTTP: the same answers; who may ask, how much, and how often. Nothing listens here."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Any

import jsonschema
import pytest
from tests.service.answers import fits
from tests.service.draws import CLUSTER, drawn_messages

from apportion.errors import InputError
from apportion.service import DecisionService

testclient = pytest.importorskip("fastapi.testclient", reason="needs apportion[service]")
http = pytest.importorskip("apportion.service.http", reason="needs apportion[service]")


def asked(service: DecisionService, **settings: Any) -> Any:
    return testclient.TestClient(http.application(service, **settings))


@pytest.mark.thorough
def test_answers_are_those_of_lines() -> None:
    messages = drawn_messages(6, 40, asks=("decide", "explain"))
    with DecisionService("max_min_fairness", CLUSTER) as one:
        expected = [one.answer(message) for message in messages]
    with DecisionService("max_min_fairness", CLUSTER) as other:
        client = asked(other)
        for message, answer in zip(messages, expected, strict=True):
            found = client.post("/v1/message", content=json.dumps(message))
            assert found.status_code == (200 if answer["ok"] else 422)
            assert found.json() == answer
        assert client.post("/v1/message", content=b"{").status_code == 422
        figures = client.get("/metrics").text
        assert "apportion_answers_total" in figures
        assert client.get("/health").json()["ok"]
        assert client.get("/v1/schema").json()["title"] == "apportion.decide/1"
        api = client.get("/openapi.json").json()
        body = api["paths"]["/v1/message"]["post"]["requestBody"]["content"]["application/json"]
        assert [kind["title"] for kind in body["schema"]["oneOf"]][:2] == ["add", "update"]


def test_who_may_ask_how_much_and_how_often(monkeypatch: pytest.MonkeyPatch) -> None:
    with DecisionService("fifo", "v100=1") as service:
        client, told = asked(service, token="secret"), {"content": b'{"op": "health"}'}
        bare = client.post("/v1/message", **told)
        assert (bare.status_code, bare.headers["www-authenticate"]) == (401, "Bearer")
        fits(bare.json())
        wrong, right = ({"Authorization": f"Bearer {each}"} for each in ("secreT", "secret"))
        assert client.post("/v1/message", **told, headers=wrong).status_code == 401
        assert client.post("/v1/message", **told, headers=right).status_code == 200
        assert client.get("/metrics").status_code == 401
        assert client.get("/health").status_code == 200
        monkeypatch.setattr(http, "LONGEST_LINE", 10)
        assert client.post("/v1/message", **told, headers=right).status_code == 413
        few = asked(service, most_per_s=1e-3 + 1)
        found = [few.get("/v1/schema") for _ in range(3)]
        assert found[0].status_code == 200
        (much, *_) = [each for each in found if each.status_code == 429]
        assert int(much.headers["retry-after"]) >= 1
        assert fits(much.json())["retry"]


def test_other_paths_and_methods_are_refused_in_the_same_form() -> None:
    with DecisionService("fifo", "v100=1") as service:
        client = asked(service)
        for found, status in ((client.get("/v1/message"), 405), (client.post("/nothing"), 404)):
            assert found.status_code == status
            assert "POST /v1/message" in fits(found.json())["error"]
        assert client.get("/v1/message").headers["allow"] == "POST"


def test_openapi_has_the_types_of_answers() -> None:
    """Every answer fits what OpenAPI says of its status."""
    with DecisionService("max_min_fairness", CLUSTER) as service:
        client = asked(service)
        api = client.get("/openapi.json").json()
        told = api["paths"]["/v1/message"]["post"]["responses"]
        schemas = {"components": {"schemas": api["components"]["schemas"]}}
        asks = ("decide", "explain", "state", "health")
        kinds = {
            status: jsonschema.Draft202012Validator(
                {**each["content"]["application/json"]["schema"], **schemas}
            )
            for status, each in told.items()
            if status in ("200", "422")
        }
        for message in [*drawn_messages(9, 40, asks=asks), {"op": "decide", "devices": True}, 7]:
            found = client.post("/v1/message", content=json.dumps(message))
            kinds[str(found.status_code)].validate(found.json())


def test_a_port_that_is_taken_is_said() -> None:
    with DecisionService("fifo", "v100=1") as service, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port}"):
            http.serve_http(service, host="127.0.0.1", port=port, token=None, most_per_s=1.0)


def test_other_machines_need_a_token() -> None:
    with DecisionService("fifo", "v100=1") as service, pytest.raises(InputError, match="token"):
        http.serve_http(service, host="0.0.0.0", port=1, token=None, most_per_s=1.0)


in_a_namespace = pytest.mark.skipif(
    which("unshare") is None or os.geteuid() != 0, reason="needs a network namespace of its own"
)


@pytest.mark.thorough
@in_a_namespace
def test_rude_clients_are_refused_in_the_same_form_and_keep_nobody_waiting() -> None:
    """What is no HTTP, half of a request for long, and who hangs up: no traceback either."""
    words = ["unshare", "-n", sys.executable, "-m", "tests.service.rude_clients"]
    root = Path(__file__).parents[2]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=root, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    found = json.loads(done.stdout)
    statuses = {"no HTTP": 400, "bad chunks": 400}
    statuses |= {"half a head": 408, "half a body": 408, "nothing": 408}
    for name, expected in statuses.items():
        status, kind, answer, hung_up = found[name]
        assert (status, kind, hung_up) == (expected, "application/json", True)
        assert not fits(answer)["ok"]
    rest = {name: found[name] for name in ("meanwhile", "ended", "second", "after")}
    assert rest == {"meanwhile": [200], "ended": [300], "second": [True, True], "after": [200]}


@pytest.mark.slow
@in_a_namespace
def test_two_clients_at_once_while_the_service_is_killed(tmp_path: Path) -> None:
    """What was answered is there, once, in the order of its numbers; beside a service in here."""
    words = ["unshare", "-n", sys.executable, "-m", "tests.service.two_clients", str(tmp_path), "5"]
    root = Path(__file__).parents[2]
    done = subprocess.run(words, capture_output=True, text=True, timeout=280, cwd=root, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert {"200", "422"} <= found["statuses"].keys()
    numbers = [answer["number"] for answer in found["said"] if answer["ok"] and len(answer) > 4]
    assert numbers
    store = sqlite3.connect(tmp_path / "x.db")
    told = [json.loads(row[0]) for row in store.execute("SELECT told FROM message ORDER BY number")]
    store.close()
    times = [each.pop("clock_s") for each in told]
    with DecisionService("max_min_fairness", CLUSTER, clock=lambda: times[0]) as service:
        for message in told:
            assert service.answer(message)["ok"]
            del times[0]
            times = times or [0.0]
        state = service.answer({"op": "state"})["state"]
    assert json.loads(json.dumps(state)) == found["state"]
