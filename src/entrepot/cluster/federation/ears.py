"""What a federation hears of one connection that it dialled."""

from __future__ import annotations

from typing import Final, Protocol

from entrepot.protocols.artemis.client import ClientPort, CoreClient
from entrepot.protocols.artemis.packets import Packet


class Hearing(Protocol):
    """Whose connections they are: an upstream, or a downstream. ``attempt``: which of them."""

    def greeted(self, client: CoreClient, attempt: int) -> None:
        """The other broker greets."""

    def take(self, client: CoreClient, packet: Packet) -> None:
        """Anything that it says."""

    def heard(self, client: CoreClient) -> None:
        """Something came."""

    def gone(self, client: CoreClient, attempt: int, why: str) -> None:
        """The connection is gone."""


class Ears(ClientPort):
    """Hears one connection."""

    def __init__(self, owner: Hearing, attempt: int) -> None:
        self._owner: Final = owner
        self._attempt: Final = attempt

    def greeted(self, client: CoreClient) -> None:
        """It speaks CORE."""
        self._owner.greeted(client, self._attempt)

    def told(self, client: CoreClient, packet: Packet) -> None:
        """Anything that it says."""
        self._owner.take(client, packet)

    def settled(self, client: CoreClient) -> None:
        """It lives."""
        self._owner.heard(client)

    def lost(self, client: CoreClient, why: str) -> None:
        """The connection is gone."""
        self._owner.gone(client, self._attempt, why)
