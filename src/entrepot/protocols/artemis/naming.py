"""What a client says of itself: metadata, some of which no other session may have. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import Refused
from entrepot.core.queue.consumer import INCOMING_BRIDGE
from entrepot.protocols.artemis.packets import AddMetadata, Packet, UniqueAddMetadata
from entrepot.protocols.artemis.refusals import DUPLICATE_METADATA, CoreRefused
from entrepot.protocols.artemis.session import CoreSession

CLIENT_ID: Final = "jms-client-id"
FEDERATION: Final = "federation-name"  # whoever says it reads for consumers that are at another broker
PLAIN: Final = 104  # the form of ADD_METADATA that is always answered


class Naming:
    """The metadata of one session."""

    def __init__(self, session: CoreSession) -> None:
        self.session: CoreSession = session
        self.pairs: dict[str, str] = {}

    def note(self, packet: Packet) -> None:
        """Keep what the client says. Raises CoreRefused for what another session has and may not be said twice."""
        session = self.session
        if isinstance(packet, UniqueAddMetadata):
            self._claim(packet.key, packet.data)
            wanted = packet.require_response
        elif isinstance(packet, AddMetadata):
            wanted = packet.form == PLAIN or packet.require_response
            self._keep(packet.key, packet.data)
            if not wanted:
                return  # neither side counts it
        else:
            return
        session.replies.done(wanted, False)

    def _claim(self, key: str, data: str) -> None:
        session = self.session
        acceptor = session.acceptor
        taken = acceptor.has_pair(pair_of(key, data), session)
        connection = session.connection
        if not taken and key == CLIENT_ID and connection is not None and connection.client_id != data:
            taken = connection.claim(data, False) != ""
        if taken:
            raise CoreRefused(f"AMQ229035: Metadata {key}={data} had been set already", DUPLICATE_METADATA)
        self._keep(key, data)

    def _keep(self, key: str, data: str) -> None:
        session = self.session
        options = session.options
        if len(key) + len(data) > options.metadata_octets_max:
            raise Refused(f"metadata {key[:40]!r} is longer than {options.metadata_octets_max} characters")
        if key not in self.pairs and len(self.pairs) >= options.metadata_max:
            raise Refused(f"a session keeps {options.metadata_max} metadata")
        before = self.pairs.get(key)
        if before is not None:
            session.acceptor.forget_pair(pair_of(key, before), session)
        self.pairs[key] = data
        session.acceptor.note_pair(pair_of(key, data), session)
        if key == CLIENT_ID:
            session.client_id = data
        elif key == FEDERATION:
            session.reader_kind = INCOMING_BRIDGE

    def end(self) -> None:
        """The session ends: others may have what it had."""
        for key, data in self.pairs.items():
            self.session.acceptor.forget_pair(pair_of(key, data), self.session)


def pair_of(key: str, data: str) -> str:
    """Return a pair as one text."""
    return f"{len(key)}:{key}{data}"
