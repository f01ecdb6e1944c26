"""Clients that hang up, send half, or what is no HTTP; prints what they are answered, as JSON.

``unshare -n python -m tests.service.rude_clients`` in a network namespace of its own: a service
listens on loopback there.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import threading
import time
from typing import Any

from apportion.service import DecisionService
from apportion.service import http as module

PORT = 8766
HEAD = b"POST /v1/message HTTP/1.1\r\nHost: x\r\n"


def connected() -> socket.socket:
    until_s = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", PORT), timeout=20)
        except OSError:
            assert time.monotonic() < until_s
            time.sleep(0.05)


def answered(sent: bytes) -> list[Any]:
    """Send something; return the status and the answer, once the service has hung up."""
    with connected() as client:
        client.sendall(sent)
        found = http.client.HTTPResponse(client)
        found.begin()
        body, after = found.read(), client.recv(1)
        return [found.status, found.headers["content-type"], json.loads(body), after == b""]


def well() -> int:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    connection.request("POST", "/v1/message", b'{"op": "health"}')
    return connection.getresponse().status


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    module._WHOLE_S = 1.5
    with DecisionService("fifo", "v100=1") as service:
        options: Any = {"host": "127.0.0.1", "port": PORT, "token": None, "most_per_s": 1e6}
        threading.Thread(
            target=module.serve_http, args=(service,), kwargs=options, daemon=True
        ).start()
        for sent in (b"", HEAD, HEAD + b"Content-Length: 99\r\n\r\n{"):  # and hangs up
            with connected() as client:
                client.sendall(sent)
                time.sleep(0.05)
        found = {
            "no HTTP": answered(b"\x16\x03\x01 hello\r\n\r\n"),
            "bad chunks": answered(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
            "half a head": answered(HEAD),
            "half a body": answered(HEAD + b"Content-Length: 99\r\n\r\n{"),
            "nothing": answered(b""),
        }
        many = [connected() for _ in range(300)]
        for client in many:
            client.sendall(HEAD)
        found["meanwhile"] = [well()]
        found["ended"] = [sum(b" 408 " in client.recv(99) for client in many)]
        for client in many:
            client.close()
        with connected() as client:  # a second request, half, in the same connection
            client.sendall(HEAD + b'Content-Length: 16\r\n\r\n{"op": "health"}')
            time.sleep(0.3)
            client.sendall(HEAD)
            time.sleep(0.3)
            first = client.recv(10_000)
            found["second"] = [b" 200 " in first, b" 408 " in client.recv(10_000)]
        found["after"] = [well()]
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
