"""Where sends go: from destinations to targets, through services, policies and the routing table. [C]"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import InvalidDestination
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.core.addressing.address_settings import RECALL_NONE
from entrepot.core.addressing.queues import Queues, QueueWatcher
from entrepot.core.addressing.routing import RoutingTable, Service, Target, default_routing
from entrepot.core.events.facts import ARRIVALS
from entrepot.core.ports import Host
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination


@mypyc_attr(allow_interpreted_subclasses=True)
class Retroactive(QueueWatcher):
    """Keeps the last messages of addresses for queues that come later."""

    def prepare(self, address: str, count: i64) -> bool:
        """Keep the last ``count`` messages of ``address`` from now on; return whether anything changed."""
        return False


class Addresses:
    """Looks up targets, and knows what of the broker itself has an address."""

    def __init__(self, host: Host, queues: Queues) -> None:
        self.host: Host = host
        self.queues: Queues = queues
        self.table: RoutingTable = queues.table
        self.retroactive: Retroactive = Retroactive()
        self.services: dict[str, Service] = {}  # address -> what takes all that is sent there
        self.families: dict[str, Service] = {}  # the same for all addresses that begin like this

    def target(self, destinations: list[Destination]) -> Target:
        """Return where sends to ``destinations`` go (several: a composite); creates queues as the policy allows.

        Raises InvalidDestination for a wildcard, or a name that does not exist and may not be created.
        """
        if len(destinations) == 1:
            return self._target(destinations[0])
        composite = Target(",".join(part.name for part in destinations), UNTYPED)
        for part in destinations:
            if self.service_at(part.name) is not None:
                raise InvalidDestination(f"{part.name!r} cannot be one of several", remedy="send to it alone")
        composite.parts = [self._target(part) for part in destinations]
        for made in composite.parts:
            if made.stamps and not composite.stamps:
                composite.stamps = True
                composite.policy = made.policy
        return composite

    def _target(self, destination: Destination) -> Target:
        service = self.service_at(destination.name)
        if service is None and self.table.wildcards and is_pattern(destination.name, MIXED):
            raise InvalidDestination(
                f"cannot send to the wildcard {destination.name!r}", remedy="send to a name, or to several: a,b"
            )
        routing = destination.routing
        if routing == UNTYPED:
            routing = default_routing(self.table, destination.name)
        if destination.queue or (routing == ANYCAST and service is None):
            self.queues.need_own(destination)
        target = Target(destination.name, routing, destination.queue)
        target.temporary = destination.temporary
        self.refresh(target)
        return target

    def refresh(self, target: Target) -> None:
        """Look the target up again; an anycast address whose queue was deleted gets it back, or nobody would.

        Raises InvalidDestination when it may not come back, AccessDenied when who keeps the target may not send there
        any more.
        """
        if target.permit is not None:
            target.permit.renew()
        if not target.parts and not target.queue_name:
            target.service = self.service_at(target.name)
            if target.service is not None:
                target.attach_nothing(self.table.version)
                return
        self.table.resolve(target)
        self.host.effort.spent += 1 + (len(target.choice.every) >> 1)
        if target.parts:
            return
        if (target.routing != MULTICAST or target.queue_name) and target.choice.is_empty():
            self.queues.need_own(Destination(target.name, target.routing, target.temporary, target.queue_name))
            self.table.resolve(target)
        policy = self.queues.policies.of(target.name, target.routing)
        remembers = policy.retroactive > 0 and not target.queue_name
        if remembers and self.retroactive.prepare(target.name, policy.retroactive):
            self.table.resolve(target)
        target.policy = policy
        target.asked = policy.asked()
        target.tells = self.host.hub.tells(target.asked)
        told = policy.recall != RECALL_NONE or target.tells & ARRIVALS != 0
        mirrored = self.host.mirrors is not None  # what is sent goes to further queues: `hand_out` knows
        target.careful = told or mirrored or self.host.journal.space.limits.full != ""
        target.stamps = policy.stamps()

    def offer(self, address: str, service: Service) -> None:
        """Let ``service`` take all that is sent to ``address`` from now on. It costs other sends nothing."""
        self.services[address] = service
        self.table.version += 1

    def offer_family(self, prefix: str, service: Service) -> None:
        """Let ``service`` take all that is sent to addresses that begin with ``prefix``, wildcards included."""
        self.families[prefix] = service
        self.table.version += 1

    def service_at(self, address: str) -> Service | None:
        """Return what takes all that is sent to ``address``, if that is not queued."""
        found = self.services.get(address)
        if found is None:
            for prefix, service in self.families.items():
                if address.startswith(prefix):
                    return service
        return found


def written(target: Target) -> str:
    """Return the text from which `model.address.parse` makes the destinations of ``target`` again."""
    if target.parts:
        return ",".join(written(part) for part in target.parts)
    if target.queue_name:
        return f"{target.name}::{target.queue_name}"
    kind = "topic" if target.routing == MULTICAST else "queue"
    return f"{kind}://{target.name}"
