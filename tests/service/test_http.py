"""Over HTTP: the same answers; who may ask, how much, and how often. Nothing listens here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.service.draws import CLUSTER, drawn_messages

from apportion.errors import InputError
from apportion.service import DecisionService

testclient = pytest.importorskip("fastapi.testclient", reason="needs apportion[service]")
http = pytest.importorskip("apportion.service.http", reason="needs apportion[service]")


def asked(service: DecisionService, **settings: Any) -> Any:
    return testclient.TestClient(http.application(service, **settings))


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
        assert client.post("/v1/message", **told).status_code == 401
        wrong, right = ({"Authorization": f"Bearer {each}"} for each in ("secreT", "secret"))
        assert client.post("/v1/message", **told, headers=wrong).status_code == 401
        assert client.post("/v1/message", **told, headers=right).status_code == 200
        assert client.get("/metrics").status_code == 401
        assert client.get("/health").status_code == 200
        monkeypatch.setattr(http, "LONGEST_LINE", 10)
        assert client.post("/v1/message", **told, headers=right).status_code == 413
        few = asked(service, most_per_s=1e-3 + 1)
        codes = [few.get("/v1/schema").status_code for _ in range(3)]
        assert codes[0] == 200
        assert 429 in codes


def test_other_machines_need_a_token() -> None:
    with DecisionService("fifo", "v100=1") as service, pytest.raises(InputError, match="token"):
        http.serve_http(service, host="0.0.0.0", port=1, token=None, most_per_s=1.0)
