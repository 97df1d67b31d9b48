"""The octets by which a broker deploys an upstream to another one: FEDERATION_DOWNSTREAM_CONNECT (artemis.md 5.2.5).

A description is as Artemis 2.42 writes it: the federation, its policies and transformers by their Java classes, how the
connection back is made, and where it leads. Who reads one takes of the connector its host, its port and whether it is
TLS: other parameters are files and secrets of another machine. `max-retry-interval` is not told: Artemis writes the
wait between two attempts in its place.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from entrepot.base.environment import MILLISECOND, Duration
from entrepot.base.errors import Refused
from entrepot.base.uri import Endpoint
from entrepot.cluster.carrying.terms import FOREVER
from entrepot.cluster.federation.options import (
    HOUR_MS,
    LOWER,
    AddressPolicy,
    DownstreamEntry,
    Match,
    QueuePolicy,
    UpstreamEntry,
    UpstreamOptions,
)
from entrepot.model.headers import ADD_HEADERS, headers_of
from entrepot.protocols.artemis.primitives import (
    FACTORY,
    PARAMETER_TEXT,
    Connector,
    PacketReader,
    PacketWriter,
    Parameter,
)
from entrepot.protocols.artemis.schema import VERSION_MAX

OCTETS_MAX: Final = 256 * 1024
PARTS_MAX: Final = 1_000
"""Policies, names in sets, and patterns, of one description: each queue here is compared with all patterns."""
SUFFIX: Final = "-upstream"  # after the names of what is deployed, as Artemis has it
NAME_MAX: Final = 255
PORT_MAX: Final = 65_535
MOST_MS: Final = 1 << 42  # of a time that another broker says: a century
WAIT_MS: Final = 100  # least between two attempts, whatever another broker says
CALL_MS: Final = 1_000  # least that an upstream has for its greeting
CONFIG: Final = "org.apache.activemq.artemis.core.config.federation."
OF_QUEUES: Final = CONFIG + "FederationQueuePolicyConfiguration"
OF_ADDRESSES: Final = CONFIG + "FederationAddressPolicyConfiguration"
OF_SETS: Final = CONFIG + "FederationPolicySet"
SECURE: Final = "sslEnabled"

Policy = QueuePolicy | AddressPolicy
T = TypeVar("T")


def described(entry: DownstreamEntry) -> bytes:
    """Return what ``entry`` deploys. Raises Inexpressible."""
    target = PacketWriter(VERSION_MAX)
    options = entry.options
    target.text(entry.federation)
    target.boolean(True)
    target.nullable_text(options.user or None)
    target.nullable_text(options.password or None)
    policies: list[Policy] = [*entry.queues, *entry.addresses]
    target.int32(len(policies))
    for policy in policies:
        if isinstance(policy, QueuePolicy):
            _write_queue_policy(target, policy)
        else:
            _write_address_policy(target, policy)
    transformed = [policy for policy in policies if policy.headers]
    target.int32(len(transformed))
    for policy in transformed:
        _write_transformer(target, policy)
    target.text(options.name)
    _write_terms(target, options)
    target.int32(len(policies))
    for policy in policies:
        target.text(policy.name)
    target.connector(_connector(entry))
    return target.out.getvalue()


def understood(octets: bytes) -> UpstreamEntry:
    """Return the upstream that is asked for. Raises MalformedFrame, InvalidOption, Refused."""
    if len(octets) > OCTETS_MAX:
        raise Refused(f"{len(octets)} octets describe it: {OCTETS_MAX} are the most")
    reader = _Reader(PacketReader(octets, 0, len(octets), VERSION_MAX))
    return reader.upstream()


# -- written -----------------------------------------------------------------------------------------------------------


def _write_transformer(target: PacketWriter, policy: Policy) -> None:
    target.text(policy.name)
    target.text(ADD_HEADERS)
    target.int32(len(policy.headers))
    for key, value in policy.headers:
        target.text(key)
        target.text(value)


def _write_queue_policy(target: PacketWriter, policy: QueuePolicy) -> None:
    target.text(OF_QUEUES)
    target.text(policy.name)
    target.boolean(policy.federated)
    target.nullable_int32(policy.priority)
    target.nullable_text(policy.name if policy.headers else None)
    for matches in (policy.includes, policy.excludes):
        target.int32(len(matches))
        for match in matches:
            target.nullable_text(match.address or None)
            target.nullable_text(match.queue or None)


def _write_address_policy(target: PacketWriter, policy: AddressPolicy) -> None:
    target.text(OF_ADDRESSES)
    target.text(policy.name)
    target.nullable_boolean(policy.auto_delete)
    target.nullable_int64(policy.auto_delete_delay_ms)
    target.nullable_int64(policy.auto_delete_messages)
    target.int32(policy.max_hops)
    target.nullable_text(policy.name if policy.headers else None)
    for matches in (policy.includes, policy.excludes):
        target.int32(len(matches))
        for match in matches:
            target.text(match.address)
    target.boolean(policy.diverts)


def _write_terms(target: PacketWriter, options: UpstreamOptions) -> None:
    target.nullable_text(options.user or None)
    target.nullable_text(options.password or None)
    target.boolean(False)  # share-connection
    target.int32(options.priority)
    target.int64(_ms(options.check_period))
    target.int64(_ms(options.ttl))
    target.int64(_ms(options.retry_interval))
    (multiplier,) = struct.unpack(">q", struct.pack(">d", options.retry_multiplier))
    target.int64(multiplier)
    target.int64(_ms(options.retry_interval))
    target.int32(options.attempts_first)
    target.int32(options.attempts)
    target.int64(_ms(options.call_timeout))
    target.int64(_ms(options.call_timeout))


def _connector(entry: DownstreamEntry) -> Connector:
    place = entry.back
    said = [
        Parameter("host", PARAMETER_TEXT, place.host),
        Parameter("port", PARAMETER_TEXT, str(place.port)),
    ]
    if place.options.get(SECURE, "").lower() == "true":
        said.append(Parameter(SECURE, PARAMETER_TEXT, "true"))
    return Connector(entry.connector, FACTORY, said)


def _ms(time: Duration) -> int:
    return time if time < 0 else time // MILLISECOND


# -- read --------------------------------------------------------------------------------------------------------------


class _Terms(Struct, kw_only=True):
    """How the connection back is made, as it is told."""

    user: str
    password: str
    priority: int
    times: list[int]  # ms: check period, time to live, wait, call
    multiplier: float
    attempts: tuple[int, int]


class _Reader:
    """Reads one description."""

    def __init__(self, source: PacketReader) -> None:
        self.source: Final = source
        self.policies: Final[dict[str, Policy]] = {}
        self.sets: Final[dict[str, list[str]]] = {}
        self.transformed: Final[dict[str, str]] = {}  # policy -> transformer
        self.transformers: Final[dict[str, tuple[str, dict[str, str]]]] = {}  # name -> class, properties
        self._parts = 0

    def upstream(self) -> UpstreamEntry:
        source = self.source
        federation = _name(source.text(), "federation")
        user = password = ""
        if source.boolean():
            user, password = source.nullable_text() or "", source.nullable_text() or ""
        self._many(self._policy)
        self._many(self._transformer)
        name = _name(source.text(), "downstream")
        terms = self._terms()
        refs = self._many(source.text)
        place = _place(source.connector())
        check, ttl, wait, call = terms.times
        if not terms.user:
            terms.user, terms.password = user, terms.password or password
        elif terms.user == user:
            terms.password = terms.password or password
        options = UpstreamOptions(
            name=name + SUFFIX,
            user=terms.user,
            password=terms.password,
            priority=terms.priority,
            retry_interval=_time(max(wait, WAIT_MS)),
            retry_interval_max=_time(max(wait, WAIT_MS)),
            retry_multiplier=terms.multiplier if terms.multiplier > 1.0 else 1.0,
            attempts_first=max(terms.attempts[0], FOREVER),
            attempts=max(terms.attempts[1], FOREVER),
            check_period=_time(check),
            ttl=_time(ttl),
            call_timeout=_time(max(call, CALL_MS)),
        )
        wanted = self._wanted(refs)
        return UpstreamEntry(
            federation=federation + SUFFIX,
            options=options,
            places=(place,),
            queues=tuple(one for one in wanted if isinstance(one, QueuePolicy)),
            addresses=tuple(one for one in wanted if isinstance(one, AddressPolicy)),
            brought=f"{place.host}:{place.port}",
        )

    def _many(self, read: Callable[[], T]) -> list[T]:
        """Read a number, and as many things. Raises Refused for too many in all."""
        count = self.source.count(1)
        self._parts += count
        if self._parts > PARTS_MAX:
            raise Refused(f"more than {PARTS_MAX} policies and patterns describe it")
        return [read() for _ in range(count)]

    def _policy(self) -> None:
        kind = self.source.text()
        read = {OF_QUEUES: self._queue_policy, OF_ADDRESSES: self._address_policy, OF_SETS: self._set}.get(kind)
        if read is None:
            raise Refused(f"its policies are of an unknown kind, {kind}")
        read()

    def _queue_policy(self) -> None:
        source = self.source
        name = source.text()
        federated = source.boolean()
        priority = source.nullable_int32()
        self._transforms(name, source.nullable_text())
        self.policies[name] = QueuePolicy(
            name=name,
            priority=LOWER if priority is None else int(priority),
            federated=federated,
            includes=tuple(self._many(self._match)),
            excludes=tuple(self._many(self._match)),
        )

    def _address_policy(self) -> None:
        source = self.source
        name = source.text()
        auto_delete = source.nullable_boolean()
        delay, count = source.nullable_int64(), source.nullable_int64()
        hops = int(source.int32())
        self._transforms(name, source.nullable_text())
        includes, excludes = self._many(source.text), self._many(source.text)
        self.policies[name] = AddressPolicy(
            name=name,
            max_hops=max(hops, -1),
            auto_delete=auto_delete is not False,
            auto_delete_delay_ms=HOUR_MS if delay is None else int(delay),
            auto_delete_messages=-1 if count is None else int(count),
            includes=tuple(Match(address=one) for one in includes),
            excludes=tuple(Match(address=one) for one in excludes),
            diverts=source.boolean(),
        )

    def _set(self) -> None:
        name = self.source.text()
        self.sets[name] = self._many(self.source.text)

    def _match(self) -> Match:
        source = self.source
        return Match(address=source.nullable_text() or "", queue=source.nullable_text() or "")

    def _transforms(self, policy: str, transformer: str | None) -> None:
        if transformer:
            self.transformed[policy] = transformer

    def _transformer(self) -> None:
        source = self.source
        name, class_name = source.text(), source.text()
        self.transformers[name] = (class_name, dict(self._many(lambda: (source.text(), source.text()))))

    def _terms(self) -> _Terms:
        source = self.source
        user, password = source.nullable_text() or "", source.nullable_text() or ""
        source.boolean()  # share-connection
        priority = int(source.int32())
        times = [int(source.int64()) for _ in range(3)]
        (multiplier,) = struct.unpack(">d", struct.pack(">q", source.int64()))
        source.int64()  # the wait again
        attempts = (int(source.int32()), int(source.int32()))
        times.append(int(source.int64()))
        source.int64()  # call-failover-timeout
        return _Terms(
            user=user, password=password, priority=priority, times=times, multiplier=multiplier, attempts=attempts
        )

    def _wanted(self, refs: list[str]) -> list[Policy]:
        """Return the policies that are named, those of sets too. Raises Refused: one is missing, or transforms."""
        found: dict[str, Policy] = {}
        left, seen = list(refs), dict[str, None]()
        while left:
            name = left.pop(0)
            if name in seen:
                continue
            seen[name] = None
            if name in self.policies:
                found[name] = self.policies[name]
            elif name in self.sets:
                left += self.sets[name]
            else:
                raise Refused(f"there is no policy {name!r} in it")
        return [self._with_headers(policy) for policy in found.values()]

    def _with_headers(self, policy: Policy) -> Policy:
        """Return ``policy`` with what its transformer sets. Raises Refused for one that cannot run here."""
        name = self.transformed.get(policy.name)
        if name is None:
            return policy
        if name not in self.transformers:
            raise Refused(f"its policy {policy.name} names the transformer {name}, which is not there")
        try:
            return replace(policy, headers=headers_of(*self.transformers[name]))
        except Refused as error:
            raise Refused(f"its policy {policy.name}: {error.message}", remedy=error.remedy) from None


def _name(text: str, what: str) -> str:
    if not text or len(text) > NAME_MAX or "/" in text or not text.isprintable():
        raise Refused(f"a {what} cannot be called {text[:NAME_MAX]!r}")
    return text


def _place(connector: Connector) -> Endpoint:
    """Return where ``connector`` leads. Raises Refused where that is no place of TCP."""
    said: Mapping[str, object] = {one.key: one.value for one in connector.parameters}
    host, port = str(said.get("host", "localhost")), str(said.get("port", "61616"))
    if not host or len(host) > NAME_MAX or not host.isprintable() or " " in host or "/" in host:
        raise Refused(f"its connector leads to no host: {host[:NAME_MAX]!r}")
    if not port.isdecimal() or not port.isascii() or not 0 < int(port[:6]) <= PORT_MAX:
        raise Refused(f"its connector leads to no port: {port[:NAME_MAX]!r}")
    secure = str(said.get(SECURE, "")).lower() == "true"
    return Endpoint("tcp", host=host, port=int(port), options={SECURE: "true"} if secure else {})


def _time(ms: int) -> Duration:
    if ms > MOST_MS:
        raise Refused(f"{ms} ms are too long")
    return ms * MILLISECOND if ms >= 0 else FOREVER
