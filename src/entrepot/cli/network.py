"""Asking every broker of a network the same question: from one, along its bridges, to all that answer in time.

The first is reached as every command reaches it. The others are reached over OpenWire, which every broker of a network
speaks, at the place that a bridge dialled, or where the broker itself says that it listens, with the same user and
password. Nobody is waited for longer than the patience, and who did not answer is named with the reason: an answer must
not hide a part of the network.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import click
import msgspec

from entrepot.base.environment import SECOND, Duration
from entrepot.base.errors import EntrepotError, InvalidURI, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.base.uri import parse as parse_uri
from entrepot.cli.dialogue import credentials, places
from entrepot.cli.errors import describe_os_error
from entrepot.cli.foreign import PROGRAM, standing
from entrepot.cli.managing import answered, managing, processes_at
from entrepot.client.connection import connect
from entrepot.client.message import Message
from entrepot.client.session import Session
from entrepot.core.operators.management import ADDRESS, ALONE, OPERATION, RESOURCE
from entrepot.management.whole import sockets_of

BROKERS_MOST: Final = 200
OPENWIRE_SCHEMES: Final = ("tcp:", "ssl:", "nio:", "openwire:")

Who = tuple[str | None, str | None]
Ask = Callable[..., Awaitable[Any]]
"""Does an operation of the resource ``broker`` there: name, then arguments; returns its result."""


class Silent(msgspec.Struct, frozen=True):
    """A broker that did not answer. ``named`` by one that did, or by its place."""

    broker: str
    place: str
    why: str


class Survey:
    """What a network said. ``told``: an answer of each broker; ``names``: of those, broker by node id."""

    def __init__(self, operation: str, arguments: tuple[object, ...], patience: Duration) -> None:
        self.operation: Final = operation
        self.arguments: Final = arguments
        self.patience: Final = patience
        self.told: list[dict[str, Any]] = []
        self.names: dict[str, str] = {}
        self.peers: dict[str, str] = {}  # the same of those that bridges know, ActiveMQ's among them
        self.silent: list[Silent] = []
        self._tried: dict[str, None] = {}
        self._sockets: list[str] = []  # of the processes of the first broker

    @property
    def called(self) -> dict[str, str]:
        """Broker by the identity that messages carry, of all that are known."""
        return {**self.peers, **self.names}

    async def run(self, url: str) -> None:
        """Ask the broker at ``url``, then those that its bridges lead to or come from, and so on.

        Raises Unreachable, Refused, InvalidURI for the first one: without it there is no network to ask.
        """
        user, password = credentials(places(url)[0])
        rows = await self._ask_as_operator(url)
        for number, socket in enumerate(self._sockets):
            rows += await self._beside(number, socket, (user, password))
        await self._follow([row for row in rows if row.get("peer") not in self._sockets], user, password)

    async def add(self, url: str) -> None:
        """Ask a broker that no bridge leads to, and those beyond it; ``silent`` says when it does not answer."""
        user, password = credentials(places(url)[0])
        if url.startswith(OPENWIRE_SCHEMES):
            await self._follow(await self._reach("", [_place(url)], user, password), user, password)
            return
        try:
            rows = await self._ask_as_operator(url)
        except TimeoutError:
            self.silent.append(Silent(url, url, f"no answer within {self.patience / SECOND:g} s"))
        except EntrepotError as error:
            self.silent.append(Silent(url, url, error.message))
        else:
            await self._follow(rows, user, password)

    async def _beside(self, number: int, socket: str, who: Who) -> list[dict[str, Any]]:
        """Ask another process of the first broker, which no bridge leads to; return the rows of its bridges."""
        why = f"no answer within {self.patience / SECOND:g} s"
        try:
            return await self._ask_as_operator(f"stomp+unix://{socket}", who)
        except TimeoutError:
            pass
        except EntrepotError as error:
            why = error.message
        self.silent.append(Silent(f"process {number}", socket, why))
        return []

    async def _ask_as_operator(self, url: str, who: Who | None = None) -> list[dict[str, Any]]:
        """Ask over STOMP, as every command does; return the rows of the broker's bridges."""
        async with asyncio.timeout(self.patience / SECOND), managing(url, who) as desk:

            async def ask(operation: str, *values: object) -> Any:
                return await desk.ask("broker", operation, *values, patience=self.patience)

            rows = await self._question(ask)
            if who is None and not self._sockets:
                self._sockets = sockets_of(await processes_at(desk))
            return rows

    async def _follow(self, waiting: list[dict[str, Any]], user: str | None, password: str | None) -> None:
        """Ask the brokers that ``waiting`` leads to, then those beyond them, each once."""
        while waiting and len(self.told) < BROKERS_MOST:
            rows, waiting = _by_name(waiting, self.names), []
            reached = await asyncio.gather(*(self._reach(name, found, user, password) for name, found in rows.items()))
            for further in reached:
                waiting += further
        known = {answer["broker"] for answer in self.told}
        self.silent = [one for one in self.silent if one.broker not in known]

    async def _question(self, ask: Ask) -> list[dict[str, Any]]:
        """Put the question; return the rows of the broker's bridges."""
        answer = await ask(self.operation, *self.arguments)
        rows: list[dict[str, Any]] = await ask("describeBridges")
        self.heard(rows)
        if answer["node"] not in self.names:
            self.names[answer["node"]] = answer["broker"]
            self.told.append(answer)
            if answer["url"]:
                self._tried[_place(answer["url"])] = None
        return rows

    def heard(self, rows: list[dict[str, Any]]) -> None:
        """Learn the names of brokers from bridges to them."""
        for row in rows:
            if row.get("peer_id") and row.get("peer"):
                self.peers[str(row["peer_id"])] = str(row["peer"])

    async def _reach(self, name: str, found: list[str], user: str | None, password: str | None) -> list[dict[str, Any]]:
        """Ask the broker ``name`` at the first of several places that answers."""
        why = "no bridge says where it is; name one of its places with --also"
        tried = ""
        for place in found:
            if place in self._tried:
                continue
            self._tried[place] = None
            tried = place
            try:
                async with asyncio.timeout(self.patience / SECOND):
                    return await self._ask_there(name or place, place, user, password)
            except TimeoutError:
                why = f"no answer within {self.patience / SECOND:g} s"
            except EntrepotError as error:
                why = error.message
            except OSError as error:
                why = describe_os_error(error)
        if tried or not found:
            self.silent.append(Silent(name or tried, tried, why))
        return []

    async def _ask_there(self, name: str, place: str, user: str | None, password: str | None) -> list[dict[str, Any]]:
        async with connect(place, user=user, password=password) as connection, connection.session() as session:
            if connection.program.startswith(PROGRAM):  # it would keep the question in a queue, for ever
                told = self.told[0] if self.told else {}
                if self.operation != "explain" or not told or told["topic"]:
                    raise Unreachable(f"it is {connection.program}, which cannot be asked that")
                self.told.append(await standing(session, told["destination"], name, place, connection.program))
                return []
            return await self._question(_over(session, self.patience))


