"""Wires that are dialled for a conversation, from the first octet until they carry it. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from entrepot.base.environment import Instant
from entrepot.base.uri import Endpoint
from entrepot.protocols.conversing.port import Wire, WireEvents
from entrepot.protocols.openwire.client import ClientPort, OpenWireClient
from entrepot.protocols.openwire.commands import BrokerInfo, Command
from entrepot.protocols.openwire.negotiation import WIRE_FORMAT, WireFormatOptions
from entrepot.protocols.session import Shell

CLIENT: Final = "jms."


def speaks(option: str) -> bool:
    """Tell whether an option of a broker's URL belongs to OpenWire or to the client, not to the socket."""
    return option.startswith(WIRE_FORMAT) or option.startswith(CLIENT)


@mypyc_attr(allow_interpreted_subclasses=True)
class WireUser:
    """Who uses a wire: a conversation, or one member of several brokers at once."""

    def port(self) -> ClientPort:
        """Return who hears the broker from now on."""
        raise NotImplementedError

    def use(self, client: OpenWireClient) -> None:
        """Take a wire whose format is agreed; `port` heard the broker's BrokerInfo if it came before."""
        raise NotImplementedError

    def leave(self, client: OpenWireClient, why: str) -> None:
        """Settle what is processed, and use it no more."""
        raise NotImplementedError


class _Agreement(ClientPort):
    """Hears a wire until it is used."""

    def __init__(self, events: WireEvents) -> None:
        self.broker: BrokerInfo | None = None
        self._events: Final = events

    def agreed(self, client: OpenWireClient) -> None:
        self._events.opened()

    def told(self, client: OpenWireClient, command: Command) -> None:
        if isinstance(command, BrokerInfo):
            self.broker = command

    def lost(self, client: OpenWireClient, why: str) -> None:
        self._events.failed(why)


class DialledWire(Wire):
    """A wire to one broker."""

    def __init__(self, place: Endpoint, shell: Shell, now: Instant, events: WireEvents, user: WireUser) -> None:
        """Raises InvalidOption for an option of ``place`` that the format does not know."""
        self._agreement: Final = _Agreement(events)
        self._user: Final = user
        self.client: Final = OpenWireClient(shell, WireFormatOptions.of(place), self._agreement, now)
        super().__init__(self.client)

    def program(self) -> str:
        """Return which program the broker says it is."""
        return self.client.program

    def use(self) -> None:
        """Carry the conversation."""
        client = self.client
        client.port = self._user.port()
        if self._agreement.broker is not None:
            client.port.told(client, self._agreement.broker)
        self._user.use(client)

    def leave(self, why: str) -> None:
        """Carry it no more."""
        self._user.leave(self.client, why)
        self.client.port = ClientPort()  # nobody listens to it any more
