"""What programs ask for: Jolokia of both families, metrics, health, XML feeds of Classic, messages over HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import quoteattr

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from entrepot.base.errors import AccessDenied, EntrepotError, Refused
from entrepot.console.access import Visitor, audit
from entrepot.console.desk import Desk, WholeDesk
from entrepot.console.gate import Gate, address_of, refusal, tool
from entrepot.console.jolokia.answering import Beans, answer, failure
from entrepot.console.jolokia.artemis import ArtemisBeans
from entrepot.console.jolokia.classic import ClassicBeans
from entrepot.console.jolokia.requests import JolokiaRequest, decoded, echoed, of_body, of_path
from entrepot.console.jolokia.world import World
from entrepot.console.numbers import count
from entrepot.console.scraping import Scrape, Scrapes
from entrepot.console.watch import Watches
from entrepot.core.operators.together.whole import LOOKS
from entrepot.core.operators.views import QueueView

PLAIN_TYPE: Final = "text/plain; charset=utf-8"  # where `mimeType` asks for it; jolokia.js takes such answers for texts
READ_MOST: Final = 30.0  # s that a GET of a message may wait
READY_KEPT: Final = 1.0  # s for which one answer about being ready holds


class Tools:
    """The endpoints for programs."""

    def __init__(self, gate: Gate, watches: Watches, service: tuple[str, str], *, read_only: bool) -> None:
        """``service``: name and password for metrics where the scraper gives none, ("", "") for nobody."""
        self.gate: Final = gate
        self.watches: Final = watches
        self.service: Final = service
        self.read_only: Final = read_only
        self.scrapes: Final = Scrapes(watches)
        self._ready: tuple[float, dict[str, str]] = (0.0, {})

    def routes(self) -> list[Route]:
        """Return where they are."""
        found = [
            Route("/health/live", self.live),
            Route("/health/ready", self.ready),
            Route("/metrics", self.metrics),
            Route("/metrics/detailed", self.metrics),
        ]
        for place, family in (("/api/jolokia", "classic"), ("/console/jolokia", "artemis"), ("/jolokia", "artemis")):
            endpoint = tool(self.gate, self._jolokia(family, place))
            found += [Route(f"{place}{tail}", endpoint, methods=["GET", "POST"]) for tail in ("", "/{path:path}")]
        message = tool(self.gate, self.message)
        found.append(Route("/api/message/{name:path}", message, methods=["GET", "POST", "PUT", "DELETE"]))
        found.append(Route("/api/message", message, methods=["GET", "POST", "PUT", "DELETE"]))
        for name in ("queues", "topics", "subscribers"):
            found.append(Route(f"/admin/xml/{name}.jsp", tool(self.gate, self._feed(name))))
        return found

    # -- health and metrics --------------------------------------------------------------------------------------------

    async def live(self, request: Request) -> Response:
        """Say that the console runs."""
        return PlainTextResponse("live\n")

    async def ready(self, request: Request) -> Response:
        """Say whether each broker serves; one that wants a password does."""
        at, found = self._ready
        if time.monotonic() - at > READY_KEPT:
            names = list(self.watches.desks.brokers)
            states = await asyncio.gather(*(self._serves(name) for name in names))
            found = dict(zip(names, states, strict=True))
            self._ready = (time.monotonic(), found)
        well = all(state == "ready" for state in found.values())
        return JSONResponse({"ready": well, "brokers": found}, 200 if well else 503)

    async def _serves(self, name: str) -> str:
        try:
            await self.watches.desks.at(name, *self.service)
        except AccessDenied:
            return "ready"
        except EntrepotError as error:
            return error.message
        return "ready"

    async def metrics(self, request: Request) -> Response:
        """Return the metrics of all brokers."""
        detailed = request.url.path.endswith("detailed")
        try:
            if request.headers.get("authorization") is not None or not self.service[0]:
                visitor = await self.gate.visitor(request)
            else:
                visitor = Visitor(*self.service)
            open_metrics = "application/openmetrics-text" in request.headers.get("accept", "")
            scraped = await self.scrapes.of(Scrape(visitor.user, visitor.password, open_metrics, detailed))
        except EntrepotError as error:
            return refusal(error)
        return scraped.response()

    # -- Jolokia -------------------------------------------------------------------------------------------------------

    def _jolokia(self, family: str, place: str) -> Callable[[Request, Visitor], Awaitable[Response]]:
        async def serve(request: Request, visitor: Visitor) -> Response:
            config = dict(request.query_params)
            several = False
            try:
                if request.method == "POST":
                    raws, several = of_body(await request.body(), config)
                else:
                    path = decoded(request.scope.get("raw_path", b"").decode("ascii", "replace").partition("?")[0])
                    raws = [of_path(config.get("p") or path.removeprefix(place))]
            except EntrepotError as error:
                return _json([failure(error, None)], False, config)
            desk = await self._whole(request, visitor)
            answers, world = [], World(desk)
            for raw in raws:
                told, changed = await self._one(request, visitor, desk, world, family, raw, config)
                answers.append(told)
                world = World(desk) if changed else world
            return _json(answers, several, config)

        return serve

    async def _one(
        self,
        request: Request,
        visitor: Visitor,
        desk: Desk | WholeDesk,
        world: World,
        family: str,
        raw: dict[str, Any],
        config: dict[str, Any],
    ) -> tuple[dict[str, Any], bool]:
        """Return the answer to one request, and whether it may have changed what the next ones see."""
        try:
            asked = JolokiaRequest(raw, config)
            changes = asked.type == "write" or (asked.type == "exec" and not LOOKS.match(asked.operation))
            if changes:
                self._may_change(request, visitor)
        except EntrepotError as error:
            return failure(error, echoed(raw)), False
        beans: Beans = ClassicBeans(world, desk.send)
        if family == "artemis":
            beans = ArtemisBeans(world, desk.send, asked.attributes if asked.type == "read" else None)
        told = await answer(asked, beans)
        if changes:
            about = {"mbean": asked.mbean, "operation": asked.operation or asked.attribute}
            if asked.type == "write":
                about["value"] = str(asked.raw.get("value"))[:100]
            about["status"] = told["status"]
            said = told.get("error", told.get("value"))
            audit(visitor.user, address_of(request), desk.url, asked.type, about, None, said)
        return told, changes

    def _may_change(self, request: Request, visitor: Visitor) -> None:
        """See that who asks may change something. Raises AccessDenied."""
        if self.read_only:
            raise AccessDenied("this console only looks", remedy="start it without --read-only")
        self.gate.of_changes(visitor)
        if request.headers.get("authorization") is None and visitor.user:  # a session: its cookie goes with any request
            self.gate.of_pages(request, visitor, request.headers.get("x-csrf-token", ""))

    async def _desk(self, request: Request, visitor: Visitor) -> Desk:
        names = list(self.watches.desks.brokers)
        name = request.query_params.get("broker") or names[0]
        return await self.watches.desks.at(name, visitor.user, visitor.password)

    async def _whole(self, request: Request, visitor: Visitor) -> Desk | WholeDesk:
        """Return who answers Jolokia: of a broker that has several processes all, unless one is named."""
        if request.query_params.get("broker"):
            return await self._desk(request, visitor)
        name = next(iter(self.watches.desks.brokers))
        return await self.watches.desks.whole(name, visitor.user, visitor.password)

    # -- messages ------------------------------------------------------------------------------------------------------

    async def message(self, request: Request, visitor: Visitor) -> Response:
        """Send with POST or PUT, take one message with GET or DELETE, as ActiveMQ's servlet does."""
        query = dict(request.query_params)
        name = request.path_params.get("name") or query.get("destination", "")
        kind = query.get("type", "queue")
        if "://" in name:
            kind, _, name = name.partition("://")
        if not name or kind not in ("queue", "topic"):
            raise Refused("no destination is named", remedy="ask for /api/message/NAME?type=queue")
        self._may_change(request, visitor)
        desk = await self._desk(request, visitor)
        place = f"{kind}://{name}"
        error: EntrepotError | None = None
        said = "done"
        try:
            if request.method in ("POST", "PUT"):
                return await _post(request, desk, place, query)
            patience = min(READ_MOST, _milliseconds(query.get("readTimeout", "20000")) / 1000)
            got = await desk.receive(place, request.headers.get("selector", query.get("selector", "")), patience)
            said = "done" if got is not None else "nothing came"
        except EntrepotError as failed:
            error = failed
            raise
        finally:
            audit(
                visitor.user,
                address_of(request),
                desk.url,
                f"message {request.method}",
                {"place": place},
                error,
                said,
            )
        if got is None:
            return Response(status_code=204)
        body, facts = got
        headers = {"destination": _header(place), "id": _header(str(facts.pop("id", "")))}
        text = isinstance(body, str)
        return Response(body, 200, headers, "text/plain; charset=utf-8" if text else "application/octet-stream")

    # -- feeds ---------------------------------------------------------------------------------------------------------

    def _feed(self, name: str) -> Callable[[Request, Visitor], Awaitable[Response]]:
        async def serve(request: Request, visitor: Visitor) -> Response:
            desk = await self._desk(request, visitor)
            beans = ClassicBeans(World(desk), desk.send)
            lines = await {"queues": _queues_xml, "topics": _topics_xml, "subscribers": _subscribers_xml}[name](beans)
            return Response("\n".join([f"<{name}>", *lines, f"</{name}>", ""]), media_type="text/xml; charset=utf-8")

        return serve