def _over(session: Session, patience: Duration) -> Ask:
    """Return how to ask over OpenWire: a request to the management address, with its reply."""

    async def ask(operation: str, *values: object) -> Any:
        asked = Message(json.dumps(values), properties={RESOURCE: "broker", OPERATION: operation, ALONE: True})
        reply = await session.request(f"queue://{ADDRESS}", asked, timeout=patience / SECOND)
        body = reply.body
        if not isinstance(body, str):
            raise Unreachable("it answers, and not as an entrepot broker does")
        headers = {name: _text(value) for name, value in reply.properties.items()}
        return answered(headers, body.encode())

    return ask


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _by_name(rows: list[dict[str, Any]], names: dict[str, str]) -> dict[str, list[str]]:
    """Return broker -> places where it may be, of those that did not answer yet."""
    known = set(names.values())
    found: dict[str, list[str]] = {}
    for row in rows:
        name = str(row.get("peer") or "")
        if name in known or row.get("state") == "stopped":
            continue
        places_of = [_place(str(row[key])) for key in ("place", "peer_url") if row.get(key)]
        key = name or next((one for one in places_of if one), "")
        if not key:
            continue
        kept = found.setdefault(key, [])
        kept += [one for one in places_of if one and one not in kept]
    return found


def _place(text: str) -> str:
    """Return a place to dial, without user and options of whoever else dials it; "" when it is none."""
    try:
        found = parse_uri(text)
    except InvalidURI:
        return ""
    while not isinstance(found, Endpoint):
        if not found.members:
            return ""
        found = found.members[0]
    scheme = "ssl" if "ssl" in found.scheme else "tcp"
    return Endpoint(scheme, found.host, found.port).format() if found.host else ""


patience_option = click.option(
    "--timeout",
    "patience",
    default=3.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds to wait for each broker.",
)
also_option = click.option(
    "--also", multiple=True, metavar="URL", help="Another broker of the network, which no bridge leads to now."
)
alone_option = click.option("--alone", is_flag=True, help="Ask this broker only, not its network.")


async def survey(
    url: str, operation: str, *arguments: object, patience: float, also: tuple[str, ...] = (), alone: bool = False
) -> Survey:
    """Ask ``operation`` of the broker at ``url`` and, unless ``alone``, of its network; ``patience`` in s for each."""
    found = Survey(operation, arguments, int(patience * SECOND))
    try:
        if alone:
            async with asyncio.timeout(patience), managing(url) as desk:
                answer = await desk.ask("broker", operation, *arguments, patience=found.patience)
                found.told.append(answer)
                found.names[answer["node"]] = answer["broker"]
                found.heard(await desk.ask("broker", "describeBridges", patience=found.patience))
        else:
            await found.run(url)
    except TimeoutError:
        raise Unreachable(
            f"the broker did not answer within {patience:g} s", remedy="raise --timeout, or see its log"
        ) from None
    for one in also:
        await found.add(one)
    return found
