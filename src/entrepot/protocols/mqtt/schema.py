"""The numbers of MQTT: types of packets, properties and where they may stand, reason codes. [C]

"5: 3.1.2" in a comment is a section of the OASIS standard of MQTT 5, "3: ..." of MQTT 3.1.1.
"""

from __future__ import annotations

from typing import Final

V31: Final = 3
V311: Final = 4
V5: Final = 5

NAMES: Final = {b"MQIsdp": (V31,), b"MQTT": (V311, V5)}

# types of packets (5: 2.1.2)
CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15
WILL: Final = 0  # no packet: the properties of a will, inside CONNECT

PACKETS: Final = (
    "WILL",
    "CONNECT",
    "CONNACK",
    "PUBLISH",
    "PUBACK",
    "PUBREC",
    "PUBREL",
    "PUBCOMP",
    "SUBSCRIBE",
    "SUBACK",
    "UNSUBSCRIBE",
    "UNSUBACK",
    "PINGREQ",
    "PINGRESP",
    "DISCONNECT",
    "AUTH",
)

# types of values (5: 1.5)
BYTE: Final = 0
SHORT: Final = 1
LONG: Final = 2
VARIABLE: Final = 3
TEXT: Final = 4
OCTETS: Final = 5
PAIR: Final = 6

# properties (5: 2.2.2.2)
PAYLOAD_FORMAT: Final = 0x01
MESSAGE_EXPIRY: Final = 0x02
CONTENT_TYPE: Final = 0x03
RESPONSE_TOPIC: Final = 0x08
CORRELATION_DATA: Final = 0x09
SUBSCRIPTION_ID: Final = 0x0B
SESSION_EXPIRY: Final = 0x11
ASSIGNED_CLIENT_ID: Final = 0x12
SERVER_KEEP_ALIVE: Final = 0x13
AUTH_METHOD: Final = 0x15
AUTH_DATA: Final = 0x16
REQUEST_PROBLEM: Final = 0x17
WILL_DELAY: Final = 0x18
REQUEST_RESPONSE: Final = 0x19
RESPONSE_INFORMATION: Final = 0x1A
SERVER_REFERENCE: Final = 0x1C
REASON: Final = 0x1F
RECEIVE_MAXIMUM: Final = 0x21
TOPIC_ALIAS_MAXIMUM: Final = 0x22
TOPIC_ALIAS: Final = 0x23
MAXIMUM_QOS: Final = 0x24
RETAIN_AVAILABLE: Final = 0x25
USER_PROPERTY: Final = 0x26
MAXIMUM_PACKET: Final = 0x27
WILDCARDS_AVAILABLE: Final = 0x28
IDENTIFIERS_AVAILABLE: Final = 0x29
SHARED_AVAILABLE: Final = 0x2A

_ACKS: Final = (PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK)
_ALL: Final = (CONNECT, CONNACK, PUBLISH, *_ACKS, SUBSCRIBE, UNSUBSCRIBE, DISCONNECT, AUTH, WILL)

