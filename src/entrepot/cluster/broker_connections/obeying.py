"""Policies that another broker brings, which dialled this one: what is wanted here is fetched from there (4.13).

Artemis calls them remote policies. They hold as long as the control link that brought them. This broker asks for links
over the connection that the other one opened; what comes is taken with the rights of the user who opened it, settled
when it is on disk here, and given back where there is no room. What the other side refuses is asked for again later, or
when it tells that it was made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Duration
from entrepot.base.errors import EntrepotError, Refused
from entrepot.cluster.broker_connections.answers import Refusals
from entrepot.cluster.broker_connections.federating import Federating
from entrepot.cluster.broker_connections.options import FetchOptions
from entrepot.cluster.broker_connections.orders import CONFIGURATION, options_of, read
from entrepot.cluster.broker_connections.wanted import FetchWish, Wish
from entrepot.cluster.dialled import Looking
from entrepot.core.security.access import SEND
from entrepot.protocols.amqp.calling.asking import HANDLES, Asking
from entrepot.protocols.amqp.calling.federating import Fetch, Fetching, Pulling
from entrepot.protocols.amqp.calling.port import LinkOwner
from entrepot.protocols.amqp.calling.taking import Taking
from entrepot.protocols.amqp.refusals import ILLEGAL_STATE, AmqpRefused
from entrepot.protocols.amqp.session import AmqpSession, Obeying

POLICIES_MOST: Final = 100
"""Of one connection: each hears of every consumer and queue."""
LINKS_MOST: Final = 10_000
"""Of one connection, at once."""
ATTACHED_A_TURN: Final = 500
AGAIN: Final[Duration] = 5 * SECOND
"""After what was refused there is asked for again; the other side may tell sooner that it is there."""
UNWANTED: Final = "nobody wants it here any more"
CHANGED: Final = "its policy has other settings now"


class _Owner(LinkOwner):
    """Hears of one link."""

    def __init__(self, obeyed: Obeyed, key: str) -> None:
        self.obeyed: Final = obeyed
        self.key: Final = key

    def attached(self) -> None:
        """It is there."""
        self.obeyed.refusals.forget(self.key)

    def ended(self, why: str) -> None:
        """It is gone."""
        self.obeyed.unlinked(self.key, why)


def _asking(session: AmqpSession) -> Asking:
    """Return what asks for links on ``session``: one for good, as the peer may still answer what was asked before."""
    asked = session.asked
    if isinstance(asked, Asking):
        return asked
    first = int(session.connection.options.handle_max) + 1  # below are those that the other side chooses
    made = Asking(session, first, min(int(session.handles_theirs), HANDLES), False)
    session.asked = made
    return made


class Obeyed(Obeying):
    """Those of one connection. ``takings``: its links, by the keys of ``wishes``."""

    def __init__(self, session: AmqpSession, said: dict[str, object], tell: Callable[[str, str], None]) -> None:
        """``said``: by the control link, of its federation. ``tell``: takes what an operator should know, who and what.

        Raises Refused.
        """
        connection = session.connection
        self.session: Final = session
        self.broker: Final = connection.broker
        self.name: Final = str(said.get("name", ""))
        self.peer: Final = f"{connection.other()} ({connection.peer})"
        self.shared: Final = options_of(said.get(CONFIGURATION), FetchOptions())
        self.wishes: Final[dict[str, Wish]] = {}
        self.takings: Final[dict[str, Taking]] = {}
        self.received = 0  # over links that have ended
        self.refusals: Final = Refusals()
        self._tell: Final = tell
        self.since: Final = int(self.broker.now)
        self._over = False
        self._looking: Final = Looking(self.broker, self.look)
        self._federating: Final = Federating(self.broker, self.name, self.wishes, self.soon)
        self._asking: Final = _asking(session)

    # -- what the other broker says ------------------------------------------------------------------------------------

    def order(self, kind: str, said: dict[str, object]) -> None:
        """Carry out a policy, from now on; one of the same name takes the place of what was. Raises Refused."""
        try:
            policy = read(kind, said, self.shared)
        except Refused as refusal:
            self._say(f"a policy is refused: {refusal.message}")
            raise
        federating = self._federating
        if federating.has(policy):
            return
        if len(federating.policies) >= POLICIES_MOST and not federating.follows(policy):
            raise Refused(f"{POLICIES_MOST} policies are carried out for this connection already")
        federating.add(policy)
        self._say(f"its policy {policy.name} is carried out here")

    def made(self, address: str, queue: str) -> None:
        """What was asked for in vain is there."""
        for key, wish in self.wishes.items():
            if isinstance(wish, FetchWish) and (wish.fetch.where.queue == queue if queue else wish.address == address):
                self.refusals.forget(key)
        self.soon()

    def end(self) -> None:
        """The federation is over: its links end with their session, or by themselves, with a reason.

        Without one the other side would take it that nobody wants the addresses any more, and drop what waits for this
        broker; it brings its policies again.
        """
        if self._over:
            return
        self._over = True
        self._federating.end()
        self._looking.end()
        self.wishes.clear()
        for taking in list(self.takings.values()):
            taking.detach_for(AmqpRefused("the federation that brought its policy has ended", ILLEGAL_STATE))

    def report(self) -> dict[str, object]:
        """Return what an operator wants to know, as one row beside those of connections that were dialled."""
        return {
            "connector": self.name,
            "kind": "federation",
            "peer": "",
            "peer_id": self.session.connection.other(),
            "peer_url": "",
            "place": "",
            "state": "open",
            "since_ms": (int(self.broker.now) - self.since) // MILLISECOND,
            "initiator": False,
            "duplex": False,
            "demand": list(self.wishes),
            "demands": len(self.wishes),
            "waiting": dict(self.refusals.whys),
            "received": self.received + sum(int(taking.received) for taking in self.takings.values()),
            "error": "",
            "fetches": [
                self._about(key, wish.fetch) for key, wish in self.wishes.items() if isinstance(wish, FetchWish)
            ],
        }

    def _about(self, key: str, fetch: Fetch) -> dict[str, object]:
        """Return what is fetched, how much came since its link is there, and why none is; for `entrepot explain`."""
        taking = self.takings.get(key)
        return {
            "address": fetch.where.name,
            "queue": fetch.where.queue,
            "policy": fetch.policy,
            "received": 0 if taking is None else int(taking.received),
            "held_back": int(taking.holds_back()) if isinstance(taking, Pulling) else 0,
            "full": taking is not None and bool(taking.withheld) and not taking.closing,
            "why": self.refusals.why(key),
        }

    def _say(self, what: str) -> None:
        self._tell("federation", f"{self.name} of {self.peer}: {what}")

    # -- links ---------------------------------------------------------------------------------------------------------

    def soon(self) -> None:
        """Look what is wanted when what is under way is done."""
        if not self._over:
            self._looking.at(int(self.broker.now))

    def look(self) -> None:
        """Have the links that are wanted, and no others."""
        now = int(self.broker.now)
        for key, taking in list(self.takings.items()):
            _end_unwanted(taking, self.wishes.get(key))
        for key in [key for key in self.refusals.due if key not in self.wishes]:
            self.refusals.forget(key)
        left = ATTACHED_A_TURN
        for key, wish in self.wishes.items():
            if key in self.takings or not isinstance(wish, FetchWish):
                continue
            due = self.refusals.due.get(key, now)
            if due > now:
                self._looking.at(due)
            elif left == 0:
                self._looking.at(now)
                return
            else:
                left -= 1
                self._attach(key, wish)

    def _attach(self, key: str, wish: FetchWish) -> None:
        name = f"{self.name} {wish.address}:{self.broker.entropy.token(16).hex()}"
        connection = self.session.connection
        try:
            if len(self.takings) >= LINKS_MOST:
                raise Refused(f"{LINKS_MOST} links fetch over this connection")
            if not self.broker.access.has_right(connection.subject, wish.address, SEND):
                raise Refused(f"its user {connection.subject.name} may not send to {wish.address} here")
            taking = self._asking.take_from(name, wish.address, [], wish.fetch.where, wish.fetch)
        except EntrepotError as error:
            self._put_off(key, error.message)
            return
        taking.owner = _Owner(self, key)
        self.takings[key] = taking

    def unlinked(self, key: str, why: str) -> None:
        """A link has ended: it is asked for again, unless nobody wants it any more."""
        taking = self.takings.pop(key, None)
        if taking is not None:
            self.received += int(taking.received)
        if key not in self.wishes or self._over:
            return
        if taking is not None and taking.renews:
            self.soon()
        else:
            self._put_off(key, why)

    def _put_off(self, key: str, why: str) -> None:
        due = int(self.broker.now) + AGAIN
        if self.refusals.add(key, why, due):
            self._say(f"the link {key}: {why}")
        self._looking.at(due)


def _end_unwanted(taking: Taking, wish: Wish | None) -> None:
    """End a link that is not wanted any more, and one that fetches otherwise than ``wish`` says: that comes anew."""
    if wish is None:
        taking.close(UNWANTED)
    elif isinstance(wish, FetchWish) and isinstance(taking, Fetching) and not wish.fetch.alike(taking.fetch):
        taking.renew(CHANGED)