async def _post(request: Request, desk: Desk, place: str, query: dict[str, str]) -> Response:
    body = (await request.body()).decode("utf-8", "replace")
    given = {name: value for name, value in query.items() if name not in ("type", "destination", "broker")}
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        form = dict(parse_qsl(body, keep_blank_values=True))
        if "body" in form or "JMSDeliveryMode" in form:
            body = form.pop("body", "")
            given |= {name: value for name, value in form.items() if name not in ("type", "destination")}
    headers: dict[str, Any] = {
        "correlation_id": given.pop("JMSCorrelationID", None),
        "type": given.pop("JMSType", None),
        "reply_to": given.pop("JMSReplyTo", None),
        "priority": _milliseconds(given.pop("JMSPriority", "4")),
        "time_to_live": _milliseconds(given.pop("JMSTimeToLive", "0")) / 1000,
        "persistent": given.pop("JMSDeliveryMode", "persistent").lower() == "persistent",
    }
    await desk.send(place, body, given, headers)
    return PlainTextResponse("Message sent")


def _milliseconds(text: str) -> int:
    found = count(text, 10**12)
    if found is None:
        raise Refused(f"{text[:40]!r} is no number")
    return found


def _header(text: str) -> str:
    return text.encode("ascii", "replace").decode().replace("\r", "?").replace("\n", "?")


