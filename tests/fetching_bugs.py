"""Bugs of federation over AMQP, planted to see that the simulation finds them. None of them is in the product.

They replace a method, which native callers of the compiled build do not notice: they are planted in the plain build.
The first one was in the product until this simulation found it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from bridge_bugs import patched
from entrepot.cluster.broker_connections.obeying import Obeyed
from entrepot.cluster.federation.demand import Demand
from entrepot.protocols.amqp import federating
from entrepot.protocols.amqp.calling.federating import ControlSending, Fetching, Pulling
from entrepot.protocols.amqp.federating import Fetched
from entrepot.protocols.amqp.incoming import Incoming


def _answers_at_once(genuine: Any) -> Any:
    def read(link: Fetched, asked: Any, source: Any, capability: str) -> None:
        made, link.made = link.made, False
        genuine(link, asked, source, capability)
        link.made = made

    return read


def _deletes_with_its_link(genuine: Any) -> Any:
    def end(self: Fetched, last_delivered: int) -> None:
        genuine(self, last_delivered)
        if self.made:
            queues = self.session.connection.broker.queues
            queue = queues.table.queues.get(self.feed.destinations[0].queue)
            if queue is not None:
                queues.delete(queue, "a bug")

    return end


def _accepts_before_the_disk(genuine: Any) -> Any:
    def send(self: Incoming, *rest: Any) -> bool:
        genuine(self, *rest)
        return False

    return send


def _wanted_for_ever(genuine: Any) -> Any:
    def release(self: Demand, holder: Any) -> None:
        if holder[0] != "consumer":
            genuine(self, holder)

    return release


def _granted_once(genuine: Any) -> Any:
    def replenish(self: Fetching) -> None:
        if self.count == 0:
            genuine(self)

    return replenish


def _none_waits(genuine: Any) -> Any:
    return lambda self: 0


def _looks_never_again(genuine: Any) -> Any:
    def replenish(self: Pulling) -> None:
        genuine(self)
        self._forget_look()

    return replenish


def _nothing(genuine: Any) -> Any:
    return lambda *given, **named: None


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "who reads an address is answered before it is stored": lambda: patched(federating, "_read", _answers_at_once),
    "the queue of an address goes when its link is cut off": lambda: patched(Fetched, "end", _deletes_with_its_link),
    "what is fetched is accepted before the disk has it": lambda: patched(Incoming, "_send", _accepts_before_the_disk),
    "who has left is fetched for": lambda: patched(Demand, "_release", _wanted_for_ever),
    "credit is granted once": lambda: patched(Fetching, "replenish", _granted_once),
    "what is pulled is asked for while messages wait": lambda: patched(Pulling, "backlog", _none_waits),
    "who pulls looks once whether messages wait": lambda: patched(Pulling, "replenish", _looks_never_again),
    "policies are not brought": lambda: patched(ControlSending, "say_orders", _nothing),
    "what was refused there is not asked for again": lambda: patched(Obeyed, "_put_off", _nothing),
}


def planted(bug: str) -> AbstractContextManager[None]:
    """Plant ``bug`` for the length of a with statement."""
    return BUGS[bug]()
