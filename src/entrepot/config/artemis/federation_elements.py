"""The elements of ``broker.xml`` about federation over CORE, and what becomes of them here (artemis.md 4.12)."""

from __future__ import annotations

from typing import Final

from entrepot.base.settings import Dialect
from entrepot.cluster.federation.options import UpstreamOptions
from entrepot.config.vocabulary import Kind, Slot, no_effect, obeyed, of_options

FEDERATIONS: Final = Slot("federations", ("federations",))
FEDERATION_KINDS: Final = [
    Kind(
        "federations",
        obeyed("downstream-authorization:text"),
        Slot("federation", ("federation",), many=True),
        about="what is wanted here is fetched from other brokers; whose users may deploy such; docs/federation.md",
    ),
    Kind(
        "federation",
        obeyed("name:text user:text password:text"),
        Slot("upstream", ("upstream",), many=True),
        Slot("downstream", ("downstream",), many=True),
        Slot("policy-set", ("policy-set",), many=True),
        Slot("queue-policy", ("queue-policy",), many=True),
        Slot("address-policy", ("address-policy",), many=True),
        Slot("transformer", ("transformer",), many=True),
        about="upstreams that share a name and a user, and policies that they may name",
    ),
    Kind(
        "upstream",
        of_options(UpstreamOptions, dialect=Dialect.ARTEMIS),
        no_effect("one connection tries for all that is wanted", "circuit-breaker-timeout:ms"),
        no_effect("there is one connection for each upstream", "share-connection:flag"),
        no_effect("a call is made anew when its connection is", "call-failover-timeout:ms"),
        Slot("static-connectors", ("static-connectors",)),
        Slot("discovery-group-ref", ("discovery-group-ref",)),
        Slot("policy", ("federation-policy",), many=True),
        about="a broker from which is fetched what its policies mean",
    ),
    Kind(
        "downstream",
        of_options(UpstreamOptions, dialect=Dialect.ARTEMIS),
        obeyed("upstream-connector-ref:text"),
        no_effect("one connection tries for all that is wanted", "circuit-breaker-timeout:ms"),
        no_effect("there is one connection for each downstream", "share-connection:flag"),
        no_effect("a call is made anew when its connection is", "call-failover-timeout:ms"),
        Slot("static-connectors", ("static-connectors",)),
        Slot("discovery-group-ref", ("discovery-group-ref",)),
        Slot("policy", ("federation-policy",), many=True),
        about="a broker that is told to fetch from this one what its policies mean",
    ),
    Kind("federation-policy", obeyed("ref:text"), about="the name of a policy, or of a policy-set"),
    Kind(
        "policy-set",
        obeyed("name:text"),
        Slot("policy", ("federation-policy",), many=True),
        about="several policies, and sets of them, under one name",
    ),
    Kind(
        "queue-policy",
        obeyed("name:text priority-adjustment:number=-1 include-federated:flag=false"),
        obeyed("transformer-ref:text"),
        Slot("include", ("federation-match",), many=True),
        Slot("exclude", ("federation-match",), many=True),
        about="queues that are read at the upstream while they are read here",
    ),
    Kind(
        "address-policy",
        obeyed("name:text auto-delete:flag=true auto-delete-delay:ms=3600000 auto-delete-message-count:number=-1"),
        obeyed("max-hops:number=0 enable-divert-bindings:flag=false"),
        obeyed("transformer-ref:text"),
        Slot("include", ("federation-match",), many=True),
        Slot("exclude", ("federation-match",), many=True),
        about="addresses that are read at the upstream while queues of multicast are bound to them here",
    ),
    Kind(
        "federation-match",
        obeyed("address-match:text queue-match:text"),
        about="one `include` or `exclude`, by the wildcards of addresses; `queue-match` is for queue policies",
    ),
]
