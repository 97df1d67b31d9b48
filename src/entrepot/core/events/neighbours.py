"""Facts about other brokers: which of them send here, and what becomes of the bridges to them."""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.core.events.facts import Fact


class BrokerFact(Fact):
    """BROKER_JOINED, BROKER_LEFT: what comes over the connection ``number`` comes from the broker ``broker_id``."""

    def __init__(self, kind: i64, number: i64, broker_id: str = "", broker: str = "") -> None:
        super().__init__(kind)
        self.number: i64 = number
        self.broker_id: str = broker_id
        self.broker: str = broker  # its name

    def subject(self) -> str:
        """Return the name of the other broker."""
        return self.broker

    def details(self) -> dict[str, str]:
        """Return its id, and the connection."""
        return {"id": self.broker_id, "connection": str(self.number)}


class BridgeFact(Fact):
    """BRIDGE_STARTED, BRIDGE_STOPPED: to the broker ``broker_id``. FORWARD_FAILED: ``why`` it took no message."""

    def __init__(self, kind: i64, bridge: str, broker_id: str, broker: str, why: str = "") -> None:
        super().__init__(kind)
        self.bridge: str = bridge
        self.broker_id: str = broker_id
        self.broker: str = broker  # its name
        self.why: str = why
        self.accepted: bool = False  # the other broker opened the duplex connection
        self.advises: bool = True  # the connector asks for an advisory about it

    def subject(self) -> str:
        """Return the name of the bridge."""
        return self.bridge

    def details(self) -> dict[str, str]:
        """Return where it leads, and what went wrong."""
        told = {"broker": self.broker, "id": self.broker_id}
        if self.why:
            told["why"] = self.why
        return told
