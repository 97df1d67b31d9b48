"""What a SEND carries becomes a message of the broker: its octets are walked through once, and only what the broker
itself must know of them is read. [C]

An `Arriving` remembers the address that it saw last, as octets and as text: whoever sends goes on sending there.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64, u8

from entrepot.base.errors import MalformedFrame
from entrepot.base.trace_context import ABSENT, wide_said_at
from entrepot.model.message import HIGHEST_PRIORITY, Message, Rare
from entrepot.protocols.artemis import properties as typed
from entrepot.protocols.artemis.convert import (
    BRIDGE_DUPLICATE,
    COMPRESSED,
    CORE_LANGUAGE,
    DELIVER_AT,
    DUPLICATE,
    GROUP,
    GROUP_SEQUENCE,
    K_ROUTING,
    K_TRACE,
    ROUTING_NONE,
    TRACE_FIRST,
    WHERE_TO,
    written_address,
)
from entrepot.protocols.artemis.headers import BEHIND_USER_ID, NO_BODY, NUMBER_OCTETS, USER_ID_OCTETS, headers_at
from entrepot.protocols.artemis.primitives import OctetsReader
from entrepot.protocols.artemis.properties import KEY_LENGTH_OCTETS, TOO_EARLY, key_octets

_BETWEEN_NODES: Final = (BRIDGE_DUPLICATE, *WHERE_TO)


class _Noted:
    """A property that the broker itself must know. ``between_nodes``: clients are not to see it."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.key: bytes = key_octets(name)
        self.between_nodes: bool = name in _BETWEEN_NODES


_NOTED: Final[dict[bytes, _Noted]] = {
    key_octets(name): _Noted(name)
    for name in (GROUP, GROUP_SEQUENCE, DUPLICATE, DELIVER_AT, COMPRESSED, *_BETWEEN_NODES)
}
_OF_BRIDGES: Final[dict[bytes, None]] = {key_octets(name): None for name in _BETWEEN_NODES}
_UNDERSCORE: Final = ord("_")


