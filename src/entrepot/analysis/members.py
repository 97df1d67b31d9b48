"""From the configuration of one broker to a `Member`: what it declares towards others, in terms of both families."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from entrepot.analysis.bridges import bridges
from entrepot.analysis.clusters import Cluster
from entrepot.analysis.model import (
    OPENWIRE,
    WEB,
    Accounts,
    Address,
    Channel,
    Listener,
    Member,
    Order,
    Replay,
    Spot,
)
from entrepot.base.errors import AccessDenied, InvalidOption, InvalidURI
from entrepot.base.settings import Dialect
from entrepot.base.uri import NO_PORT, Composite, Endpoint, parse
from entrepot.cluster.networks.discovery import parse_connector
from entrepot.cluster.networks.options import Compared
from entrepot.config.model import BrokerConfig, NetworkConnector
from entrepot.config.peering import ListenerEntry, Position
from entrepot.config.security import protect
from entrepot.core.addressing.routing import RoutingTable
from entrepot.core.security.access import Access
from entrepot.core.security.directory import Subject
from entrepot.model.address import MULTICAST, Destination
from entrepot.protocols.announcement import MULTICAST_HOST, MULTICAST_PORT
from entrepot.protocols.openwire.negotiation import UNLIMITED, WireFormatOptions

CONSUMER_ADVISORIES: Final = "ActiveMQ.Advisory.Consumer.>"
LAYERS: Final = ("tcp", "nio", "ssl", "unix")
FAILOVER: Final = "failover"
PORT: Final = 61616
WEB_PORTS: Final = {"http": 80, "https": 443}


def member_of(config: BrokerConfig, file: str, host: str = "") -> Member:
    """Return the broker that ``config`` describes. ``file``: as findings call it; ``host``: its machine, if known."""
    if config.family is Dialect.ARTEMIS:
        return _of_artemis(config, file, host)
    peering = config.peering
    return Member(
        name=config.broker.name,
        file=file,
        spot=_spot(file, peering.at),
        host=host,
        store=config.store.directory,
        shares_store=config.sharing is not None,
        chose_store=peering.chose_store,
        advisories=peering.advisories,
        virtual_topics=bool(config.virtual_topics),
        virtual_demand=config.broker.virtual_subscriptions,
        selectors=peering.selectors,
        accounts=_accounts(config, file),
        replays=tuple(
            Replay(pattern=one.pattern, audited=one.audited, spot=_spot(file, one.at)) for one in peering.replays
        ),
        listeners=tuple(found for one in peering.listeners for found in _listener(one, file)),
        channels=tuple(_channel(one, file) for one in config.networks),
    )


def _of_artemis(config: BrokerConfig, file: str, host: str) -> Member:
    """Return what others may dial, the cluster that it belongs to, and its bridges."""
    cluster = Cluster(config, file)
    clustering = cluster.clustering()
    announced = () if clustering is None else tuple(group.place for group in clustering.broadcasts)
    return Member(
        name=config.broker.name,
        file=file,
        spot=_spot(file, config.peering.at),
        host=host,
        store=config.store.directory,
        shares_store=config.sharing is not None,
        virtual_topics=False,
        listeners=tuple(cluster.listeners(config.connectors, announced)),
        channels=(*cluster.channels(clustering), *bridges(cluster, config.queues)),
        clustering=clustering,
        part=cluster.part(),
        bound=tuple((queue.name, queue.address) for queue in config.queues),
        orders=tuple(
            Order(divert.address, target.name, bool(divert.selector))
            for divert in config.diverts
            for target in divert.targets
        ),
        issues=tuple(cluster.issues),
    )


def _spot(file: str, at: Position) -> Spot:
    return Spot(file, at.line, at.path)


def _listener(entry: ListenerEntry, file: str) -> Iterator[Listener]:
    try:
        place = parse(entry.uri)
    except InvalidURI:
        return
    if not isinstance(place, Endpoint) or place.scheme in ("vm", "peer"):
        return
    protocols = [word for word in place.scheme.split("+") if word not in LAYERS]
    yield Listener(
        name=entry.name,
        host=place.host,
        port=place.port,
        protocol="+".join(protocols) or OPENWIRE,
        secure=place.secure,
        audits=entry.audits,
        tells_clients=entry.tells_clients,
        groups=tuple(_groups(entry.discovery)),
        frame_max=_frame_max(place),
        spot=_spot(file, entry.at),
    )


def _channel(one: NetworkConnector, file: str) -> Channel:
    options = one.options
    targets, groups, scheme, nested = _found_by(options.uri)
    return Channel(
        name=options.name,
        spot=_spot(file, one.at),
        uri=options.uri,
        scheme=scheme,
        targets=targets,
        groups=groups,
        nested_failover=nested,
        duplex=options.duplex,
        conduit=options.conduit_subscriptions,
        dynamic_only=options.dynamic_only,
        static_only=options.static,
        temporary=options.bridge_temporary,
        message_ttl=options.message_ttl,
        consumer_ttl=options.consumer_ttl,
        decreases_priority=options.decrease_priority,
        suppresses_queues=options.suppress_duplicate_queues,
        suppresses_topics=options.suppress_duplicate_topics,
        virtual_demand=options.use_virtual_destination_subscriptions,
        checks_duplicates=options.check_duplicates_on_duplex is not Compared.NONE,
        syncs_durables=options.sync_durable_subscriptions,
        always_sync=options.always_sync_send,
        destination_filter=options.destination_filter,
        user=options.user,
        password=options.password,
        remote_user=options.remote_user,
        remote_password=options.remote_password,
        excluded=one.excluded,
        included=one.dynamically_included,
        static=one.statically_included,
        given=one.given,
    )


def _accounts(config: BrokerConfig, file: str) -> Accounts | None:
    """Return who may connect; None where everybody may."""
    entry = config.peering.accounts
    if entry is None:
        return None
    return Accounts(
        users=dict(entry.users),
        deaf=_deaf(config) if entry.complete else (),
        anonymous=entry.anonymous,
        complete=entry.complete,
        spot=_spot(file, entry.at),
    )


def _deaf(config: BrokerConfig) -> tuple[str, ...]:
    """Return the users who may not read advisories about consumers: the very code decides that a broker runs."""
    security = config.security
    if not security.users or security.rules is None:
        return ()
    access = Access(RoutingTable(), {})
    try:
        protect(security, access)
    except InvalidOption:
        return ()
    heard = [Destination(CONSUMER_ADVISORIES, MULTICAST)]
    found = []
    for user in security.users:
        try:
            access.consume(Subject(user.name, user.groups), heard, durable=False)
        except AccessDenied:
            found.append(user.name)
    return tuple(found)


def _groups(text: str) -> Iterator[str]:
    """Yield the multicast group that a discovery URI names."""
    try:
        place = parse(text) if text else None
    except InvalidURI:
        return
    if isinstance(place, Endpoint) and place.scheme in ("multicast", "zeroconf", "rendezvous"):
        yield _group(place)


def _group(place: Endpoint) -> str:
    host = place.host or place.path or "default"
    if place.scheme == "multicast" and host == MULTICAST_HOST and place.port in (NO_PORT, MULTICAST_PORT):
        host = "default"
    return f"{place.scheme}://{host}?group={place.options.get('group', 'default')}"


def _frame_max(place: Endpoint) -> int:
    """Return how large a frame this place takes, 0 where that cannot be read."""
    try:
        options = WireFormatOptions.of(place)
    except InvalidOption:  # the reader has said so
        return 0
    return options.max_frame_size if options.max_frame_size_enabled else UNLIMITED


def _found_by(text: str) -> tuple[tuple[tuple[Address, ...], ...], tuple[str, ...], str, bool]:
    """Return targets, groups, the scheme, and whether a target is a nested ``failover:`` that hides changes."""
    try:
        found = parse(text)
    except InvalidURI:
        return (), (), "", False
    while isinstance(found, Composite) and found.scheme in ("discovery", "fanout") and len(found.members) == 1:
        found = found.members[0]
    groups = tuple(_groups(found.format())) if isinstance(found, Endpoint) else ()
    nested = isinstance(found, Composite) and any(
        isinstance(one, Composite) and one.scheme == FAILOVER and one.options.get("maxReconnectAttempts") != "0"
        for one in found.members
    )
    try:
        targets = () if groups else parse_connector(text).targets
    except (InvalidURI, InvalidOption):
        return (), groups, found.scheme, nested
    made = tuple(
        tuple(
            Address(host=place.host, port=_port(place), secure=place.secure, web=place.scheme in WEB)
            for place in target.places
        )
        for target in targets
    )
    scheme = found.scheme if isinstance(found, Composite) or groups else "static"
    return made, groups, scheme, nested


def _port(place: Endpoint) -> int:
    return place.port if place.port > 0 else WEB_PORTS.get(place.scheme, PORT)
