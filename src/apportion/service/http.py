"""The same messages over HTTP; needs the extra ``service``."""

from __future__ import annotations

import hmac
import json
import socket
import threading
import time
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from apportion.errors import InputError
from apportion.service.answers import answer_types, json_schema
from apportion.service.lines import LONGEST_LINE, answers_to
from apportion.service.messages import FORMAT, MESSAGES, refusal

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Mapping

    from apportion.service.service import DecisionService

_PATHS = "POST /v1/message, GET /v1/schema, /openapi.json, /health, /metrics"
_TYPES = "#/components/schemas/"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_WHOLE_S = 30.0
"""Seconds in which a request must have come as a whole, head and body."""


def serve_http(
    service: DecisionService, *, host: str, port: int, token: str | None, most_per_s: float
) -> None:
    """Answer requests until the process is told to end.

    Raises
    ------
    InputError
        If others than this machine could ask, without a token.
    """
    if host not in _LOOPBACK and token is None:
        raise InputError(
            f"--host {host} lets other machines ask; give a --token-file that they must know."
        )
    app = application(service, token=token, most_per_s=most_per_s)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listens = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(f"Cannot listen on {host}, port {port}: {error.strerror}.") from error
    with listens:
        uvicorn.Server(uvicorn.Config(app, http=_Patient, log_level="warning")).run([listens])


