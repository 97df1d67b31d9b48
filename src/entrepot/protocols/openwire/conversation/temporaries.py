"""Temporary destinations: those of this connection, and those of others that ended. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import EntrepotError, InvalidDestination
from entrepot.protocols.conversing.port import Answer
from entrepot.protocols.openwire.commands import Destination, DestinationInfo, Response
from entrepot.protocols.openwire.conversation.inbox import Inbox
from entrepot.protocols.openwire.conversation.records import Identity
from entrepot.protocols.openwire.conversation.requests import Requests
from entrepot.protocols.openwire.ids import DestinationKind, DestinationOperation, destination, is_temporary

GONE_MAX: Final = 10_000  # deleted temporary destinations that are remembered


class Temporaries:
    """``own`` are told to each broker again; a send to one that is ``gone`` is refused (classic.md 4.15, 5.8)."""

    def __init__(self, identity: Identity, requests: Requests) -> None:
        self.own: dict[str, Destination] = {}
        self.gone: dict[str, None] = {}
        self._identity: Final = identity
        self._requests: Final = requests

    def add(self, kind: DestinationKind, answer: Answer) -> Destination:
        """Make a temporary destination of this connection."""
        where = destination(kind, f"{self._identity.text}:{self._identity.fresh()}")

        def made(response: Response | None, error: EntrepotError | None) -> None:
            if error is None:
                self.own[where.physical_name or ""] = where
            answer(error)

        self._requests.request(self._told(where, DestinationOperation.ADD), made)
        return where

    def remove(self, where: Destination, answer: Answer) -> None:
        """Delete a temporary destination of this connection."""
        self.own.pop(where.physical_name or "", None)
        self._requests.ask(self._told(where, DestinationOperation.REMOVE), answer)

    def again(self) -> list[DestinationInfo]:
        """Return what tells a broker of ours."""
        return [self._told(where, DestinationOperation.ADD) for where in self.own.values()]

    def check(self, where: Destination | None) -> None:
        """Raise InvalidDestination for one that is gone."""
        if self.gone and where is not None and is_temporary(where) and where.physical_name in self.gone:
            raise InvalidDestination(f"{where.physical_name} was a temporary destination and is deleted")

    def note(self, inbox: Inbox, now: int) -> None:
        """Take the advisories that came into ``inbox``."""
        while (delivery := inbox.take(now)) is not None:
            inbox.done(delivery)
            advice = delivery.message.data_structure
            if isinstance(advice, DestinationInfo) and advice.destination is not None:
                name = advice.destination.physical_name or ""
                if advice.operation_type == DestinationOperation.REMOVE:
                    self.gone[name] = None
                    if len(self.gone) > GONE_MAX:
                        del self.gone[next(iter(self.gone))]
                else:
                    self.gone.pop(name, None)
        inbox.flush()

    def _told(self, where: Destination, operation: DestinationOperation) -> DestinationInfo:
        return DestinationInfo(connection_id=self._identity.connection_id, destination=where, operation_type=operation)
