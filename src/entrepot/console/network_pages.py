"""The network drawn, and what one link of it carries: as the brokers tell, which are asked side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from entrepot.base.errors import EntrepotError, Refused
from entrepot.console.access import Visitor
from entrepot.console.pages import link as place
from entrepot.console.pages import lives
from entrepot.console.picture import duration, figure, left_out, picture, place_of
from entrepot.console.tables import Table, age
from entrepot.core.operators.together.asker import Asker
from entrepot.management.topology import CLUSTER, KINDS, Link, Topology, Way, topology

if TYPE_CHECKING:
    from entrepot.console.pages import Pages

ROWS: Final = 500  # of one table
OWN: Final = ("ActiveMQ.Advisory.", "$.artemis.internal.", "$sys.", "activemq.notifications", "ID:")
"""How what brokers need for themselves, and answers to one client, are called."""
CARRIED: Final = 100  # queues of one direction: as many as a bridge tells of


class Network:
    """The pages Network and Link of one console."""

    def __init__(self, pages: Pages) -> None:
        self.pages: Final = pages

    def routes(self) -> list[Route]:
        """Return where they are."""
        return [Route("/network", self.pages.page(self.network)), Route("/link", self.pages.page(self.link))]

    async def _seen(self, visitor: Visitor) -> tuple[Topology, Mapping[str, EntrepotError]]:
        watches = self.pages.watches
        sides = await watches.glances(visitor.user, visitor.password)
        moved = {name: (await watches.of(name, visitor.user, visitor.password)).moved for name in sides.views}
        return topology(sides.views, moved, sides.failures, watches.desks.brokers), sides.failures

    async def network(self, request: Request, visitor: Visitor) -> Response:
        """Brokers by zone and the links between them, drawn, and each direction of each link in a row."""
        net, failures = await self._seen(visitor)
        rows = [_direction(one, way) for one in net.links.values() for way in one.ways]
        rows += [_direction(None, way) for way in net.loose]
        rows.sort(key=lambda row: (row["state"] in ("open", "met"), row["broker"], row["other"]))
        table = Table(
            "Links, as each broker tells of them",
            [
                ("other", "To or from", ""),
                ("broker", "Told by", ""),
                ("state", "State", ""),
                ("out", "Sends, a second", "n"),
                ("into", "Gets, a second", "n"),
                ("lag", "Wait, or under way", "n"),
                ("canary", "Answer takes", "n"),
                ("kind", "Kind", ""),
                ("connector", "Name", ""),
                ("demands", "Wanted there", "n"),
                ("error", "Last error", "text"),
            ],
            rows[:ROWS],
            "No broker that answers has links to others.",
            ("other", lambda row: row["href"]),
        )
        missing = left_out(net)
        notes = [f"{missing} are not drawn." if missing else ""]
        notes.append(f"{len(rows) - ROWS:,} more are not shown." if len(rows) > ROWS else "")
        lead = f"{len(net.spots):,} brokers, {len(net.links):,} links. Follow a line to what it carries."
        told = " ".join(f"{name} does not answer: {why}" for name, why in failures.items())
        return self.pages.rows(
            request, visitor, "Network", lead, "", [table], ask=[], picture=picture(net), trouble=told, live=True,
            notes=[note for note in notes if note],
        )  # fmt: skip

    async def link(self, request: Request, visitor: Visitor) -> Response:
        """One link: how it stands, and what each end carries to the other."""
        net, failures = await self._seen(visitor)
        one, other = request.query_params.get("from", ""), request.query_params.get("to", "")
        found = net.between(one, other)
        if found is None:
            away = "" if not failures else f" ({', '.join(failures)} did not answer)"
            raise Refused(f"no link between {one[:80]!r} and {other[:80]!r} is known{away}", remedy="see Network")
        tables = [_standing(found)]
        for sender in found.ends:
            tables += await self._carried(found, sender, visitor, live=lives(request))
        kinds = ", ".join(found.kinds)
        title = f"{found.ends[0]} and {found.ends[1]}"
        return self.pages.rows(
            request, visitor, title, f"{kinds}: {found.state}", "", tables, ask=[], live=True,
            turns=[("To the network", "/network")],
        )  # fmt: skip

    async def _carried(self, found: Link, sender: str, visitor: Visitor, *, live: bool) -> list[Table]:
        """Return what goes from ``sender`` to the other: queues here that the link reads, and queues there it knows."""
        ways = [way for way in found.ways if way.teller == sender]
        if not ways:
            return []
        asker = await self.pages.watches.asker(sender, visitor.user, visitor.password, lives=live)
        wanted = wanted_by(ways)
        asked = json.dumps({"names": list(wanted), "show": "all", "most": CARRIED})
        told = (await asker.ask("broker", "describeQueuePage", asked))["rows"] if wanted else []
        known = {row["name"]: row for row in told}
        theirs = {name: connector for name, connector in wanted.items() if not name.startswith(OWN)}
        tables = [_queues(f"What {sender} carries", sender, theirs, known)]
        if len(theirs) < len(wanted):
            ours = {name: connector for name, connector in wanted.items() if name not in theirs}
            tables.append(
                _queues(f"{len(ours)} more of {sender} that serve the network", sender, ours, known, folded=True)
            )
        for way in ways:
            if way.kind == CLUSTER:
                tables += await self._told(asker, sender, way)
        return tables

    async def _told(self, asker: Asker, sender: str, way: Way) -> list[Table]:
        """Return the queues that another node of a cluster told ``sender`` of."""
        cluster, node = str(way.member.get("cluster", "")), str(way.member.get("node", ""))
        try:
            rows = await asker.ask("broker", "describeRemotes", cluster, node)
        except Refused:  # an older broker, which does not tell them
            return []
        theirs = [row for row in rows if not row["address"].startswith(OWN)]
        tables = [_remotes(f"Queues of {way.other} that {sender} knows", theirs)]
        if len(theirs) < len(rows):
            ours = [row for row in rows if row["address"].startswith(OWN)]
            tables.append(_remotes(f"{len(ours)} more of {way.other} that serve the network", ours, folded=True))
        return tables


def wanted_by(ways: list[Way]) -> dict[str, str]:
    """Return what some ends carry: destination -> by which connector; the first `CARRIED`."""
    found: dict[str, str] = {}
    for way in ways:
        store = str(way.row.get("queue") or "")
        for name in [*way.row.get("demand", ()), *way.row.get("deployed", ()), *([store] if store else [])]:
            found.setdefault(str(name), way.connector)
    return dict(list(found.items())[:CARRIED])


def _direction(found: Link | None, way: Way) -> dict[str, Any]:
    return {
        "href": place("/network") if found is None else place_of(found),
        "other": way.other or "nobody yet",
        "broker": way.teller,
        "kind": KINDS.get(way.kind, way.kind),
        "connector": way.connector,
        "state": way.state,
        "out": figure(way.out) if way.counts else "",
        "into": figure(way.into) if way.counts else "",
        "lag": f"{way.lag:,}" if way.counts or way.member else "",
        "canary": duration(way.canary_us),
        "demands": _wanted(way),
        "error": way.error,
    }


def _wanted(way: Way) -> str:
    if way.member:
        return f"{way.member.get('queues', 0):,} queues, {way.member.get('consumers', 0):,} consumers"
    return f"{way.row['demands']:,}" if "demands" in way.row else ""


def _standing(found: Link) -> Table:
    rows = []
    for way in found.ways:
        row, error = way.row, way.error
        ago = int(row.get("error_ms", -1))
        rows.append(
            {
                **_direction(found, way),
                "since": age(int(row.get("since_ms", -1))) if int(row.get("since_ms", -1)) >= 0 else "",
                "sent": f"{row['sent']:,}" if way.counts else "",
                "received": f"{int(row.get('received') or 0):,}" if way.counts else "",
                "opened": f"{row['connections']:,}" if "connections" in row else "",
                "error": f"{error} ({age(ago)} ago)" if error and ago >= 0 else error,
            }
        )
    return Table(
        "How it stands, as each end tells",
        [
            ("broker", "Told by", ""),
            ("kind", "Kind", ""),
            ("state", "State", ""),
            ("since", "For", "n"),
            ("out", "Sends, a second", "n"),
            ("into", "Gets, a second", "n"),
            ("sent", "Sent", "n"),
            ("received", "Got", "n"),
            ("lag", "Wait, or under way", "n"),
            ("canary", "Answer takes", "n"),
            ("opened", "Times opened", "n"),
            ("connector", "Name", ""),
            ("error", "Last error", "text"),
        ],
        rows,
        "",
    )


def _queues(
    title: str,
    sender: str,
    wanted: Mapping[str, str],
    told: Mapping[str, Mapping[str, Any]],
    *,
    folded: bool = False,
) -> Table:
    """Return what an end carries; what is no queue here (a topic, a pattern, a queue at the other end) has no depth."""
    rows = []
    for name, connector in wanted.items():
        queue = told.get(name)
        rows.append(
            {
                "queue": name,
                "connector": connector,
                "messages": "" if queue is None else f"{queue['messages']:,}",
                "in_flight": "" if queue is None else f"{queue['in_flight']:,}",
                "octets": "" if queue is None else f"{queue['octets']:,}",
                "oldest": age(queue["oldest_ms"]) if queue is not None and queue["waiting"] else "",
                "consumers": "" if queue is None else f"{queue['consumers']:,}",
                "href": place("/explain" if queue is None else "/queue", broker=sender, name=name),
            }
        )
    return Table(
        title,
        [
            ("queue", "Queue or topic", "name"),
            ("connector", "By", ""),
            ("messages", "Messages here", "n"),
            ("in_flight", "In flight", "n"),
            ("octets", "Octets", "n"),
            ("oldest", "Oldest", "n"),
            ("consumers", "Readers here", "n"),
        ],
        rows,
        "Nothing: nobody at the other end wants anything of here, as far as this end knows.",
        ("queue", lambda row: row["href"]),
        folded=folded,
    )


def _remotes(title: str, rows: list[dict[str, Any]], *, folded: bool = False) -> Table:
    return Table(
        title,
        [
            ("queue", "Queue there", "name"),
            ("address", "Address", ""),
            ("consumers", "Consumers", "n"),
            ("distance", "Nodes away", "n"),
            ("reached", "Reached", ""),
        ],
        [{**row, "reached": "yes" if row["connected"] else "not now"} for row in rows],
        "It told of none.",
        folded=folded,
    )
