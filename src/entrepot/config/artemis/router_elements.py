"""The elements of ``broker.xml`` about connection routers, and what becomes of them here (artemis.md 4.14)."""

from __future__ import annotations

from typing import Final

from entrepot.config.vocabulary import Does, Kind, Slot, obeyed

MODULO: Final = "CONSISTENT_HASH_MODULO"
POLICIES: Final = ("CONSISTENT_HASH", MODULO, "FIRST_ELEMENT", "LEAST_CONNECTIONS", "ROUND_ROBIN")

ROUTERS: Final = Slot("connection-routers", ("connection-routers",))
ROUTER_KINDS: Final = [
    Kind(
        "connection-routers",
        Slot("connection-router", ("connection-router",), many=True),
        about="which broker serves a client; an acceptor names one by `router=NAME`",
    ),
    Kind(
        "connection-router",
        obeyed("name:text key-type:text key-filter:text local-target-filter:text"),
        Slot("policy", ("policy",)),
        Slot("cache", ("cache",)),
        Slot("pool", ("pool",)),
        Slot("key-transformer", does=Does.REFUSED, why="a Java class cannot be loaded here"),
        about="one router: what tells clients apart, and how a broker is chosen for each",
    ),
    Kind("policy", obeyed("name:text"), Slot("property", ("property",), many=True), about=", ".join(POLICIES)),
    Kind("property", obeyed("key:text value:text"), about="a property of a policy, or of a plugin"),
    Kind("cache", obeyed("persisted:flag=false timeout:ms=0"), about="which broker a key went to; timeout 0: for ever"),
    Kind(
        "pool",
        obeyed("username:text password:text check-period:ms=5000 quorum-size:number=1 quorum-timeout:ms=3000"),
        obeyed("local-target-enabled:flag=false cluster-connection:text"),
        Slot("static-connectors", ("static-connectors",)),
        Slot("discovery-group-ref", ("discovery-group-ref",)),
        about="the brokers to choose from, and as whom they are looked at",
    ),
]
