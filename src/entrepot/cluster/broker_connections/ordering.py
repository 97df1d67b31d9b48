"""The control link of a federation from the side that dialled, and the policies that it has the other side carry out.

Policies are said behind the link of events, so that the other side is told from the beginning what is made here that it
asks for in vain. It reads by links of its own then, over the same connection; only what the policies mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.errors import AccessDenied
from entrepot.cluster.broker_connections.options import FederationEntry, FetchPolicy
from entrepot.cluster.broker_connections.orders import written
from entrepot.cluster.federation.policies import takes_address, takes_queue
from entrepot.model.address import ANYCAST, Destination
from entrepot.protocols.amqp.calling.federating import ControlSending, EventsSending
from entrepot.protocols.amqp.calling.port import LinkOwner
from entrepot.protocols.amqp.calling.session import AmqpCaller
from entrepot.protocols.amqp.federated import Federated


class Granted(Federated):
    """A federation that is ordered from here: the other side may read what a policy of the file means."""

    def __init__(self, name: str, peer: str, policies: tuple[FetchPolicy, ...]) -> None:
        super().__init__(name, peer)
        self.policies: Final = policies

    def admit(self, where: Destination, policy: str) -> None:
        """Raise AccessDenied for what no policy means."""
        if not any(_means(one, where) for one in self.policies):
            raise AccessDenied(
                f"no policy that was ordered there means {where.queue or where.name}",
                remedy="name it in a remote policy of this connection",
            )


def _means(policy: FetchPolicy, where: Destination) -> bool:
    if policy.queues is not None:
        return where.queue != "" and takes_queue(policy.queues, where.name, where.queue)
    return policy.addresses is not None and not where.queue and takes_address(policy.addresses, where.name)


class Ordering(LinkOwner):
    """Hears of the control link of one connection. ``ready`` is called when it is there, ``over`` when it is not."""

    def __init__(
        self, caller: AmqpCaller, entry: FederationEntry, ready: Callable[[], None], over: Callable[[str], None]
    ) -> None:
        self.caller: Final = caller
        self.entry: Final = entry
        self._ready: Final = ready
        self._over: Final = over
        self._events: EventsSending | None = None
        self.control: ControlSending | None = None

    def ask(self, name: str) -> None:
        """Ask for the control link."""
        self.caller.federation = self.entry.name
        made = self.caller.send_to(name, "", ANYCAST, [], "", ControlSending)
        assert isinstance(made, ControlSending)
        made.owner = self
        self.control = made

    def attached(self) -> None:
        """The connection is one of a federation: what is wanted may be fetched, and ordered."""
        control, session = self.control, self.caller.session
        if control is not None and session is not None and self.entry.remote:
            session.federated = Granted(self.entry.name, self.caller.other(), self.entry.remote)
            events = self.caller.send_to(f"events {control.name}", "", ANYCAST, [], "", EventsSending)
            assert isinstance(events, EventsSending)
            events.owner = _Events(self, events)
            self._events = events
        self._ready()

    def order(self) -> None:
        """It is known whether the other side is told of what is made here: say the policies."""
        control = self.control
        if control is not None and not control.orders:
            why = control.order([written(policy) for policy in self.entry.remote])
            if why:
                control.close()
                self.ended(why)

    def granted(self, credit: int) -> None:
        """The other side takes commands."""
        if self.control is not None:
            self.control.say_orders()

    def ended(self, why: str) -> None:
        """It is gone, and links of the federation are of no use to the other side."""
        self.control = None
        session = self.caller.session
        if session is not None:
            session.federated = None
        events, self._events = self._events, None
        if events is not None and events.telling is not None:
            events.telling.end()
        self._over(why)


class _Events(LinkOwner):
    """Hears of the link of events."""

    def __init__(self, ordering: Ordering, link: EventsSending) -> None:
        self.ordering: Final = ordering
        self.link: Final = link
        self.ordered = False

    def attached(self) -> None:
        """The other side is told from now on."""
        session = self.link.session
        if session.federated is not None:
            self.link.begin(session.federated)
        self._order()

    def _order(self) -> None:
        if not self.ordered:
            self.ordered = True
            self.ordering.order()

    def granted(self, credit: int) -> None:
        """It takes events."""
        self.link.allowed()

    def ended(self, why: str) -> None:
        """It takes no events, and does without."""
        self._order()