PROPERTIES: Final[dict[int, tuple[str, int, tuple[int, ...]]]] = {
    PAYLOAD_FORMAT: ("Payload Format Indicator", BYTE, (PUBLISH, WILL)),
    MESSAGE_EXPIRY: ("Message Expiry Interval", LONG, (PUBLISH, WILL)),
    CONTENT_TYPE: ("Content Type", TEXT, (PUBLISH, WILL)),
    RESPONSE_TOPIC: ("Response Topic", TEXT, (PUBLISH, WILL)),
    CORRELATION_DATA: ("Correlation Data", OCTETS, (PUBLISH, WILL)),
    SUBSCRIPTION_ID: ("Subscription Identifier", VARIABLE, (PUBLISH, SUBSCRIBE)),
    SESSION_EXPIRY: ("Session Expiry Interval", LONG, (CONNECT, CONNACK, DISCONNECT)),
    ASSIGNED_CLIENT_ID: ("Assigned Client Identifier", TEXT, (CONNACK,)),
    SERVER_KEEP_ALIVE: ("Server Keep Alive", SHORT, (CONNACK,)),
    AUTH_METHOD: ("Authentication Method", TEXT, (CONNECT, CONNACK, AUTH)),
    AUTH_DATA: ("Authentication Data", OCTETS, (CONNECT, CONNACK, AUTH)),
    REQUEST_PROBLEM: ("Request Problem Information", BYTE, (CONNECT,)),
    WILL_DELAY: ("Will Delay Interval", LONG, (WILL,)),
    REQUEST_RESPONSE: ("Request Response Information", BYTE, (CONNECT,)),
    RESPONSE_INFORMATION: ("Response Information", TEXT, (CONNACK,)),
    SERVER_REFERENCE: ("Server Reference", TEXT, (CONNACK, DISCONNECT)),
    REASON: ("Reason String", TEXT, (CONNACK, *_ACKS, DISCONNECT, AUTH)),
    RECEIVE_MAXIMUM: ("Receive Maximum", SHORT, (CONNECT, CONNACK)),
    TOPIC_ALIAS_MAXIMUM: ("Topic Alias Maximum", SHORT, (CONNECT, CONNACK)),
    TOPIC_ALIAS: ("Topic Alias", SHORT, (PUBLISH,)),
    MAXIMUM_QOS: ("Maximum QoS", BYTE, (CONNACK,)),
    RETAIN_AVAILABLE: ("Retain Available", BYTE, (CONNACK,)),
    USER_PROPERTY: ("User Property", PAIR, _ALL),
    MAXIMUM_PACKET: ("Maximum Packet Size", LONG, (CONNECT, CONNACK)),
    WILDCARDS_AVAILABLE: ("Wildcard Subscription Available", BYTE, (CONNACK,)),
    IDENTIFIERS_AVAILABLE: ("Subscription Identifier Available", BYTE, (CONNACK,)),
    SHARED_AVAILABLE: ("Shared Subscription Available", BYTE, (CONNACK,)),
}
"""Identifier -> name, type, packets in which it may stand."""

FLAGS: Final = frozenset(
    (
        PAYLOAD_FORMAT,
        REQUEST_PROBLEM,
        REQUEST_RESPONSE,
        MAXIMUM_QOS,
        RETAIN_AVAILABLE,
        WILDCARDS_AVAILABLE,
        IDENTIFIERS_AVAILABLE,
        SHARED_AVAILABLE,
    )
)
"""Properties of one octet that is 0 or 1."""
NEVER_ZERO: Final = frozenset((RECEIVE_MAXIMUM, MAXIMUM_PACKET, TOPIC_ALIAS, SUBSCRIPTION_ID))

# reason codes (5: 2.4)
SUCCESS: Final = 0x00
WITH_WILL: Final = 0x04
NO_SUBSCRIPTION: Final = 0x11
NOBODY_READS: Final = 0x10
UNSPECIFIED: Final = 0x80
MALFORMED: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
IMPLEMENTATION: Final = 0x83
WRONG_VERSION: Final = 0x84
WRONG_CLIENT_ID: Final = 0x85
WRONG_PASSWORD: Final = 0x86
NOT_AUTHORIZED: Final = 0x87
UNAVAILABLE: Final = 0x88
USE_ANOTHER: Final = 0x9C
WRONG_METHOD: Final = 0x8C
SHUTTING_DOWN: Final = 0x8B
KEEP_ALIVE_OVER: Final = 0x8D
TAKEN_OVER: Final = 0x8E
WRONG_FILTER: Final = 0x8F
WRONG_TOPIC: Final = 0x90
ID_IN_USE: Final = 0x91
ID_NOT_FOUND: Final = 0x92
TOO_MANY: Final = 0x93
WRONG_ALIAS: Final = 0x94
TOO_LARGE: Final = 0x95
QUOTA: Final = 0x97
WRONG_FORMAT: Final = 0x99

ENTRY_REASONS: Final = frozenset(
    (*range(0x80, 0x8B), WRONG_METHOD, WRONG_TOPIC, TOO_LARGE, QUOTA, *range(WRONG_FORMAT, 0x9E), 0x9F)
)
"""Reasons that CONNACK may have to say no (5: 3.2.2.2)."""

REFUSED_3: Final = {
    WRONG_VERSION: 1,
    WRONG_CLIENT_ID: 2,
    UNAVAILABLE: 3,
    USE_ANOTHER: 3,
    SHUTTING_DOWN: 3,
    QUOTA: 3,
    WRONG_PASSWORD: 4,
    NOT_AUTHORIZED: 5,
}
"""Reason of MQTT 5 -> return code of CONNACK before it (3: 3.2.2.3); what is not here just closes."""

FAILED_3: Final = 0x80  # SUBACK of 3.1.1: failure

KEEPS_FOR_EVER: Final = 0xFFFF_FFFF  # of a session expiry interval, in seconds
PACKET_IDS: Final = 65_535
