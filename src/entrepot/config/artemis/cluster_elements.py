"""The elements of ``broker.xml`` about clusters, and what becomes of them here (artemis.md 1.3 to 1.8)."""

from __future__ import annotations

from entrepot.config.vocabulary import Attribute, Kind, Slot, no_effect, obeyed, refused


def _group() -> list[Attribute]:
    return obeyed("name:text group-address:text group-port:number local-bind-address:text local-bind-port:number")


def cluster_kinds(content: str) -> list[Kind]:
    """Return the elements; ``content`` is the attribute that stands for the text of an element itself."""
    jgroups = obeyed("jgroups-file:text jgroups-channel:text")
    return [
        Kind("connectors", Slot("connector", ("connector",), many=True), about="names for places that brokers dial"),
        Kind("connector", obeyed(f"name:text {content}:text"), about="where a broker is: `tcp://HOST:PORT?...`"),
        Kind(
            "cluster-connections",
            Slot("cluster-connection", ("cluster-connection",), many=True),
            Slot("cluster-connection-uri", ("cluster-connection-uri",), many=True),
            about="clusters that the broker is in; the first is told to clients",
        ),
        Kind(
            "cluster-connection",
            obeyed(
                "name:text connector-ref:text connection-ttl:ms retry-interval:ms retry-interval-multiplier:decimal",
                "max-retry-interval:ms initial-connect-attempts:number reconnect-attempts:number",
                "notification-interval:ms notification-attempts:number address:text message-load-balancing:text",
                "forward-when-no-consumers:flag max-hops:number min-large-message-size:size check-period:ms",
                "use-duplicate-detection:flag confirmation-window-size:size producer-window-size:size",
                "client-id:text call-timeout:ms",
            ),
            no_effect("a call is made anew when its connection is", "call-failover-timeout:ms"),
            no_effect("every connector is dialled until it answers, for ever", "topology-scanner-attempts:number"),
            no_effect("Artemis does not read it either", "scale-down-connector:text"),
            refused("it belongs in <cluster-connection-uri>", "uri:text"),
            Slot("static-connectors", ("static-connectors",)),
            Slot("discovery-group-ref", ("discovery-group-ref",)),
            about="this broker as a node of one cluster",
        ),
        Kind(
            "cluster-connection-uri",
            obeyed("name:text address:text"),
            about="the same in one line: `static://(tcp://HOST:PORT,...)?connectorName=NAME&...`, "
            "or `multicast://DISCOVERY-GROUP?...`",
        ),
        Kind(
            "static-connectors",
            obeyed("allow-direct-connections-only:flag"),
            Slot("connector-ref", ("connector-ref",), many=True),
            about="whom to dial first; the others are learnt from them",
        ),
        Kind("connector-ref", obeyed(f"{content}:text"), about="the name of a connector"),
        Kind("discovery-group-ref", obeyed("discovery-group-name:text"), about="whom to dial is heard in that group"),
        Kind(
            "broadcast-groups", Slot("broadcast-group", ("broadcast-group",), many=True), about="announces this broker"
        ),
        Kind(
            "broadcast-group",
            _group(),
            obeyed("broadcast-period:ms"),
            jgroups,
            Slot("connector-ref", ("connector-ref",), many=True),
            about="says again and again over UDP where this broker is",
        ),
        Kind("discovery-groups", Slot("discovery-group", ("discovery-group",), many=True), about="finds other brokers"),
        Kind(
            "discovery-group",
            _group(),
            obeyed("refresh-timeout:ms"),
            no_effect("a broker listens for as long as it runs", "initial-wait-timeout:ms"),
            jgroups,
            about="hears over UDP where brokers are",
        ),
        Kind(
            "grouping-handler",
            obeyed("name:text type:text address:text timeout:ms=5000 group-timeout:ms=-1 reaper-period:ms=30000"),
            about="all nodes of a cluster bring a message group to one queue: LOCAL on one node, REMOTE on the others",
        ),
    ]


SLOTS = (
    Slot("connectors", ("connectors",)),
    Slot("cluster-connections", ("cluster-connections",)),
    Slot("broadcast-groups", ("broadcast-groups",)),
    Slot("discovery-groups", ("discovery-groups",)),
    Slot("grouping-handler", ("grouping-handler",)),
)
"""What ``<core>`` holds of them."""
