"""What bridges have announced here, to clients and to other bridges: OpenWire's advisories, in the bridges' words. [C]

A subscription of a bridge is announced as the demand has it: the core's own word would lack the path.
"""

from __future__ import annotations

from typing import Final

from entrepot.cluster.networks.admission import Path
from entrepot.cluster.networks.lists import Place
from entrepot.cluster.networks.translation import consumer_id_of, destination_of, info_of, temporary_info
from entrepot.cluster.networks.wanted import Reader, ReaderId
from entrepot.core.reading.subscription import Subscription
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.commands import ConnectionId
from entrepot.protocols.openwire.replaying import replay


class Advising:
    """Of one broker."""

    def __init__(self, acceptor: Acceptor) -> None:
        self.acceptor: Final = acceptor

    def reader_added(self, reader: Reader) -> None:
        """Tell that ``reader`` reads here."""
        self.acceptor.advisories.consumer_added(info_of(reader))

    def reader_removed(self, reader_id: ReaderId | None) -> None:
        """Tell that it does not any more."""
        if reader_id is not None:
            self.acceptor.advisories.consumer_removed(consumer_id_of(reader_id))

    def speak_for(self, key: str, reader: Reader) -> None:
        """Tell of the core's consumer ``key`` what is said of ``reader``."""
        self.acceptor.advisories.own[key] = info_of(reader)

    def replay(self, subscription: Subscription, reader_id: ReaderId | None) -> None:
        """Tell ``subscription``, which reads advisories, what there is already."""
        if reader_id is not None:
            replay(self.acceptor.advisories, subscription, consumer_id_of(reader_id))

    def knows_temporary(self, name: str) -> bool:
        """Return whether a client, or another bridge, has the temporary destination ``name``."""
        return name in self.acceptor.temporaries

    def hold_temporary(self, where: Place, connection: str) -> None:
        """Let clients find the temporary destination ``where``; the bridge tells of it, not the core."""
        self.acceptor.temporaries[where.name] = connection
        if not where.topic:
            self.acceptor.advisories.bridged[where.name] = None

    def release_temporary(self, where: Place) -> None:
        """It is gone."""
        self.acceptor.temporaries.pop(where.name, None)

    def temporary_added(self, where: Place, path: Path, connection: str) -> None:
        """Tell that ``where`` is there."""
        self.acceptor.advisories.temporary_added(temporary_info(where, path, connection))

    def temporary_removed(self, where: Place, connection: str) -> None:
        """Tell that it is gone."""
        self.acceptor.advisories.temporary_removed(destination_of(where), ConnectionId(connection))
