"""Bugs of clusters, planted to see that the simulation finds them. None of them is in the product.

They replace a method or a function, which native callers of the compiled build do not notice: they are planted in the
plain build. `HISTORIC` were in the product until this simulation found them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from bridge_bugs import patched
from carrier_bugs import BUGS as CARRIED
from entrepot.cluster.clusters.agreeing import Agreement
from entrepot.cluster.clusters.connection import ClusterConnection
from entrepot.cluster.clusters.grouping import GroupingHandler
from entrepot.cluster.clusters.moving import Mover
from entrepot.cluster.clusters.redistribution import Redistribution
from entrepot.cluster.clusters.remotes import RemoteQueues
from entrepot.cluster.clusters.unresolved import Unresolved
from entrepot.core.addressing.binding import RemoteBinding
from entrepot.core.events import announcing
from entrepot.core.events.facts import Reader
from entrepot.core.operators.upkeep import Purge
from entrepot.core.queue import head
from entrepot.core.reading.reading import Reading
from entrepot.core.sending.sending import Sending


def _nothing(genuine: Any) -> Any:
    return lambda *given, **named: None


def _moves_a_copy(genuine: Any) -> Any:
    def hand_over(self: Mover, message: Any, queues: Any, routes: Any) -> None:
        finish = self.source.stock.finish
        self.source.stock.finish = self.source.stock.put_back  # type: ignore[method-assign]
        try:
            genuine(self, message, queues, routes)
        finally:
            self.source.stock.finish = finish  # type: ignore[method-assign]

    return hand_over


def _moves_to_nowhere(genuine: Any) -> Any:
    return lambda self, message, queues, routes: genuine(self, message, [], routes)


def _is_an_application(genuine: Any) -> Any:
    def made(self: Mover, *given: Any) -> None:
        genuine(self, *given)
        self.subscriber = Reader()

    return made


def _hears_no(kind: str) -> Callable[[Any], Any]:
    def replaced(genuine: Any) -> Any:
        def take(self: RemoteQueues, said: Any) -> None:
            if said.get("_AMQ_NotifType") != kind:
                genuine(self, said)

        return take

    return replaced


def _tells_nobody_that_it_forgets(genuine: Any) -> Any:
    return lambda self, binding: binding.reset()


def _gives_numbers_again(genuine: Any) -> Any:
    return lambda name, routing, temporary, began: genuine(f"{routing}", routing, temporary, 0)


def _any_subscription_will_do(genuine: Any) -> Any:
    def follows(self: Sending, message: Any, target: Any, copy: Any) -> bool:
        led = bool(genuine(self, message, target, copy))
        if led and not copy.queues:
            copy.queues.extend(target.choice.choose_here(message))
        return led

    return follows


def _is_far(genuine: Any) -> Any:
    return lambda self, name, distance: False


def _counts_movers(genuine: Any) -> Any:
    def source(self: Reading, subscription: Any, destination: Any) -> Any:
        own = [(queue, queue.roster.own) for queue in self.table.queues.values()]
        for queue, _ in own:
            queue.roster.own = 0
        try:
            return genuine(self, subscription, destination)
        finally:
            for queue, count in own:
                queue.roster.own = count

    return source


def _keeps_nothing(genuine: Any) -> Any:
    def decide(self: Agreement, key: str, name: str) -> bool:
        self._know(key, name)
        return True

    return decide


def _forgets_who_waited(genuine: Any) -> Any:
    def made(self: GroupingHandler, *given: Any) -> None:
        genuine(self, *given)
        self._old = False

    return made


def _agrees_with_itself(genuine: Any) -> Any:
    return lambda self, key, name: self._know(key, name)


def _is_gone(genuine: Any) -> Any:
    def remove(self: RemoteQueues, binding: Any, *, lost: bool = False) -> None:
        genuine(self, binding)

    return remove


def _moves_groups(genuine: Any) -> Any:
    def start(self: ClusterConnection, *given: Any) -> None:
        genuine(self, *given)
        if self.registry.redistribution is not None:
            self.registry.redistribution.keeps_groups = False

    return start


def _starts_in_name_only(genuine: Any) -> Any:
    def resume(self: ClusterConnection) -> None:
        self.started = True

    return resume


def _forgets_what_waits(genuine: Any) -> Any:
    def sever(self: ClusterConnection, flow: Any) -> None:
        genuine(self, flow)
        work = Purge(self.broker, flow.remotes.store().name)
        while not self.started and not work.step().done:
            pass

    return sever


def _both(*each: AbstractContextManager[None]) -> AbstractContextManager[None]:
    stack = ExitStack()
    for one in each:
        stack.enter_context(one)
    return stack  # type: ignore[return-value]


def _numbers() -> AbstractContextManager[None]:
    return _both(*(patched(one, "told_as", _gives_numbers_again) for one in (head, announcing)))


HISTORIC: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "consumers behind a node are counted again after a lost connection": lambda: patched(
        RemoteQueues, "_forget_consumers", _tells_nobody_that_it_forgets
    ),
    "the broker's own reader is told of as a consumer": lambda: patched(Mover, "__init__", _is_an_application),
    "what was for a subscription that is gone goes to others": lambda: patched(
        Sending, "_follows", _any_subscription_will_do
    ),
    "a subscription that is moved cannot be read": lambda: patched(Reading, "_topic_queue", _counts_movers),
    "the echo of what a node told stands for the queue": lambda: patched(RemoteQueues, "_is_nearer", _is_far),
    "what comes for a queue behind a node that does not know it yet is lost": lambda: patched(
        Unresolved, "park", _nothing
    ),
}
OTHERS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a message that moves stays, too": lambda: patched(Mover, "hand_over", _moves_a_copy),
    "a message that moves arrives nowhere": lambda: patched(Mover, "hand_over", _moves_to_nowhere),
    "nobody looks when a consumer comes elsewhere": lambda: patched(Redistribution, "changed", _nothing),
    "consumers elsewhere are not forgotten": lambda: patched(RemoteQueues, "take", _hears_no("CONSUMER_CLOSED")),
    "consumers elsewhere are not noticed": lambda: patched(RemoteQueues, "take", _hears_no("CONSUMER_CREATED")),
    "the counts of before a lost connection stay": lambda: patched(RemoteBinding, "reset", _nothing),
    "two queues have one id": _numbers,
    "a cluster connection that is started again meets nobody": lambda: patched(
        ClusterConnection, "resume", _starts_in_name_only
    ),
    "what waits for other nodes goes when a cluster connection is stopped": lambda: patched(
        ClusterConnection, "_sever", _forgets_what_waits
    ),
    **{
        f"on the way: {name}": CARRIED[name]
        for name in (
            "a message is settled before the answer",
            "the duplicate id is forgotten at reconnect",
            "the ids of bridges are not remembered",
        )
    },
}
GROUPED: dict[str, Callable[[], AbstractContextManager[None]]] = {  # in worlds whose nodes agree about groups
    "what is decided about a group is not kept": lambda: patched(Agreement, "decide", _keeps_nothing),
    "a message of a group overtakes what waited before a crash": lambda: patched(
        GroupingHandler, "__init__", _forgets_who_waited
    ),
    "each node decides about a group for itself": lambda: patched(Agreement, "propose", _agrees_with_itself),
    "a queue beyond a node that fell is taken for gone": lambda: patched(RemoteQueues, "_remove", _is_gone),
    "groups are moved as all else": lambda: patched(ClusterConnection, "start", _moves_groups),
}
CHAINS = (  # what needs a long way, and a node on it that died
    "the echo of what a node told stands for the queue",
    "what comes for a queue behind a node that does not know it yet is lost",
    "consumers behind a node are counted again after a lost connection",
)
BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {**HISTORIC, **OTHERS, **GROUPED}


def planted(bug: str) -> AbstractContextManager[None]:
    """Plant ``bug`` for the length of a with statement."""
    return BUGS[bug]()


def world_of(bug: str) -> dict[str, bool]:
    """Return in which kind of world ``bug`` is found: what `run_clusters` is told."""
    if bug in CHAINS:
        return {"chains": True}
    return {"groups": True} if bug in GROUPED else {}
