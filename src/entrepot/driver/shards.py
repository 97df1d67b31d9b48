"""Who is there: the shards of a query, and the brokers and queues that are looked for while it runs.

A broker of ``url`` that does not answer is looked for again every two seconds, beside everything else; one that the
others announce is met once they do. A refusal of a broker that ``url`` names ends the query; one that it does not name
is passed over, and that is said once. Where a query reads several queues (`scope.py`), every broker is asked for them
when it is met and every two seconds from then on.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import EntrepotError, LeaseError, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.driver.effects import Await, Clock, Course, Line, Scout, Scouting
from entrepot.driver.ledger import number
from entrepot.driver.scope import QUEUES_MAX, Scope, parts_of, read_list
from entrepot.driver.search import Reach, Search
from entrepot.driver.shard import Contact, QueueGone, Shard, Subject

LOOK_EVERY: Final = 2.0  # s between looks for brokers that are not there
AGAIN_AFTER: Final = 15.0  # s that an announced broker which refuses is left alone

log: Final = logging.getLogger("entrepot.pipeline")


class Shards:
    """The shards by key. ``starting`` returns the headers with which a lease begins that is new."""

    def __init__(
        self,
        subject: Subject,
        reach: Reach,
        clock: Clock,
        starting: Callable[[], Mapping[str, str]],
        scope: Scope | None = None,
    ) -> None:
        self.search = Search(reach, clock)
        self.all: dict[str, Shard] = {}
        self.contacts: dict[str, Contact] = {}  # by broker
        self.noted: Mapping[str, int] = {}  # positions by key that the checkpoint has: their queues may be gone
        self.gone: dict[str, None] = {}  # keys of queues that were deleted
        self._subject = subject
        self._scope = scope
        self._clock = clock
        self._starting = starting
        self._scouting: Scouting | None = None
        self._wanted: list[str] = []  # by route of the search: the announced broker; "" for those of the url
        self._looked = 0.0
        self._same: dict[str, str] = {}  # further places of a broker that has another connection
        self._passed_over: dict[str, float] = {}  # announced brokers that cannot be read -> when to try again

    def live(self) -> list[Shard]:
        """Return the shards whose connection stands, as far as we know."""
        return [shard for shard in self.all.values() if shard.live]

    def is_live(self, key: str) -> bool:
        """Return whether the connection to the broker of this shard stands."""
        shard = self.all.get(key)
        return shard is not None and shard.live

    def is_met(self, broker: str) -> bool:
        """Return whether the connection to ``broker`` stands."""
        contact = self.contacts.get(broker)
        return contact is not None and contact.live

    def are_met(self) -> bool:
        """Return whether there is any broker, with or without a queue of the query."""
        return bool(self._met())

    def meet(self) -> Course[None]:
        """Attach to brokers that are new or back. Raises Unreachable when none of the first search answers."""
        if not self.contacts:
            answering = yield from self.search.all()
            yield from self._welcome(answering)
            self._looked = self._clock()
            yield from self._explore()
            return
        if self._scouting is not None and self._scouting.done:
            yield from self._return_of_the_scout(self._scouting)
        if self._scouting is None and self._clock() - self._looked >= LOOK_EVERY:
            self._looked = self._clock()
            yield from self._look()

    def note(self, positions: Mapping[str, int]) -> None:
        """``positions`` are in the offsets of the query: whether their queues are still there is found out."""
        self.noted = positions
        self.gone = {key: None for key in self.gone if key in positions}

    def look_at_once(self) -> None:
        """Look for brokers in the next `meet`."""
        self._looked = self._clock() - LOOK_EVERY

    def need(self, key: str) -> Course[Shard]:
        """Return the shard of this key, looking for its broker. Raises Unreachable, QueueGone."""
        if self.is_live(key):
            return self.all[key]
        if not self.contacts:
            yield from self.meet()
            if key in self.all:
                return self.all[key]
        broker, token, destination = parts_of(key)
        if not self.is_met(broker):
            line = yield from self.search.open(broker)
            yield from self._welcome([line])
        if key not in self.all and token and self.is_met(broker):
            self.noted = {**self.noted, key: 0}
            yield from self._look_for_queues(self.contacts[broker])
            if key in self.gone:
                raise QueueGone(f"{destination} at {self.contacts[broker].line.shown} was deleted")
            if key not in self.all:
                raise LeaseError(
                    f"{destination} at {self.contacts[broker].line.shown} is in the checkpoint and cannot be read",
                    remedy="give the right to consume back, or begin with a new checkpoint",
                )
        if key not in self.all:
            raise Unreachable(f"the broker {broker} went away when it was found", remedy="see its log")
        return self.all[key]

    def close(self) -> None:
        """Drop all connections; the brokers keep what is held."""
        for contact in self.contacts.values():
            contact.close()

    # -- looking ------------------------------------------------------------------------------------------------------

    def _look(self) -> Course[None]:
        yield from self._learn()
        if self._scope is not None:
            for contact in self._met():
                with contextlib.suppress(Unreachable):  # it is gone: noted
                    yield from self._look_for_queues(contact)
        taken = {contact.line.place.format() for contact in self._met()}
        taken.update(place for place, broker in self._same.items() if self.is_met(broker))
        places = tuple(place for place in self.search.places if place.format() not in taken)
        announced = self._not_met()
        if places or announced:
            yield from self._send_a_scout(places, announced)
            if not self.are_met() and self._scouting is not None:
                yield Await(self._scouting)  # nothing else to do meanwhile

    def _explore(self) -> Course[None]:
        """Attach to all brokers of the network, at once: a query that takes what is there now must know them."""
        tried: dict[str, None] = {}
        while (yield from self._learn()):
            announced = [broker for broker in self._not_met() if broker not in tried]
            if not announced:
                return
            tried.update(dict.fromkeys(announced))
            scouting = yield from self._send_a_scout((), announced)
            yield Await(scouting)
            yield from self._return_of_the_scout(scouting)

    def _learn(self) -> Course[bool]:
        """Ask every broker for the others. Return whether brokers of the network are to be found at all."""
        if self.search.reach.discovers:
            for contact in self._met():
                with contextlib.suppress(Unreachable):  # it is gone: noted
                    yield from contact.learn(self.search)
        return self.search.reach.discovers

    def _not_met(self) -> list[str]:
        """Return the brokers that were announced, are not connected, and were not found wanting a moment ago."""
        now = self._clock()
        return [
            broker
            for broker in self.search.announced
            if not self.is_met(broker) and self._passed_over.get(broker, now) <= now
        ]

    def _send_a_scout(self, places: tuple[Endpoint, ...], announced: Sequence[str]) -> Course[Scouting]:
        """Try the places of ``url`` one by one, and each announced broker beside them."""
        routes = [places, *((self.search.announced[broker],) for broker in announced)]
        self._wanted = ["", *announced]
        scouting: Scouting = yield Scout(tuple(routes))
        self._scouting = scouting
        return scouting

    def _return_of_the_scout(self, scouting: Scouting) -> Course[None]:
        self._scouting = None
        found: list[Line] = []
        for route, result in scouting.results:
            broker = self._wanted[route]
            if not broker:
                if not isinstance(result, EntrepotError):  # else asked again later, by name when a batch needs it
                    found.append(result)
                continue
            try:
                if isinstance(result, EntrepotError):
                    raise result
                yield from self._welcome_announced(broker, result)
            except EntrepotError as error:  # a right is missing there, or it is too old; the url does not name it
                self._pass_over(broker, error)
        yield from self._welcome(found)

    def _welcome_announced(self, broker: str, line: Line) -> Course[None]:
        """Attach to a broker that ``url`` does not name. Raises what it refuses, and Unreachable when it is another."""
        self.search.as_announced(broker, line)
        try:
            yield from self._welcome([line])
        except EntrepotError:
            line.close()
            raise
        if not self.is_met(broker):
            self._passed_over[broker] = self._clock() + LOOK_EVERY  # it went away again

    def _pass_over(self, broker: str, error: EntrepotError) -> None:
        """Say once that a broker which the url does not name cannot be read; one that refuses is left alone a while."""
        if broker not in self._passed_over and broker not in self.contacts:
            log.warning("the broker %s of the network is not read: %s", broker, error)
        self._passed_over[broker] = self._clock() + (0 if isinstance(error, Unreachable) else AGAIN_AFTER)

    def _welcome(self, lines: Sequence[Line]) -> Course[None]:
        for line in lines:
            contact = self.contacts.get(line.broker)
            if contact is None:
                try:
                    yield from self._enter(Contact(line))
                except Unreachable:
                    continue
            elif contact.live:
                self._same[line.place.format()] = line.broker
                line.close()
            else:
                contact.found(line)

    def _enter(self, contact: Contact) -> Course[None]:
        """Attach to all that the query reads of a broker which is new. Raises Unreachable, and what it refuses."""
        if self._scope is None:
            shards = yield from self._attached(contact, [self._subject])
        else:
            named = yield from self._attached(contact, [self._one(name) for name in self._scope.names])
            shards = named + (yield from self._found(contact, self._scope.names))
        self.contacts[contact.broker] = contact
        self.all.update((shard.key, shard) for shard in shards)

    def _attached(self, contact: Contact, subjects: Sequence[Subject]) -> Course[list[Shard]]:
        shards: list[Shard] = []
        for subject in subjects:
            shard = Shard(contact, subject, self._is_gone if subject.several and not self._is_of_topics() else None)
            yield from shard.attach(self._starting())
            shards.append(shard)
        return shards

    def _one(self, destination: str) -> Subject:
        return replace(self._subject, destination=destination, several=True)

    def _met(self) -> list[Contact]:
        return [contact for contact in self.contacts.values() if contact.live]

    # -- queues -------------------------------------------------------------------------------------------------------

    def _is_of_topics(self) -> bool:
        return self._scope is not None and self._scope.is_of_topics

    def _look_for_queues(self, contact: Contact) -> Course[None]:
        """Attach to queues of a broker that are new. Raises Unreachable, InvalidOption when they become too many."""
        found = yield from self._found(contact, ())
        self.all.update((shard.key, shard) for shard in found)

    def _found(self, contact: Contact, attached: Sequence[str]) -> Course[list[Shard]]:
        """Ask a broker for its queues, forget those that are gone, and attach to those that are new."""
        scope = self._scope
        if scope is None or scope.is_of_topics:
            return []
        keys = [key for key in {**self.all, **self.noted} if parts_of(key)[0] == contact.broker]
        tokens = {parts_of(key)[1]: key for key in keys[:QUEUES_MAX]}
        answer = yield from contact.ask("QUEUES", scope.question(tokens))
        listed = read_list(answer)
        for token in filter(None, answer.get("gone", "").split(",")):
            self._forget(tokens[token])
        elsewhere = [shard.subject.destination for shard in self.all.values()]
        scope.check([*elsewhere, *listed], max(0, number(answer, "count") - len(listed)))
        have = {shard.subject.destination for shard in self.all.values() if shard.contact is contact}
        new = [name for name in listed if name not in have and name not in attached]
        return (yield from self._attached(contact, [self._one(name) for name in new]))

    def _is_gone(self, shard: Shard) -> Course[bool]:
        """A broker refuses the lease of ``shard``: return whether its queue was deleted."""
        yield from self._look_for_queues(shard.contact)
        return shard.key in self.gone

    def _forget(self, key: str) -> None:
        self.all.pop(key, None)
        if key not in self.gone:
            broker, _, destination = parts_of(key)
            log.warning("%s on %s was deleted; what was held there is gone with it", destination, broker)
        self.gone[key] = None
