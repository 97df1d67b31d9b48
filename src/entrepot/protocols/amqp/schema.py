"""The table of AMQP 1.0: every performative, frame of SASL, state, terminus and list of a message, with its fields.

This table is the only place that knows the layout. ``performatives.py`` and the page docs/formats/amqp.md are written
from it, and the tests read it. Its names are those of the standard (OASIS, parts 2 to 5), with `_` for `-`. It decides
nothing and reads no octets.

>>> [field.name for field in composite_named("Transfer").fields][:3]
['handle', 'delivery_id', 'delivery_tag']
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec


class Kind(Enum):
    """What a field holds."""

    BOOLEAN = "boolean"
    UBYTE = "ubyte"
    USHORT = "ushort"
    UINT = "uint"
    ULONG = "ulong"
    MOMENT = "timestamp"
    STRING = "string"
    SYMBOL = "symbol"
    BINARY = "binary"
    SYMBOLS = "symbols"
    MAP = "map"
    ANY = "any"
    COMPOSITE = "composite"


ABOUT_KINDS: Final[dict[Kind, str]] = {
    Kind.BOOLEAN: "true or false",
    Kind.UBYTE: "8 bits without a sign",
    Kind.USHORT: "16 bits without a sign",
    Kind.UINT: "32 bits without a sign",
    Kind.ULONG: "64 bits without a sign; what is more than 63 is cut there",
    Kind.MOMENT: "ms since 1970",
    Kind.STRING: "UTF-8",
    Kind.SYMBOL: "ASCII",
    Kind.BINARY: "octets",
    Kind.SYMBOLS: "one symbol, or an array of them; an array is written",
    Kind.MAP: "a map whose keys are symbols",
    Kind.ANY: "a value of any type",
    Kind.COMPOSITE: "another one of this table: a state, an error, a terminus",
}


class Field(msgspec.Struct, frozen=True):
    """One field. ``default``: what it is when it is null, if the standard says so; ``needed``: it may not be null."""

    name: str
    kind: Kind
    needed: bool = False
    default: int = -1


class Composite(msgspec.Struct, frozen=True):
    """One described list. ``code``: its descriptor; ``symbol``: the other one; ``part``: of the standard."""

    name: str
    code: int
    symbol: str
    part: str
    about: str
    fields: tuple[Field, ...] = ()


B, UB, US, UI, UL = Kind.BOOLEAN, Kind.UBYTE, Kind.USHORT, Kind.UINT, Kind.ULONG
TS, S, SY, BI, SS = Kind.MOMENT, Kind.STRING, Kind.SYMBOL, Kind.BINARY, Kind.SYMBOLS
M, A, C = Kind.MAP, Kind.ANY, Kind.COMPOSITE
UINT_MAX: Final = (1 << 32) - 1


def _f(name: str, kind: Kind, default: int = -1, *, needed: bool = False) -> Field:
    return Field(name, kind, needed, default)


COMPOSITES: Final = (
    Composite(
        "Open", 0x10, "amqp:open:list", "2.7.1", "A side opens the connection, and says what it can.",
        (
            _f("container_id", S, needed=True), _f("hostname", S), _f("max_frame_size", UI, UINT_MAX),
            _f("channel_max", US, 65535), _f("idle_time_out", UI), _f("outgoing_locales", SS),
            _f("incoming_locales", SS), _f("offered_capabilities", SS), _f("desired_capabilities", SS),
            _f("properties", M),
        ),
    ),
    Composite(
        "Begin", 0x11, "amqp:begin:list", "2.7.2", "A side begins a session on its channel.",
        (
            _f("remote_channel", US), _f("next_outgoing_id", UI, needed=True),
            _f("incoming_window", UI, needed=True), _f("outgoing_window", UI, needed=True),
            _f("handle_max", UI, UINT_MAX), _f("offered_capabilities", SS), _f("desired_capabilities", SS),
            _f("properties", M),
        ),
    ),
    Composite(
        "Attach", 0x12, "amqp:attach:list", "2.7.3", "A side attaches a link to the session.",
        (
            _f("name", S, needed=True), _f("handle", UI, needed=True), _f("role", B, needed=True),
            _f("snd_settle_mode", UB, 2), _f("rcv_settle_mode", UB, 0), _f("source", C), _f("target", C),
            _f("unsettled", M), _f("incomplete_unsettled", B, 0), _f("initial_delivery_count", UI),
            _f("max_message_size", UL), _f("offered_capabilities", SS), _f("desired_capabilities", SS),
            _f("properties", M),
        ),
    ),
    Composite(
        "Flow", 0x13, "amqp:flow:list", "2.7.4", "A side says what it may be sent: on the session, and on a link.",
        (
            _f("next_incoming_id", UI), _f("incoming_window", UI, needed=True),
            _f("next_outgoing_id", UI, needed=True), _f("outgoing_window", UI, needed=True), _f("handle", UI),
            _f("delivery_count", UI), _f("link_credit", UI), _f("available", UI), _f("drain", B, 0),
            _f("echo", B, 0), _f("properties", M),
        ),
    ),
    Composite(
        "Transfer", 0x14, "amqp:transfer:list", "2.7.5", "A message, or a part of one, which follows in the frame.",
        (
            _f("handle", UI, needed=True), _f("delivery_id", UI), _f("delivery_tag", BI), _f("message_format", UI),
            _f("settled", UB), _f("more", B, 0), _f("rcv_settle_mode", UB), _f("state", C), _f("resume", B, 0),
            _f("aborted", B, 0), _f("batchable", B, 0),
        ),
    ),
    Composite(
        "Disposition", 0x15, "amqp:disposition:list", "2.7.6", "A side says what became of deliveries.",
        (
            _f("role", B, needed=True), _f("first", UI, needed=True), _f("last", UI), _f("settled", B, 0),
            _f("state", C), _f("batchable", B, 0),
        ),
    ),
    Composite(
        "Detach", 0x16, "amqp:detach:list", "2.7.7", "A side detaches a link, or closes it.",
        (_f("handle", UI, needed=True), _f("closed", B, 0), _f("error", C)),
    ),
    Composite("End", 0x17, "amqp:end:list", "2.7.8", "A side ends the session.", (_f("error", C),)),
    Composite("Close", 0x18, "amqp:close:list", "2.7.9", "A side closes the connection.", (_f("error", C),)),
    Composite(
        "Error", 0x1D, "amqp:error:list", "2.8.14", "What went wrong.",
        (_f("condition", SY, needed=True), _f("description", S), _f("info", M)),
    ),
    Composite(
        "Received", 0x23, "amqp:received:list", "3.4.1", "So far a delivery has come.",
        (_f("section_number", UI, needed=True), _f("section_offset", UL, needed=True)),
    ),
    Composite("Accepted", 0x24, "amqp:accepted:list", "3.4.2", "The receiver has it."),
    Composite("Rejected", 0x25, "amqp:rejected:list", "3.4.3", "The receiver finds it wrong.", (_f("error", C),)),
    Composite("Released", 0x26, "amqp:released:list", "3.4.4", "The receiver has not looked at it."),
    Composite(
        "Modified", 0x27, "amqp:modified:list", "3.4.5", "The receiver gives it back, changed.",
        (_f("delivery_failed", B, 0), _f("undeliverable_here", B, 0), _f("message_annotations", M)),
    ),
    Composite(
        "Source", 0x28, "amqp:source:list", "3.5.3", "Where the messages of a link come from.",
        (
            _f("address", A), _f("durable", UI, 0), _f("expiry_policy", SY), _f("timeout", UI, 0),
            _f("dynamic", B, 0), _f("dynamic_node_properties", M), _f("distribution_mode", SY), _f("filter", M),
            _f("default_outcome", C), _f("outcomes", SS), _f("capabilities", SS),
        ),
    ),
    Composite(
        "Target", 0x29, "amqp:target:list", "3.5.4", "Where the messages of a link go to.",
        (
            _f("address", A), _f("durable", UI, 0), _f("expiry_policy", SY), _f("timeout", UI, 0),
            _f("dynamic", B, 0), _f("dynamic_node_properties", M), _f("capabilities", SS),
        ),
    ),
    Composite("DeleteOnClose", 0x2B, "amqp:delete-on-close:list", "3.5.10", "A dynamic node goes with its link."),
    Composite(
        "Coordinator", 0x30, "amqp:coordinator:list", "4.5.1", "The target of a link for transactions.",
        (_f("capabilities", SS),),
    ),
    Composite(
        "Declare", 0x31, "amqp:declare:list", "4.5.2", "Begin a transaction.", (_f("global_id", A),)
    ),
    Composite(
        "Discharge", 0x32, "amqp:discharge:list", "4.5.3", "End a transaction.",
        (_f("txn_id", BI, needed=True), _f("fail", B, 0)),
    ),
    Composite(
        "Declared", 0x33, "amqp:declared:list", "4.5.5", "A transaction has begun.", (_f("txn_id", BI, needed=True),)
    ),
    Composite(
        "TransactionalState", 0x34, "amqp:transactional-state:list", "4.5.8", "What is done belongs to a transaction.",
        (_f("txn_id", BI, needed=True), _f("outcome", C)),
    ),
    Composite(
        "SaslMechanisms", 0x40, "amqp:sasl-mechanisms:list", "5.3.3.1", "How a client may say who it is.",
        (_f("sasl_server_mechanisms", SS, needed=True),),
    ),
    Composite(
        "SaslInit", 0x41, "amqp:sasl-init:list", "5.3.3.2", "The client chooses a mechanism.",
        (_f("mechanism", SY, needed=True), _f("initial_response", BI), _f("hostname", S)),
    ),
    Composite(
        "SaslChallenge", 0x42, "amqp:sasl-challenge:list", "5.3.3.3", "The server asks.",
        (_f("challenge", BI, needed=True),),
    ),
    Composite(
        "SaslResponse", 0x43, "amqp:sasl-response:list", "5.3.3.4", "The client answers.",
        (_f("response", BI, needed=True),),
    ),
    Composite(
        "SaslOutcome", 0x44, "amqp:sasl-outcome:list", "5.3.3.5", "Whether the client may come in.",
        (_f("code", UB, needed=True), _f("additional_data", BI)),
    ),
    Composite(
        "Header", 0x70, "amqp:header:list", "3.2.1", "What intermediaries may change of a message.",
        (
            _f("durable", B, 0), _f("priority", UB, 4), _f("ttl", UI), _f("first_acquirer", B, 0),
            _f("delivery_count", UI, 0),
        ),
    ),
    Composite(
        "Properties", 0x73, "amqp:properties:list", "3.2.4", "What is fixed of a message, and known to all.",
        (
            _f("message_id", A), _f("user_id", BI), _f("to", A), _f("subject", S), _f("reply_to", A),
            _f("correlation_id", A), _f("content_type", SY), _f("content_encoding", SY),
            _f("absolute_expiry_time", TS), _f("creation_time", TS), _f("group_id", S), _f("group_sequence", UI),
            _f("reply_to_group_id", S),
        ),
    ),
)  # fmt: skip

SECTIONS: Final[dict[int, str]] = {
    0x70: "header",
    0x71: "delivery-annotations",
    0x72: "message-annotations",
    0x73: "properties",
    0x74: "application-properties",
    0x75: "data",
    0x76: "amqp-sequence",
    0x77: "amqp-value",
    0x78: "footer",
}
"""Descriptor -> section of a message, in the order in which they stand."""


def composite_named(name: str) -> Composite:
    """Return the entry that is called ``name``."""
    return next(each for each in COMPOSITES if each.name == name)
