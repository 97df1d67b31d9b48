"""A page of status for load balancers and people, before there is anything else: ``GET /ready`` and ``GET /status``.

``/ready`` answers 200 where the broker serves and 503 where it waits; ``/status`` says who is master and since when, as
JSON, with 200. Anything else is 404. One request a connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

from entrepot.base.errors import AddressInUse, InvalidOption

REQUEST_MAX: Final = 8192
PATIENCE: Final = 5.0  # s for the whole request
REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}

Facts = Callable[[], dict[str, Any]]


class StatusPage:
    """Answers from ``facts``, whose ``ready`` decides about ``/ready``."""

    def __init__(self, place: str, facts: Facts) -> None:
        """``place``: HOST:PORT. Raises InvalidOption."""
        host, colon, port = place.rpartition(":")
        if not colon or not port.isdigit() or int(port) > 65535:
            raise InvalidOption(f"{place!r} is not HOST:PORT", remedy="write it like 0.0.0.0:8162")
        self._host = host.strip("[]")
        self._port = int(port)
        self._facts = facts
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Return the port that it really has."""
        if self._server is None:
            return self._port
        number = self._server.sockets[0].getsockname()[1]
        assert isinstance(number, int)
        return number

    async def open(self) -> None:
        """Listen. Raises AddressInUse."""
        try:
            self._server = await asyncio.start_server(self._serve, self._host or None, self._port, limit=REQUEST_MAX)
        except OSError as error:
            raise AddressInUse(
                f"the status page cannot listen on {self._host}:{self._port}: {error.strerror}",
                remedy="choose another place with --status",
            ) from error

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                request = await reader.readuntil(b"\n")
                while await reader.readuntil(b"\n") not in (b"\r\n", b"\n"):
                    pass
                writer.write(self._answer(request.split()))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever it was does not care for an answer
        finally:
            writer.close()

    def _answer(self, request: list[bytes]) -> bytes:
        facts = self._facts()
        status = 200
        if not request or request[0] not in (b"GET", b"HEAD"):
            status, facts = 405, {"error": "only GET"}
        elif request[1:2] == [b"/ready"]:
            status = 200 if facts.get("ready") else 503
        elif request[1:2] != [b"/status"]:
            status, facts = 404, {"error": "there are /status and /ready"}
        body = json.dumps(facts).encode() + b"\n"
        head = f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return head.encode() + (b"" if request[:1] == [b"HEAD"] else body)
