"""The octets of FEDERATION_DOWNSTREAM_CONNECT: as Artemis 2.42 writes them, and whatever else somebody may send."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import EntrepotError, MalformedFrame, Refused
from entrepot.base.uri import Endpoint
from entrepot.cluster.federation.description import OCTETS_MAX, PARTS_MAX, described, understood
from entrepot.cluster.federation.options import (
    AddressPolicy,
    DownstreamEntry,
    Match,
    QueuePolicy,
    UpstreamEntry,
    UpstreamOptions,
)

PACKAGE = b"org.apache.activemq.artemis.core.config.federation."
FACTORY = b"org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"


def utf(text: bytes) -> bytes:
    """Return a text of nine characters or more, as `writeString` of Artemis writes it: how many, octets, octets."""
    return len(text).to_bytes(4, "big") + len(text).to_bytes(2, "big") + text


def short(text: str) -> bytes:
    """Return a shorter one."""
    return len(text).to_bytes(4, "big") + text.encode("utf-16-be")


OF_ARTEMIS = (
    short("F")
    + bytes.fromhex("ff 01") + short("u") + b"\1" + short("p")
    + bytes.fromhex("00000003")
    + utf(PACKAGE + b"FederationQueuePolicyConfiguration") + short("queues") + bytes.fromhex("ff 01 fffffffd 00")
    + bytes.fromhex("00000001 01") + short("#") + b"\1" + short("orders")
    + bytes.fromhex("00000001 01") + short("x.#") + b"\0"
    + utf(PACKAGE + b"FederationAddressPolicyConfiguration") + utf(b"addresses")
    + bytes.fromhex("01 00 01 0000000000000005 01 ffffffffffffffff 00000001 00")
    + bytes.fromhex("00000001") + short("news") + bytes.fromhex("00000000 ff")
    + utf(PACKAGE + b"FederationPolicySet") + short("all")
    + bytes.fromhex("00000002") + utf(b"addresses") + short("queues")
    + bytes.fromhex("00000000")
    + short("D") + b"\1" + short("du") + bytes.fromhex("00 00 00000007 00000000000007d0 0000000000001770")
    + bytes.fromhex("0000000000000064 4000000000000000 0000000000000064 ffffffff 00000003")
    + bytes.fromhex("0000000000002af8 0000000000002ee0 00000001") + short("all")
    + short("self") + utf(FACTORY)
    + bytes.fromhex("00000002") + short("host") + b"\3" + short("near") + short("port") + b"\3" + short("61616")
)  # fmt: skip
"""Made by the classes of Artemis 2.42, and taken apart."""
QUEUES = QueuePolicy(
    name="queues",
    priority=-3,
    federated=True,
    includes=(Match(address="#", queue="orders"),),
    excludes=(Match(address="x.#"),),
)
ADDRESSES = AddressPolicy(
    name="addresses",
    max_hops=1,
    auto_delete=False,
    auto_delete_delay_ms=5,
    diverts=True,
    includes=(Match(address="news"),),
)


def entry(**options: object) -> DownstreamEntry:
    values: dict[str, object] = {"name": "D", "user": "u", "password": "p", **options}
    return DownstreamEntry(
        federation="F",
        options=UpstreamOptions(**values),  # type: ignore[arg-type]
        queues=(QUEUES,),
        addresses=(ADDRESSES,),
        back=Endpoint("tcp", host="near", port=61616, options={"sslEnabled": "true", "keyStorePath": "secret.p12"}),
        connector="self",
    )


def test_what_artemis_writes_is_understood() -> None:
    found = understood(OF_ARTEMIS)
    options = found.options
    assert (found.federation, options.name, found.brought) == ("F-upstream", "D-upstream", "near:61616")
    assert found.name == "F-upstream/D-upstream@near:61616"
    assert (options.user, options.password, options.priority) == ("du", "", 7)
    assert (found.queues, found.addresses) == ((QUEUES,), (ADDRESSES,))
    assert (options.check_period, options.ttl, options.call_timeout) == (2 * SECOND, 6 * SECOND, 11 * SECOND)
    assert (options.retry_interval, options.retry_multiplier) == (100 * MILLISECOND, 2.0)
    assert (options.attempts_first, options.attempts) == (-1, 3)
    assert found.places == (Endpoint("tcp", host="near", port=61616),)


def test_what_is_written_is_understood_and_holds_no_path_of_this_machine() -> None:
    octets = described(entry(retry_interval=SECOND, priority=-2))
    found = understood(octets)
    assert (found.queues, found.addresses) == ((QUEUES,), (ADDRESSES,))
    assert (found.options.user, found.options.password, found.options.priority) == ("u", "p", -2)
    assert found.options.retry_interval == SECOND
    assert found.places == (Endpoint("tcp", host="near", port=61616, options={"sslEnabled": "true"}),)
    assert b"secret.p12" not in octets
    assert "secret.p12".encode("utf-16-be") not in octets


def changed(*swaps: tuple[bytes, bytes]) -> UpstreamEntry:
    octets = OF_ARTEMIS
    for old, new in swaps:
        assert old in octets
        octets = octets.replace(old, new, 1)
    return understood(octets)


WAITS = bytes.fromhex("0000000000000064 4000000000000000")


def test_what_would_hurt_is_kept_in_bounds() -> None:
    eager = changed((WAITS, bytes(8) + bytes.fromhex("7ff8000000000000"))).options
    assert (eager.retry_interval, eager.retry_multiplier) == (100 * MILLISECOND, 1.0), "else it dials without a pause"
    assert changed((b"\xff\xff\xff\xff\0\0\0\3", b"\x80\0\0\0\x80\0\0\0")).options.attempts == -1


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (short("D") + b"\1", short("a/b") + b"\1", "cannot be called"),
        (short("F") + b"\xff", short("") + b"\xff", "cannot be called"),
        (short("61616"), short("99999"), "leads to no port"),
        (short("61616"), short("x"), "leads to no port"),
        (b"\3" + short("near"), b"\3" + short("a b"), "leads to no host"),
        (b"\1" + short("all"), b"\1" + short("non"), "no policy 'non'"),
        (PACKAGE + b"FederationPolicySet", PACKAGE + b"FederationPolicySex", "unknown kind"),
        (bytes.fromhex("ff 01 fffffffd 00"), bytes.fromhex("ff 01 fffffffd 01") + short("t"), "transformer t"),
        (bytes.fromhex("0000000000001770"), bytes.fromhex("7fffffffffffffff"), "too long"),
    ],
)
def test_what_cannot_be_is_refused(old: bytes, new: bytes, what: str) -> None:
    with pytest.raises(Refused, match=what):
        changed((old, new))


def test_sets_that_hold_one_another_end() -> None:
    octets = OF_ARTEMIS.replace(bytes.fromhex("00000002") + utf(b"addresses") + short("queues"),
                                bytes.fromhex("00000002") + short("all") + short("queues"), 1)  # fmt: skip
    assert understood(octets).queues == (QUEUES,)
    assert understood(octets).addresses == ()


def test_too_much_is_refused_before_it_is_read() -> None:
    with pytest.raises(Refused, match="are the most"):
        understood(bytes(OCTETS_MAX + 1))
    many = (PARTS_MAX + 1).to_bytes(4, "big") + (b"\0\0" * (PARTS_MAX + 1))
    with pytest.raises(Refused, match="more than"):
        changed((bytes.fromhex("00000001 01") + short("#") + b"\1" + short("orders"), many))


def test_a_cut_or_a_wrong_octet_is_refused_or_understood_and_nothing_else() -> None:
    for end in range(len(OF_ARTEMIS)):
        with pytest.raises(MalformedFrame):
            understood(OF_ARTEMIS[:end])
    for at in range(len(OF_ARTEMIS)):
        for octet in (0, 1, 0x7F, 0xFF):
            try:
                understood(OF_ARTEMIS[:at] + bytes([octet]) + OF_ARTEMIS[at + 1 :])
            except EntrepotError:
                continue
