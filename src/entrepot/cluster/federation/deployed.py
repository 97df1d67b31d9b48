"""Upstreams that other brokers deploy to this one, each as long as the connection that brought it (artemis.md 4.12).

Who may is in a role of `downstream-authorization`; where the broker asks nobody who he is, anybody may, as in Artemis.
Nothing of it is kept: who deploys does so again when this broker, or the connection, is there again. Until then what
was fetched and not acknowledged stays at the upstream, and is known when it comes again.

A description that comes again over the same connection changes nothing, unless it says something else. One of the same
name and place that comes over another connection takes the place of the first: its broker dialled again, and the
connection before is dead and not found so yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from entrepot.base.errors import AccessDenied, EntrepotError, Refused
from entrepot.cluster.federation.connector import FederationConnector
from entrepot.cluster.federation.description import understood
from entrepot.core.broker import BrokerCore
from entrepot.core.security.directory import Subject
from entrepot.protocols.artemis.membership import Federating, Onlooker

DEPLOYED_MAX: Final = 100
"""Upstreams that others deployed: each has a connection, and hears of every consumer and queue."""


class Deployments(Federating):
    """All of one broker."""

    def __init__(
        self,
        broker: BrokerCore,
        deployed: list[FederationConnector],
        roles: Callable[[], Sequence[str]],
        start: Callable[[FederationConnector], None],
        say: Callable[[str, str], None],
    ) -> None:
        """``deployed``: where they are listed; ``roles``: who may; ``start``: has one dialled, and raises Refused;

        ``say``: what an operator should know, who and what.
        """
        self.broker: Final = broker
        self.deployed: Final = deployed
        self._roles: Final = roles
        self._start: Final = start
        self._say: Final = say
        self._refusal = ""  # as the operator was told last
        self._bringers: Final[dict[FederationConnector, Onlooker]] = {}

    def deploy(self, asker: Onlooker, description: bytes) -> None:
        """Fetch as ``description`` says, from now on. Raises EntrepotError: nothing is changed then."""
        try:
            self._deploy(asker, self._admitted(asker), description)
        except EntrepotError as error:
            if self._refusal != error.message:  # who is refused asks again, every second perhaps
                self._refusal = error.message
                self._say("federation", f"{asker.called()} deploys an upstream, which is refused: {error.message}")
            raise

    def _admitted(self, asker: Onlooker) -> Subject | None:
        """Return who asks. Raises AccessDenied: he may not."""
        subject = asker.subject()
        if not self.broker.access.guarded:
            return subject
        if subject is None:
            raise AccessDenied("a broker that deploys a federation opens a session first")
        roles = self._roles()
        if not subject.peer and not any(role in subject.groups for role in roles):
            raise AccessDenied(
                f"{subject.name} may not deploy a federation to this broker",
                remedy="name one of his roles in <federations downstream-authorization=...> here",
            )
        return subject

    def _deploy(self, asker: Onlooker, subject: Subject | None, description: bytes) -> None:
        entry = understood(description)
        had = [one for one in self._bringers if one.name == entry.name]
        for one in had:
            if one.entry == entry and self._bringers[one] is asker:
                return
        if not had and len(self._bringers) >= DEPLOYED_MAX:
            raise Refused(f"{DEPLOYED_MAX} upstreams are deployed to this broker already")
        made = FederationConnector(entry)
        self._start(made)
        for one in had:
            self._end(one)
        self._bringers[made] = asker
        self.deployed.append(made)
        who = f"{subject.name} at {asker.called()}" if subject is not None and subject.name else asker.called()
        self._say(made.name, f"it was deployed by {who}")

    def forget(self, asker: Onlooker) -> None:
        """The connection of ``asker`` is gone, and what it brought ends."""
        for one in [one for one, bringer in self._bringers.items() if bringer is asker]:
            self._say(one.name, "it ends: the connection that deployed it is gone")
            self._end(one)

    def _end(self, one: FederationConnector) -> None:
        del self._bringers[one]
        self.deployed.remove(one)
        one.leave(int(self.broker.now))
