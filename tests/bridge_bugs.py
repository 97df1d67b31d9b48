"""Bugs of bridges, planted to see that the simulation finds them. None of them is in the product.

They replace a method, which native callers of the compiled build do not notice: they are planted in the plain build.
`HISTORIC` were in brokers of this kind once; `OTHERS` break one rule each of what bridges promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from typing import Any

import msgspec

from entrepot.cluster.link import LinkCore, State
from entrepot.cluster.networks import comparison
from entrepot.cluster.networks.admission import BrokerPath, Replay
from entrepot.cluster.networks.bridge import Bridge
from entrepot.cluster.networks.demand import AdvisoryDemand, Interests
from entrepot.cluster.networks.durables import Durables
from entrepot.cluster.networks.forwarding import Forwarding
from entrepot.cluster.networks.temporaries import Temporaries
from entrepot.cluster.supervision import Supervision
from entrepot.core.identities import Identities
from entrepot.core.sending.copies import Copies
from entrepot.protocols.openwire import replaying
from entrepot.protocols.openwire.relaying import Crossing
from entrepot.simulation import sites


@contextmanager
def patched(owner: Any, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    genuine = getattr(owner, name)
    setattr(owner, name, make(genuine))
    try:
        yield
    finally:
        setattr(owner, name, genuine)


def _dies_in_the_handshake(genuine: Any) -> Any:
    def failed(self: LinkCore, attempt: int, why: str, now: int) -> Any:
        if self.state in (State.DIALLING, State.OPENING):
            return []
        return genuine(self, attempt, why, now)

    return failed


def _takes_a_loss_for_a_shutdown(genuine: Any) -> Any:
    def failed(self: LinkCore, attempt: int, why: str, now: int) -> Any:
        return self.close(why, now) if self.state is State.OPEN else genuine(self, attempt, why, now)

    return failed


def _stamps_no_path(genuine: Any) -> Any:
    strangers = count()

    def forward(self: Forwarding, *rest: Any) -> Any:
        here, crossing = self._here, self._crossing
        stranger = f"nobody{next(strangers)}"  # a path names each broker once, and these have to count
        self._here = type(here)(stranger)
        self._crossing = Crossing(self.producer, stranger, "")
        try:
            return genuine(self, *rest)
        finally:
            self._here, self._crossing = here, crossing

    return forward


def _settles_before_the_answer(genuine: Any) -> Any:
    def forward(self: Bridge, *rest: Any) -> Any:
        genuine(self, *rest)
        return 0

    return forward


def _forgets_what_was_under_way(genuine: Any) -> Any:
    def clear(self: LinkCore) -> Any:
        for consumer, number in self.under_way.values():
            if consumer.queue is not None:
                consumer.queue.settle(consumer, number)
        genuine(self)

    return clear


def _looks_away(genuine: Any) -> Any:
    def look(self: Supervision, port: Any, now: int, *, occupied: bool) -> str:
        self.due = now + self.interval
        return ""

    return look


def _agrees_on_silence(genuine: Any) -> Any:
    def offered(place: Any, interval: int) -> Any:
        return msgspec.structs.replace(genuine(place, interval), max_inactivity_duration=0)

    return offered


@contextmanager
def unsupervised() -> Iterator[None]:
    with patched(Supervision, "look", _looks_away), patched(sites, "offered", _agrees_on_silence):
        yield


def _ignores_the_path(genuine: Any) -> Any:
    def refusal(self: BrokerPath, message: Any, queue: Any) -> str:
        said: str = genuine(self, message, queue)
        return "" if said.startswith("it was at") else said

    return refusal


def _ignores_the_ttl(genuine: Any) -> Any:
    def refusal(self: BrokerPath, message: Any, queue: Any) -> str:
        said: str = genuine(self, message, queue)
        return said if said.startswith("it was at") else ""

    return refusal


def _doubts_nothing(genuine: Any) -> Any:
    def clear(self: LinkCore) -> Any:
        genuine(self)
        self.doubts.clear()

    return clear


def _ends_demand_with_the_first_reader(genuine: Any) -> Any:
    def removed(self: AdvisoryDemand, consumer_id: Any) -> Any:
        for demand in self.demands:
            if consumer_id in demand.remote:
                demand.remote = dict.fromkeys([consumer_id])
        return genuine(self, consumer_id)

    return removed


def _never_syncs_demand(genuine: Any) -> Any:
    return lambda self: None


def _nothing(genuine: Any) -> Any:
    return lambda self, *rest, **named: None


def _no_effects(genuine: Any) -> Any:
    return lambda self, *rest: []


def _forgets_the_suppressed(genuine: Any) -> Any:
    def gone(self: Interests, demand: Any) -> None:
        self.demands.pop(demand, None)

    return gone


def _keeps_what_is_gone(genuine: Any) -> Any:
    def drop(self: Temporaries, where: Any) -> None:
        if self.end.wire is None:  # the connection ended: that much it does
            genuine(self, where)

    return drop


def _never_lets_go_back(genuine: Any) -> Any:
    def refusal(self: Replay, message: Any, queue: Any) -> str:
        return self.path.refusal(message, queue)

    return refusal


def _ignores_the_number(genuine: Any) -> Any:
    return lambda queue, message, number, came: genuine(queue, message, 0, came)


def _looks_at_every_mark(genuine: Any) -> Any:
    return lambda self, stream, number, mark: stream.sender.has(mark)


@contextmanager
def _without_numbers() -> Iterator[None]:
    with patched(comparison, "mark_of", _ignores_the_number), patched(Copies, "seen", _looks_at_every_mark):
        yield


def _knows_by_the_highest(genuine: Any) -> Any:
    return lambda self, stream, number, mark: number <= stream.highest


def _begins_with_no_number(genuine: Any) -> Any:
    def take_back(self: Copies, sender: Any, chunk: Any, value: bytes) -> None:
        genuine(self, sender, chunk, value)
        sender.highest = chunk.highest = -1

    return take_back


def _sees_no_path(genuine: Any) -> Any:
    return lambda ids: ()


def _stays_itself(genuine: Any) -> Any:
    def made(self: LinkCore, *rest: Any, **named: Any) -> None:
        genuine(self, *rest[:4], **{key: value for key, value in named.items() if key != "doubts"})

    return made


HISTORIC: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "a bridge dies of an error in the handshake": lambda: patched(LinkCore, "failed", _dies_in_the_handshake),
    "a lost connection is taken for a shutdown": lambda: patched(LinkCore, "failed", _takes_a_loss_for_a_shutdown),
    "the path is not stamped": lambda: patched(Forwarding, "forward", _stamps_no_path),
    "demand is not told to who subscribes late": lambda: patched(replaying.Replay, "resume", _nothing),
    "a message is settled before the peer has it": lambda: patched(Bridge, "forward", _settles_before_the_answer),
    "what was under way is forgotten": lambda: patched(LinkCore, "_clear", _forgets_what_was_under_way),
    "the canary is never sent and silence is ignored": unsupervised,
}

OTHERS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "the path is not looked at": lambda: patched(BrokerPath, "refusal", _ignores_the_path),
    "the TTL is not looked at": lambda: patched(BrokerPath, "refusal", _ignores_the_ttl),
    "what may have arrived is not marked": lambda: patched(LinkCore, "_clear", _doubts_nothing),
    "what may have arrived is marked on the same link only": lambda: patched(LinkCore, "__init__", _stays_itself),
    "demand ends with the first of several readers": lambda: patched(
        AdvisoryDemand, "consumer_removed", _ends_demand_with_the_first_reader
    ),
    "demand that was suppressed is forgotten": lambda: patched(Interests, "gone", _forgets_the_suppressed),
    "durable demand is not synced": lambda: patched(Identities, "secure", _never_syncs_demand),
    "a durable subscription that is superseded keeps what it holds": lambda: patched(Durables, "hand_over", _nothing),
    "temporary destinations are not made beyond a bridge": lambda: patched(Temporaries, "make", _nothing),
    "temporary destinations are not served another way": lambda: patched(Bridge, "adopt_temporary", _nothing),
    "temporary destinations stay beyond a bridge": lambda: patched(Temporaries, "drop", _keeps_what_is_gone),
    "static destinations are not served": lambda: patched(AdvisoryDemand, "_static", _no_effects),
    "a return is taken for a repetition": _without_numbers,
    "a return is taken for a repetition by its id": lambda: patched(comparison, "path_of", _sees_no_path),
    "copies are forgotten in a restart": lambda: patched(Copies, "board", _nothing),
    "what came out of order is taken for a repetition": lambda: patched(Copies, "seen", _knows_by_the_highest),
    "no number is known after a restart": lambda: patched(Copies, "_take_back", _begins_with_no_number),
    "nothing goes back for who moved": lambda: patched(Replay, "crossing", _never_lets_go_back),
}

BUGS = {**HISTORIC, **OTHERS}


def planted(name: str) -> AbstractContextManager[None]:
    """Return a context in which the bug ``name`` is there; "" for none."""
    return BUGS[name]() if name else nullcontext()