class Arriving:
    """Reads messages. ``routing``: the routing type that the sender of the last one set (ROUTING_...)."""

    def __init__(self) -> None:
        self.routing: i64 = ROUTING_NONE
        self._address: str = ""
        self._written: bytes = written_address("")
        self._rare: Rare | None = None
        self._context: i64 = ABSENT
        self._usual: list[_Noted] = []  # what the last message said, in order, and how far this one says the same
        self._at: i64 = 0

    def message(self, octets: bytes, default_address: str) -> Message:
        """Return what a SEND carries as a message of the broker. Raises MalformedFrame.

        One without an address goes to ``default_address``.
        """
        at = headers_at(octets)
        address = self._address
        written = self._written
        length: i64 = len(written)
        source: i64 = at + NUMBER_OCTETS
        if octets[source : source + length] == written:
            source += length
        else:
            cursor = OctetsReader(octets, at, len(octets))
            cursor.take(NUMBER_OCTETS)
            said = cursor.nullable_simple()
            source = cursor.at
            if said is not None:
                address = self._address = said
                self._written = written_address(said)
            else:
                address = default_address
        if octets[at + NUMBER_OCTETS] != 1:  # no address; or one behind another octet than the one that Java writes
            own = written_address(address)
            octets = octets[: at + NUMBER_OCTETS] + own + octets[source:]
            source = at + NUMBER_OCTETS + len(own)
        source = _behind_user_id(octets, source)
        octets = self._described(octets, source + BEHIND_USER_ID)
        message = Message(CORE_LANGUAGE, address, octets)
        message.body_at = at
        message.durable = octets[source + 1] != 0
        expiration = read_i64_be(octets, source + 2)
        message.expiration = expiration if expiration > 0 else 0
        message.timestamp = read_i64_be(octets, source + 10)
        priority: i64 = octets[source + 18]
        if priority > 127:
            priority = 0
        message.priority = priority if priority < HIGHEST_PRIORITY else HIGHEST_PRIORITY
        message.rare = self._rare
        message.context = u8(self._context)
        self._rare = None
        return message

    def _described(self, octets: bytes, start: i64) -> bytes:
        """Read what few messages carry in the properties, which begin at ``start``; return the octets to keep.

        What is behind the properties goes, and what is said between brokers: clients are not to see it.
        """
        self._begin()
        count = typed.count_at(octets, start)
        source = typed.behind_count(octets, start)
        first_inner: i64 = -1  # where what nodes told each other begins, and how many stand before it
        before: i64 = 0
        sole = True  # nothing else stands behind it
        for place in range(count):
            begin = source
            key = begin + KEY_LENGTH_OCTETS
            value = typed.behind_key(octets, begin)
            source = typed.behind_value(octets, value)
            if value - key >= 4 and self._look(octets, key, value):
                if first_inner < 0:
                    first_inner = begin
                    before = place
            elif first_inner >= 0:
                sole = False
        if first_inner >= 0 and self._is_between_nodes():
            if sole:
                return typed.with_first(octets, start, first_inner, before)
            return typed.without(octets[:source], start, _OF_BRIDGES)
        return octets[:source] if source < len(octets) else octets

    def _look(self, octets: bytes, key: i64, value: i64) -> bool:
        """Look at the property whose key, not shorter than two units, is at ``key``, its type and value at ``value``.

        Return whether it is one that nodes tell each other.
        """
        first: i64 = octets[key]
        if first == _UNDERSCORE:
            return octets[key + 2] != _UNDERSCORE and self._note(octets, octets[key:value], value)
        if first == TRACE_FIRST and octets[key:value] == K_TRACE:
            self._context = max(self._context, wide_said_at(octets, value + 5))
        return False

    def _is_between_nodes(self) -> bool:
        """Return whether the last one came from another node: what these tell each other is read then."""
        rare = self._rare
        return rare is not None and (rare.bridged or rare.internal is not None)

    def _begin(self) -> None:
        """Know nothing of the last one. In place, the type checker would take it that this is so to the end."""
        self.routing = ROUTING_NONE
        self._context = ABSENT
        self._rare = None
        self._at = 0

    def _known(self, key: bytes) -> _Noted | None:
        """Return what ``key`` is, None: nothing to the broker. Whoever sends goes on saying the same, in that order."""
        usual = self._usual
        at = self._at
        if at < len(usual) and usual[at].key == key:
            self._at = at + 1
            return usual[at]
        found = _NOTED.get(key)
        if found is not None and at < len(_NOTED):  # the same may be said twice, and again
            del usual[at:]
            usual.append(found)
            self._at = at + 1
        return found

    def _note(self, octets: bytes, key: bytes, value_at: i64) -> bool:
        """Look at the property ``key``, whose type and value are at ``value_at``; True: it is between nodes."""
        if key == K_ROUTING:
            if octets[value_at] == typed.BYTE:
                routing: i64 = octets[value_at + 1]
                self.routing = routing - 256 if routing > 127 else routing
            else:
                value = typed.value_at(octets, value_at)
                self.routing = i64(value) if isinstance(value, int) else ROUTING_NONE
            return False
        noted = self._known(key)
        if noted is None:
            return False
        rare = self._rare
        if rare is None:
            rare = self._rare = Rare()
        if octets[value_at] == typed.OCTETS:
            begin: i64 = value_at + 5
            _keep(rare, noted.name, octets[begin : begin + i64(read_i32_be(octets, value_at + 1))])
        else:
            _keep(rare, noted.name, typed.value_at(octets, value_at))
        return noted.between_nodes


def message_of(octets: bytes, default_address: str) -> Message:
    """Return what a SEND carries, as `Arriving.message` does, for who reads few."""
    return Arriving().message(octets, default_address)


def large_message_of(headers: bytes, default_address: str) -> Message:
    """Return the message of which a SEND_LARGE has the ``headers``; its body is the caller's to store."""
    return message_of(NO_BODY + headers, default_address)


def _behind_user_id(octets: bytes, at: i64) -> i64:
    """Return where the type of a message is, behind the user id at ``at``; up to its properties all is there."""
    end: i64 = len(octets)
    if at >= end:
        raise MalformedFrame(TOO_EARLY)
    behind: i64 = at + 1
    if octets[at] != 0:
        behind += USER_ID_OCTETS
    if behind + BEHIND_USER_ID >= end:
        raise MalformedFrame(TOO_EARLY)
    return behind


def _keep(rare: Rare, name: str, value: object) -> None:
    """Set what the broker itself must know of a message; values of another type mean nothing to it."""
    if name == GROUP and isinstance(value, str):
        rare.group = value
    elif name == GROUP_SEQUENCE and isinstance(value, int):
        rare.group_sequence = i64(value)
    elif name == DELIVER_AT and isinstance(value, int):
        rare.deliver_at = i64(max(value, 0))
    elif name == COMPRESSED:
        rare.deflated = value is True
    elif name in WHERE_TO and isinstance(value, bytes):
        if rare.internal is None:
            rare.internal = {}
        rare.internal[name] = value
    elif name == BRIDGE_DUPLICATE and isinstance(value, bytes):
        rare.duplicate_id = value
        rare.bridged = True
    elif name == DUPLICATE and not rare.bridged:  # the id of a bridge counts instead (artemis.md 1.14)
        if isinstance(value, bytes):
            rare.duplicate_id = value
        elif isinstance(value, str):
            rare.duplicate_id = value.encode("utf-8", "surrogatepass")
