"""How a store is replicated, as an operator says it."""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MIB, SECOND, Duration
from entrepot.base.errors import InvalidOption
from entrepot.ha.standing import CONFIRMS, SYNCED

WINDOW: Final = 4 * MIB
"""Octets of a catch-up under way to one replica: what a fast disk takes in 10 ms, many times what a network holds."""

PATIENCE: Final = 5 * SECOND
"""How long a replica may owe an answer: as a lease, so that a replica is given up no sooner than a primary is."""


class ReplicationOptions:
    """How a store is replicated. ``peers``: where other brokers of the store answer, HOST:PORT each.

    ``listen``: where this one does, while it is primary. ``confirm``: see `standing.CONFIRMS`. ``copies_min``: how many
    stores must have a message before it is confirmed, this one included. ``bandwidth``: octets a second of a catch-up,
    0 for no limit. ``secret``: that both sides know; "" only where nobody else can connect. ``kept``: how many old
    copies are kept as ``oldreplica.N`` (artemis.md 2.3), -1 for all. ``window``: octets of a catch-up under way.
    ``certificate``, ``key``, ``trust``: files of TLS, which both sides speak, each with a certificate that the other's
    ``trust`` vouches for; ``verify_host``: a primary's is for the host that was dialled. ``by_lock``: a copy
    of nothing yet follows nobody but whom the lock names, since primaries of other stores answer at the places, too.
    ``group``: brokers of one store have the same (artemis.md 2.3).
    ``owns``: the configuration makes this broker the primary, and so no other one.
    """

    def __init__(
        self,
        *,
        listen: str = "",
        peers: tuple[str, ...] = (),
        confirm: str = SYNCED,
        copies_min: int = 2,
        bandwidth: int = 0,
        secret: str = "",
        patience: Duration = PATIENCE,
        kept: int = 2,
        window: int = WINDOW,
        certificate: str = "",
        key: str = "",
        trust: str = "",
        verify_host: bool = True,
        by_lock: bool = False,
        group: str = "",
        owns: bool = False,
    ) -> None:
        """Raises InvalidOption."""
        if confirm not in CONFIRMS:
            raise InvalidOption(f"{confirm!r} is no way to confirm", remedy="say synced or received")
        if not 1 <= copies_min <= 8:
            raise InvalidOption(f"{copies_min} copies cannot be asked for", remedy="ask for 1 to 8")
        if bool(certificate) != bool(trust) or (key and not certificate):
            raise InvalidOption(
                "TLS between brokers needs a certificate to show and one to trust: each of them dials and is dialled",
                remedy="give both --replication-certificate and --replication-trust, or neither",
            )
        self.listen: Final = listen
        self.peers: Final = peers
        self.confirm: Final = confirm
        self.copies_min: Final = copies_min
        self.bandwidth: Final = bandwidth
        self.secret: Final = secret
        self.patience: Final = patience
        self.kept: Final = kept
        self.window: Final = window
        self.certificate: Final = certificate
        self.key: Final = key
        self.trust: Final = trust
        self.verify_host: Final = verify_host
        self.by_lock: Final = by_lock
        self.group: Final = group
        self.owns: Final = owns
