"""Client ids in use, each by one connection. [C]"""

from __future__ import annotations

from entrepot.core.ports import ClientHolder


class ClientIds:
    """Who has which client id; ``held`` is by id."""

    def __init__(self) -> None:
        self.held: dict[str, ClientHolder] = {}

    def claim(self, client_id: str, holder: ClientHolder, steal: bool) -> bool:
        """Let ``holder`` have ``client_id``; False when another connection has it. ``steal``: that one gives way.

        "" is no client id, and nobody's.
        """
        if not client_id:
            return True
        before = self.held.get(client_id)
        if before is not None:
            if not steal:
                return False
            before.give_way(holder.peer)
        self.held[client_id] = holder
        return True

    def disclaim(self, client_id: str, holder: ClientHolder) -> None:
        """``holder`` needs ``client_id`` no more; nothing happens if another one has it by now."""
        if self.held.get(client_id) is holder:
            del self.held[client_id]
