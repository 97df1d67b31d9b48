"""Messages as this server reads and writes them, and the one that says that there are no more. [C]"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i64

from entrepot.base.primitive import LONG, Primitive
from entrepot.core.identities import Identities
from entrepot.core.scheduling.timed import SCHEDULED_JOB
from entrepot.model.message import Message
from entrepot.protocols.artemis.convert import CORE_LANGUAGE, passes, presented, presented_headers, told
from entrepot.protocols.artemis.headers import Headers, write_headers
from entrepot.protocols.artemis.primitives import HEAD_OCTETS
from entrepot.protocols.artemis.properties import Entries

FORCED: Final = "_hornetq.forced.delivery.seq"
NUMBER_OCTETS: Final = 8


def octets_of(message: Message, routing: i64, ids: Identities, more: Entries | None = None) -> bytes:
    """Return ``message`` as a RECEIVE carries it, with ``more`` properties for its receiver. Raises EntrepotError.

    ``routing`` (ROUTING_...): the routing type of the queue that it was sent to.
    """
    if passes(message) or is_only_late(message):
        return told(message.raw, more)
    return presented(message, routing, ids.identity_of(message), more=more)


def is_only_late(message: Message) -> bool:
    """Return whether nothing was added to a message of CORE but what says that it waited for its date."""
    rare = message.rare
    if rare is None or message.language is not CORE_LANGUAGE or message.escaped:
        return False
    annotations = rare.annotations
    return len(annotations) == 1 and SCHEDULED_JOB in annotations and CORE_LANGUAGE.says_address(message)


def headers_of(message: Message, routing: i64, ids: Identities, more: Entries | None = None) -> bytes:
    """Return the headers of a large ``message`` as a RECEIVE_LARGE carries them, as `octets_of`."""
    headers = presented_headers(message, routing, ids.identity_of(message), more)
    return int(message.number).to_bytes(NUMBER_OCTETS, "big") + headers[NUMBER_OCTETS:]


def forced_delivery(queue: str, sequence: int) -> bytes:
    """Return the message that says that all was delivered; its body is empty and was opened (artemis.md 5.2.4)."""
    headers = Headers()
    headers.address = queue
    headers.priority = 0
    target = BytesWriter()
    write_i32_be(target, HEAD_OCTETS + 4)
    write_i32_be(target, 0)
    write_headers(target, headers, {FORCED: Primitive(LONG, sequence)})
    return target.getvalue()