def application(
    service: DecisionService, *, token: str | None = None, most_per_s: float = 1000.0
) -> FastAPI:
    """Return the application: ``/v1/message``, ``/v1/schema``, ``/health``, ``/metrics``.

    Parameters
    ----------
    service
        What answers.
    token
        What ``Authorization: Bearer`` must bring to all but ``/health``.
    most_per_s
        Requests/s that are answered; what is more gets 429.
    """
    app = FastAPI(title="apportion decide", version=FORMAT, redoc_url=None)
    meters, bucket = _Meters(service), _Bucket(most_per_s)
    app.openapi = partial(_described, app.openapi)  # type: ignore[method-assign]

    @app.middleware("http")
    async def admit(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        if request.url.path != "/health":
            brought = request.headers.get("authorization", "")
            if token is not None and not hmac.compare_digest(
                brought.encode(), f"Bearer {token}".encode()
            ):
                said = {"WWW-Authenticate": "Bearer"}
                return _refused(401, "The token is missing, or another one.", said)
            if not bucket.take():
                said = {"Retry-After": str(max(1, ceil(1 / most_per_s)))}
                return _refused(429, f"More than {most_per_s:g} requests/s; wait.", said)
        return await answer(request)

    @app.exception_handler(HTTPException)
    async def elsewhere(request: Request, error: HTTPException) -> JSONResponse:
        """Refuse paths and methods that there are none."""
        said = f"{request.method} {request.url.path}: {error.detail}. Valid: {_PATHS}."
        return _refused(error.status_code, said, error.headers)

    @app.post("/v1/message", openapi_extra=_body(), responses=_responses())
    async def message(request: Request) -> JSONResponse:
        """Take a message, and answer it: 422 where something is wrong with it."""
        text = bytearray()
        try:
            async for part in request.stream():
                text += part
                if len(text) > LONGEST_LINE:
                    return _refused(413, f"A message has at most {LONGEST_LINE} bytes.")
        except ClientDisconnect:
            return _refused(400, "The client hung up before the end.")  # nobody reads it
        with meters.seconds.time():
            (answer,) = await run_in_threadpool(answers_to, service, [bytes(text)])
        meters.answers.labels(ok=str(answer["ok"]).lower()).inc()
        bad = 503 if answer.get("retry") else 422
        return JSONResponse(answer, 200 if answer["ok"] else bad)

    @app.get("/v1/schema")
    def schema() -> dict[str, Any]:
        """Return the schema of messages."""
        return json_schema()

    @app.get("/health")
    def health() -> dict[str, Any]:
        """Tell whether the service is well."""
        return {"v": FORMAT, "ok": True}

    @app.get("/metrics")
    def metrics() -> Response:
        """Return figures in the text format of Prometheus."""
        return Response(meters.text(), media_type="text/plain; version=0.0.4")

    return app


def _body() -> dict[str, Any]:
    """Return what OpenAPI is told of a message."""
    schema = {"oneOf": json_schema()["oneOf"]}
    examples = {op: {"summary": text} for op, (text, _) in MESSAGES.items()}
    examples["health"]["value"] = {"op": "health"}  # type: ignore[assignment]
    content = {"application/json": {"schema": schema, "examples": examples}}
    return {"requestBody": {"required": True, "content": content}}


def _responses() -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI is told of answers."""
    told = {
        200: ("The answer.", ("noted", "decided", "explained", "told", "well")),
        401: ("The token is missing, or another one.", ("refused",)),
        413: ("The message is too long.", ("refused",)),
        422: ("Something is wrong with the message, and nothing has changed.", ("refused",)),
        429: ("Too many requests; wait for Retry-After seconds.", ("refused",)),
        503: ("The store cannot be written; send it again later.", ("refused",)),
    }
    found: dict[int | str, dict[str, Any]] = {}
    for status, (text, names) in told.items():
        schema = {"oneOf": [{"$ref": f"{_TYPES}{name}"} for name in names]}
        found[status] = {"description": text, "content": {"application/json": {"schema": schema}}}
    return found


def _described(before: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return OpenAPI's description, with the types of answers among its components."""
    described = before()
    described.setdefault("components", {}).setdefault("schemas", {}).update(answer_types(_TYPES))
    return described


def _refused(status: int, error: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    retry = status in (429, 503)
    return JSONResponse(refusal(None, error, retry=retry), status, dict(headers or {}))


class _Patient(H11Protocol):
    """HTTP by uvicorn, with an end to waiting for a request; what is no HTTP is refused in JSON."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._wait(more=False)

    def _wait(self, *, more: bool = True) -> None:
        """Wait for the rest of a request from now on, go on so, or no longer."""
        if more and self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._late = self._late or self.loop.call_later(_WHOLE_S, self._give_up)
        elif self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._refuse(408, f"The request was not there within {_WHOLE_S:g} s.")

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, f"{msg} Valid: {_PATHS}.")

    def _refuse(self, status: int, error: str) -> None:
        """Answer in the form of all answers, if nothing was answered yet, and hang up."""
        body = json.dumps(refusal(None, error)).encode()
        told = [("content-type", "application/json"), ("content-length", str(len(body)))]
        head = h11.Response(status_code=status, headers=[*told, ("connection", "close")])
        try:
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass
        self.transport.close()


class _Bucket:
    """Lets so many through a second, and as many at once."""

    def __init__(self, most_per_s: float) -> None:
        self._most, self._left, self._then_s = most_per_s, most_per_s, time.monotonic()
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Tell whether one more may pass."""
        with self._lock:
            now_s = time.monotonic()
            more = (now_s - self._then_s) * self._most
            self._left, self._then_s = min(max(self._most, 1.0), self._left + more), now_s
            if self._left < 1:
                return False
            self._left -= 1
            return True


class _Meters:
    """Figures of a service, for Prometheus."""

    def __init__(self, service: DecisionService) -> None:
        self._service, self._registry = service, CollectorRegistry()
        self.seconds = Histogram(
            "apportion_answer_seconds",
            "Seconds that an answer took",
            buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
            registry=self._registry,
        )
        self.answers = Counter(
            "apportion_answers", "Messages answered", ["ok"], registry=self._registry
        )
        self._gauges = {
            name: Gauge(f"apportion_{name}", text, registry=self._registry)
            for name, text in (
                ("jobs", "Jobs at hand"),
                ("kept_messages", "Messages kept so far"),
                ("late", "Answers that were the last one, for the time limit"),
            )
        }

    def text(self) -> bytes:
        """Return them as they are now."""
        health = self._service.health()
        for name, gauge in self._gauges.items():
            gauge.set(health[name])
        return generate_latest(self._registry)
