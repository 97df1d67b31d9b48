"""A page of status for load balancers and people, before there is anything else: ``GET /ready`` and ``GET /status``.

``/ready`` answers 200 where the broker serves and 503 where it waits; ``/status`` says who is master and since when, as
JSON, with 200; ``/metrics`` says in Prometheus' form what of that is a number. Anything else is 404. One request a
connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from entrepot.base.errors import AddressInUse
from entrepot.base.places import host_and_port

REQUEST_MAX: Final = 8192
PATIENCE: Final = 5.0  # s for the whole request
REASONS: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}

Facts = Callable[[], dict[str, Any]]


class StatusPage:
    """Answers from ``facts``, whose ``ready`` decides about ``/ready``."""

    def __init__(self, place: str, facts: Facts) -> None:
        """``place``: HOST:PORT. Raises InvalidOption."""
        self._host, self._port = host_and_port(place, "0.0.0.0:8162", everywhere=True)
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
        status, kind, text = 200, "application/json", ""
        if not request or request[0] not in (b"GET", b"HEAD"):
            status, facts = 405, {"error": "only GET"}
        elif request[1:2] == [b"/ready"]:
            status = 200 if facts.get("ready") else 503
        elif request[1:2] == [b"/metrics"]:
            kind, text = "text/plain; version=0.0.4; charset=utf-8", metrics(facts)
        elif request[1:2] != [b"/status"]:
            status, facts = 404, {"error": "there are /status, /metrics and /ready"}
        body = (text or json.dumps(facts) + "\n").encode()
        head = f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {kind}\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return head.encode() + (b"" if request[:1] == [b"HEAD"] else body)


def metrics(facts: Mapping[str, Any]) -> str:
    """Return the numbers among what the status page says: of the part that this broker plays, and of its replicas."""
    mine = f'broker="{_escaped(facts["broker"])}"'
    copied = facts.get("replication", {})
    found = [_family("entrepot_ha_primary", "whether it serves", [(mine, int(bool(facts.get("ready"))))])]
    if "master" in facts:
        about = "epoch of whoever is primary, as this broker sees it"
        found.append(_family("entrepot_ha_epoch", about, [(mine, facts["master"]["epoch"])]))
    if "held" in copied:
        about = "whether nothing is confirmed for want of copies"
        found.append(_family("entrepot_replication_held", about, [(mine, int(copied["held"]))]))
    if "in_sync" in copied:
        about = "whether this replica is waited for"
        found.append(_family("entrepot_replication_in_sync", about, [(mine, int(copied["in_sync"]))]))
    if "drain" in facts:
        for name, about in (("moved", "messages that are at another broker"), ("left", "messages that wait here")):
            about = f"of a backup that gives away what it took over: {about}"
            found.append(_family(f"entrepot_drain_{name}", about, [(mine, facts["drain"][name])]))
        about = "of a backup that gives away what it took over: messages that readers and writers hold here"
        stays = sum(int(row["messages"]) for row in facts["drain"]["stays"])
        found.append(_family("entrepot_drain_stays", about, [(mine, stays)]))
    replicas = [(f'{mine},replica="{_escaped(each["name"])}"', each) for each in copied.get("replicas", ())]
    for name, about, read in REPLICA:
        found.append(_family(name, about, [(labels, read(each)) for labels, each in replicas]))
    return "".join(found)


REPLICA: Final[tuple[tuple[str, str, Callable[[Mapping[str, Any]], float]], ...]] = (
    ("entrepot_replica_in_sync", "whether it may take over", lambda each: int(each["stage"] == "in sync")),
    ("entrepot_replica_lag_octets", "octets that it has not on its disk", lambda each: each["lag_octets"]),
    ("entrepot_replica_lag_seconds", "how long it owes an answer", lambda each: each["lag_ms"] / 1000),
)


def _family(name: str, about: str, samples: Sequence[tuple[str, float]]) -> str:
    lines = "".join(f"{name}{{{labels}}} {value}\n" for labels, value in samples)
    return f"# HELP {name} {about}\n# TYPE {name} gauge\n{lines}" if samples else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