def _json(answers: list[dict[str, Any]], several: bool, config: dict[str, Any]) -> Response:
    body = json.dumps(answers if several else answers[0], default=str)
    kind = PLAIN_TYPE if config.get("mimeType") == "text/plain" else "application/json"  # as Jolokia 2 decides it
    return Response(body, media_type=kind)


async def _queues_xml(beans: ClassicBeans) -> list[str]:
    lines = []
    for queue in await beans.world.queues():
        if queue.routing == "ANYCAST" and not queue.temporary:
            lines += [f"<queue name={quoteattr(queue.address)}>", _stats(queue), "</queue>"]
    return lines


def _stats(queue: QueueView) -> str:
    return (
        f'<stats size="{queue.messages}" consumerCount="{queue.consumers}" enqueueCount="{queue.accepted}" '
        f'dequeueCount="{queue.settled}"/>'
    )


async def _topics_xml(beans: ClassicBeans) -> list[str]:
    from entrepot.console.jolokia.names import ObjectName  # noqa: PLC0415

    lines = []
    pattern = ObjectName.parse("org.apache.activemq:destinationType=Topic,destinationName=*,*")
    for bean in await beans.find(pattern):
        read = bean.attributes
        if "Name" not in read or "endpoint" in bean.name.properties:
            continue
        words = {
            "size": "QueueSize",
            "consumerCount": "ConsumerCount",
            "enqueueCount": "EnqueueCount",
            "dequeueCount": "DequeueCount",
        }
        stats = " ".join(f'{word}="{read[name]()}"' for word, name in words.items())
        lines += [f"<topic name={quoteattr(str(read['Name']()))}>", f"<stats {stats}/>", "</topic>"]
    return lines


async def _subscribers_xml(beans: ClassicBeans) -> list[str]:
    from entrepot.console.jolokia.names import ObjectName  # noqa: PLC0415

    lines = []
    for bean in await beans.find(ObjectName.parse("org.apache.activemq:endpoint=Consumer,destinationType=Topic,*")):
        said = {name: read() for name, read in bean.attributes.items()}
        if not said["Durable"]:
            continue
        head = {
            "clientId": said["ClientId"],
            "subscriptionName": said["SubscriptionName"],
            "connectionId": said["ConnectionId"],
        }
        head |= {
            "destinationName": said["DestinationName"],
            "selector": said["Selector"],
            "active": str(said["Active"]).lower(),
        }
        words = {"pendingQueueSize": "PendingQueueSize", "dispatchedQueueSize": "DispatchedQueueSize"}
        words |= {"dispatchedCounter": "DispatchedCounter", "enqueueCounter": "EnqueueCounter"}
        words |= {"dequeueCounter": "DequeueCounter"}
        title = " ".join(f"{word}={quoteattr(str(value or ''))}" for word, value in head.items())
        stats = " ".join(f'{word}="{said[name]}"' for word, name in words.items())
        lines += [f"<subscriber {title}>", f"<stats {stats}/>", "</subscriber>"]
    return lines
