"""What a broker's configuration and its parts beside the core know, for `core/operators/management.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from entrepot.core.operators.census import Census, Component
from entrepot.management.components import Components

if TYPE_CHECKING:
    from entrepot.core.operators.listing import Arguments


class PartsCensus(Census):
    """Asks the ``parts``."""

    def __init__(self, parts: Components) -> None:
        self.parts: Final = parts

    def components(self, kind: str) -> list[str]:
        """Return the names of those that there are of one kind."""
        return self.parts.names(kind)

    def component(self, kind: str, name: str) -> Component | None:
        """Return one acceptor, bridge, cluster connection or broadcast group."""
        return self.parts.find(kind, name)

    def connectors(self) -> list[dict[str, object]]:
        """Return the connectors of broker.xml."""
        return self.parts.connectors()

    def settings(self) -> Mapping[str, Callable[[], object]]:
        """Return what the configuration says and is obeyed here."""
        return self.parts.settings()

    def reload(self) -> bool:
        """Begin to read the configuration again; what comes of it is in the log."""
        return self.parts.reload()

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what is done to users, whose files the configuration names."""
        return self.parts.operations()
