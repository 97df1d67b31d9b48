"""What stands around the console: bodies that are too long, or never end, take nothing from others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("starlette")

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from entrepot.console import gate
from entrepot.console.gate import BODY_MAX, Shield


async def echo(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


def asked(*parts: bytes, ends: bool = True, **headers: str) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return status, headers and body of the answer to a POST whose body comes in ``parts``, and then ends or not."""
    left = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    if ends:
        left[-1]["more_body"] = False
    told: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if left:
            return left.pop(0)
        await asyncio.sleep(3600)
        raise AssertionError("nobody waits for so long")

    async def send(message: Any) -> None:
        told.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/", "raw_path": b"/", "query_string": b"", "scheme": "http",
        "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "http_version": "1.1", "root_path": "",
        "headers": [(name.encode(), text.encode()) for name, text in {"host": "localhost", **headers}.items()],
    }  # fmt: skip
    app = Shield(Starlette(routes=[Route("/", echo, methods=["POST"])]))
    asyncio.run(app(scope, receive, send))
    return told[0]["status"], dict(told[0]["headers"]), b"".join(one.get("body", b"") for one in told[1:])


def test_a_body_that_comes_in_parts_is_served_and_its_connection_stays() -> None:
    status, headers, body = asked(b"abc", b"de")
    assert (status, body) == (200, b"5")
    assert b"connection" not in headers
    assert headers[b"x-frame-options"] == b"DENY"


def test_a_body_whose_rest_never_comes_is_refused_and_the_connection_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BODY_PATIENCE", 0.05)
    status, headers, _ = asked(b"abc", ends=False)
    assert (status, headers[b"connection"]) == (408, b"close")


def test_a_body_that_is_longer_than_its_head_says_is_refused() -> None:
    status, _, _ = asked(b"x" * BODY_MAX, b"x")
    assert status == 413
    status, _, _ = asked(b"x", **{"content-length": str(BODY_MAX + 1)})
    assert status == 413


def test_two_lengths_end_the_connection() -> None:
    status, headers, body = asked(b"x", **{"content-length": "1", "transfer-encoding": "chunked"})
    assert (status, headers[b"connection"], body) == (400, b"close", b"the request tells two lengths")
