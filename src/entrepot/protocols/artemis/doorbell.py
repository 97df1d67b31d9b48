"""Whether anybody listens to notifications: until a queue is bound to their address, nothing is made of what happens.

Nor is `notifying` imported. Until then the only facts that are listened to are those of queues that come and go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from entrepot.base.patterns import MIXED, is_pattern
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import QUEUE_ADDED, QUEUE_REMOVED, Fact, Listener, QueueFact
from entrepot.core.observing import ignore, observe
from entrepot.core.ports import Informant
from entrepot.model.address import MULTICAST

if TYPE_CHECKING:
    from entrepot.protocols.artemis.membership import Membership
    from entrepot.protocols.artemis.notifying import Notifications


class Doorbell(Listener):
    """Lets the notifications of ``broker`` on ``address`` be told while somebody is there who would read them."""

    def __init__(self, broker: BrokerCore, address: str, plugin: int = 0, *, sessions: bool = True) -> None:
        """``plugin`` and ``sessions``: as `Notifications` has them."""
        super().__init__(QUEUE_ADDED | QUEUE_REMOVED)
        self.broker: BrokerCore = broker
        self.address: str = address
        self.plugin: int = plugin
        self.sessions: bool = sessions
        self.listening: bool = False
        self._notifications: Notifications | None = None

    @property
    def notifications(self) -> Notifications:
        """The notifications, made if nobody needed them yet."""
        made = self._notifications
        if made is None:
            from entrepot.protocols.artemis.notifying import Notifications  # noqa: PLC0415 - few brokers need it

            made = Notifications(self.broker, self.address, self.plugin, sessions=self.sessions)
            self._notifications = made
        return made

    def heard(self, fact: Fact) -> None:
        """Look again whether anybody reads, if a queue came or went that could be bound to the address."""
        if isinstance(fact, QueueFact):
            place = fact.place
            if self.address in place.name or place.address == self.address or is_pattern(place.address, MIXED):
                self.look()

    def look(self) -> None:
        """Listen to what happens if anybody reads of it, and only then."""
        target = Target(self.address, MULTICAST)
        self.broker.table.resolve(target)
        read = not target.choice.is_empty() or len(target.diverts) > 0
        if read == self.listening:
            return
        self.listening = read
        if read:
            observe(self.broker, self.notifications)
        else:
            ignore(self.broker, self.notifications)


class QueueInformant(Informant):
    """Answers brokers that ask what queues there are."""

    def __init__(self, doorbell: Doorbell, membership: Callable[[], Membership | None]) -> None:
        """``membership``: returns who knows who is in the cluster, None for nobody."""
        super().__init__(doorbell.address, doorbell.broker.wall)
        self.doorbell: Doorbell = doorbell
        self.membership: Callable[[], Membership | None] = membership

    def topology(self) -> list[dict[str, str]]:
        """Return who is in the cluster, as ``listNetworkTopology`` says it."""
        membership = self.membership()
        return [] if membership is None else membership.rows()

    def send_queue_info(self, queue: str, rule: str) -> None:
        """Tell ``queue`` what there is. Raises InvalidDestination when there is no such queue."""
        self.doorbell.notifications.send_queue_info(queue, rule)


def _nobody() -> Membership | None:
    return None


def install(
    broker: BrokerCore,
    address: str,
    plugin: int = 0,
    *,
    sessions: bool = True,
    membership: Callable[[], Membership | None] = _nobody,
) -> Doorbell:
    """Let what happens in ``broker`` be told on ``address`` from now on."""
    broker.table.guarded[address] = True  # who reads all topics meant those of applications
    doorbell = Doorbell(broker, address, plugin, sessions=sessions)
    broker.hub.add(doorbell)
    broker.informant = QueueInformant(doorbell, membership)
    doorbell.look()
    return doorbell
