"""Management by messages over CORE, of a real Artemis and of ours alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from artemis import Artemis
from ours import Entrepot

from entrepot import blocking
from entrepot.base.errors import EntrepotError, TimedOut

Broker = Artemis | Entrepot


class Manager:
    """Asks one broker by management messages, over CORE."""

    def __init__(self, broker: Broker, user: str | None = None, password: str | None = None) -> None:
        self.connection = blocking.connect(broker.url.replace("tcp://", "core://"), user=user, password=password)
        self.session = self.connection.session()
        self.management = self.connection.management(timeout=10)

    def read(self, resource: str, attribute: str) -> Any:
        """Return an attribute. Raises RuntimeError for a refusal."""
        return self._told(lambda: self.management.get(resource, attribute))

    def ask(self, resource: str, operation: str, *arguments: object) -> Any:
        """Return what an operation answers. Raises RuntimeError for a refusal."""
        return self._told(lambda: self.management.call(resource, operation, *arguments))

    def _told(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except TimedOut:
            raise
        except EntrepotError as refusal:
            raise RuntimeError(refusal.message) from None

    def close(self) -> None:
        self.connection.close()
