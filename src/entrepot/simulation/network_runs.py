"""One seed of a network: its plan is carried out under faults, everything heals, and the ledger is judged.

What must hold: nothing confirmed is lost; every message reaches a willing reader, or the plan says that it may stay and
it is somewhere with a reason; none runs in a circle where nothing lets it go back; none comes a second time unmarked
where no broker died and there is one way only; what is asked over temporary destinations is answered; and nothing is
left behind for readers and programs that are gone.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND
from entrepot.simulation.network_plans import (
    MOVING,
    NO_EXTRAS,
    VIRTUAL,
    Plan,
    Reading,
    Wire,
    draw,
    draw_extras,
    with_audits,
)
from entrepot.simulation.network_verdicts import Drawn, Judge
from entrepot.simulation.requests import PATIENCE, Talk
from entrepot.simulation.sites import Site
from entrepot.simulation.trial import Trial
from entrepot.simulation.world import Lots

SETTLING_MS: Final = 1_500  # every bridge is open and demand has gone round, also over nine hops
HEALING_MS: Final = 25_000  # far beyond three intervals of supervision and the redelivery of all that was under way
MOVING_S_MAX: Final = 120
LULL_MS: Final = 5_000  # what is cut is found within three intervals of 1 s
QUESTIONS: Final = 3  # the first may come before the news of its temporary destination
PATIENCE_MS: Final = PATIENCE // MILLISECOND + 1
STOPS: Final = 0.05  # of the steps: a broker stops in order as well
PARTING_MS: Final = 3_000  # that somebody is gone has gone round
PARTINGS_MAX: Final = 20  # with a prefetch of 1 over a slow cable, behind hundreds of other advisories
BESIDE_IT: Final = " (another)"
EVENTS_MAX: Final = 2_000_000  # ten times what large networks take: what runs in a circle never ends


class NetworkRun(Trial):
    """The run of one seed. Call `run` once, then read ``wrong`` and ``network.world``."""

    def __init__(self, seed: int, *, lines: bool = False, extras: bool = True, stops: bool = False) -> None:
        """``extras``: False makes the world that ``seed`` was before there were any: regressions are found so.

        ``stops``: brokers stop in order as well, now and then.
        """
        self.stopping: Final = stops
        lots, more, plan = self._draw(seed, extras)
        self.lots: Final = lots
        self.more: Final = more
        self.stops: Final = Lots(f"{seed}/stops")
        self.plan: Final = with_audits(plan, Lots(f"{seed}/audits")) if extras else plan
        self.network: Final = Drawn(seed, self.plan, lines=lines)
        super().__init__(self.network.world)
        self.network.world.events_max = EVENTS_MAX
        self.sent = 0
        self.judge: Final = Judge(self.plan, self.network)
        self.places: dict[str, str] = {reading.key: reading.site for reading in self.plan.readings}
        self.away: dict[str, Reading] = {}  # readers of durable subscriptions that will be back
        self.talk: Final = Talk(self.network)
        for seat in self.plan.seats:
            if seat.asks:
                self.talk.ask_at(seat.site, topic=seat.topic)
            else:
                self.talk.answer_at(seat.site)

    def _draw(self, seed: int, extras: bool) -> tuple[Lots, Lots, Plan]:
        """Return the plan, and the lots that it left for what happens."""
        lots, more = Lots(f"{seed}/plan"), Lots(f"{seed}/extras")
        return lots, more, draw(lots, draw_extras(more) if extras else NO_EXTRAS)

    @property
    def title(self) -> str:
        """Name it, for findings."""
        return self.plan.title

    def _live(self) -> None:
        network = self.network.start()
        for reading in self.plan.readings:
            if not reading.late:
                self._seat(reading, reading.site)
        self.talk.start()
        network.run(SETTLING_MS)
        self._begin()
        for _ in range(self.lots.between(10, 40)):
            self._step()
            self._extra_step()
            if self.stopping and self.stops.chance(STOPS):
                network.crashed = True
                network.sites[self.stops.one_of(list(network.sites))].stop()
            network.run(self.lots.skewed(1, 600))
            network.explained()
        self._between()
        self._mend()
        network.run(2_000)
        for reading in self.plan.readings:
            if reading.late:
                self._seat(reading, reading.site)
        moved = -1
        for seconds in range(MOVING_S_MAX):
            before, moved = moved, sum(bridge.link.counts.confirmed for bridge in network.dialled())
            if seconds >= HEALING_MS // 1000 and moved == before:
                break  # nothing is stuck that moves: without a conduit the copies for a few readers fill a slow link
            network.run(1000)
            if network.is_open() and not self.judge.missing():
                break
        network.explained()
        for fault in self.judge.faults():
            self._fault(fault)
        if not self.wrong:
            self._calm()

    def _mend(self) -> None:
        """End every fault."""
        self.network.heal()
        for site in self.network.sites.values():
            for number in range(len(site.connectors)):
                site.switch(number, start=True)
        for reading in list(self.away.values()):
            self._return(reading)
        for reading in self.plan.readings:
            self.network.sites[reading.site].leave(reading.key + BESIDE_IT)

    def _begin(self) -> None:
        """Every bridge is open, and nothing was sent yet."""

    def _between(self) -> None:
        """One cable stays cut, and there is another way: what is asked is answered all the same."""
        if not (self.plan.seats and self.plan.cyclic and self.more.chance(0.5)):
            return
        self._mend()
        near, far = self.more.one_of(self.plan.wires)
        if is_joined(self.plan, (near, far)):
            self._cut_and_ask(near, far, silent=self.more.chance(0.3))

    def _cut_and_ask(self, near: str, far: str, *, silent: bool) -> None:
        self.network.cut(near, far, silent=silent)
        self.network.run(LULL_MS)
        self._ask_and_judge(f"while {near} and {far} are cut")

    def _calm(self) -> None:
        """Nothing is broken any more: ask, and then let everybody leave."""
        network = self.network
        if self.talk.requesters:
            network.run(LULL_MS)  # what was known another way is known again
        self._ask_and_judge("in the end")
        lost = [identity for identity in self.talk.lost() if not self.judge.whereabouts().get(identity)]
        if lost:
            self._fault(f"{len(lost)} requests are lost: {lost[:5]}")
        self.talk.finish()
        for _ in range(PARTINGS_MAX):
            network.run(PARTING_MS)
            left = self.talk.left_behind()
            if not left:
                break
        if left:
            self._fault(f"temporary destinations stay: {left[:5]}")
        idle = [] if self.judge.has_leftovers() else self.judge.unread_durables(circles=self.plan.cyclic)
        if idle:
            self._fault(f"durable subscriptions of bridges that nobody reads: {idle}")
        for reading in self.plan.readings:
            if reading.durable:
                network.sites[reading.site].forget(reading.key)
        stay: list[str] = []  # in a circle they keep one another alive, as in Classic
        for _ in range(0 if self.plan.static or self.plan.cyclic else PARTINGS_MAX):
            network.run(PARTING_MS)
            stay = [f"{site.name}:{name}" for site, name in self.judge.durables_of_bridges()]
            if not stay:
                break
        if stay:
            self._fault(f"durable subscriptions of bridges stay: {stay}")

    def _ask_and_judge(self, when: str) -> None:
        """Have questions asked in peace; all are answered, or, without a way back, refused."""
        talk = self.talk
        if not talk.requesters:
            return
        talk.calm = True
        for _ in range(QUESTIONS):
            talk.question()
            self.network.run(PATIENCE_MS)
        self.network.run(PATIENCE_MS)
        talk.calm = False
        vanished = [one for one in talk.vanished() if not self.judge.has_spent_its_ttl(one)]
        if vanished:
            self._fault(f"{when}, replies that a broker took vanish: {vanished[:5]}")
        unanswered = [one for one in talk.unanswered() if self.plan.replies and not self.judge.waits(one)]
        if unanswered:
            self._fault(f"{when}, requests are not answered: {unanswered[:5]}")

    # -- what happens --------------------------------------------------------------------------------------------------

    def _seat(self, reading: Reading, name: str) -> None:
        selector = f"colour = '{reading.colour}'" if reading.colour else ""
        self.places[reading.key] = name
        self.network.sites[name].read(
            reading.text, key=reading.key, durable=reading.durable, prefetch=reading.prefetch, selector=selector
        )

    def _step(self) -> None:
        lots, network = self.lots, self.network
        what = lots.below(24)
        near, far = lots.one_of(self.plan.wires)
        if lots.chance(0.5):
            near, far = far, near
        if what < 13:
            self._send()
        elif what < 16:
            network.cut(near, far, silent=lots.chance(0.3))
        elif what < 17:
            network.deafen(near, far)
        elif what < 18:
            network.slow(near, far)
        elif what < 20:
            network.heal()
        elif what < 21:
            self._move()
        else:
            network.crashed = True
            network.sites[lots.one_of(list(network.sites))].crash(torn=lots.chance(0.5))
            if lots.chance(0.7):
                network.heal()

    def _extra_step(self) -> None:
        """What plans have got since, besides: it draws from lots of its own, and the other steps stay as they were."""
        lots = self.more
        if self.plan.seats and lots.chance(0.5):
            self.talk.question()
        if not self.plan.operated or lots.chance(0.6):
            return
        what = lots.below(10)
        if what < 6:
            site = lots.one_of(list(self.network.sites.values()))
            if site.connectors:
                number = lots.below(len(site.connectors))
                site.switch(number, start=not site.connectors[number].started)
        elif what < 8:
            self._doze(lots)
        else:
            self._join(lots)

    def _join(self, lots: Lots) -> None:
        """A second reader sits down beside one of a queue, or leaves again: the first goes on."""
        queues = [one for one in self.plan.readings if one.text.startswith("queue") and not one.mover and not one.late]
        reading = lots.one_of(queues) if queues else None
        if reading is None:
            return
        site = self.network.sites[reading.site]
        key = reading.key + BESIDE_IT
        if key in site.readers:
            site.leave(key)
        elif site.broker is not None:
            selector = f"colour = '{reading.colour}'" if reading.colour else ""
            site.read(reading.text, key=key, prefetch=reading.prefetch, selector=selector)

    def _doze(self, lots: Lots) -> None:
        """A reader of a durable subscription goes away, or comes back."""
        durables = [reading for reading in self.plan.readings if reading.durable]
        if not durables:
            return
        reading = lots.one_of(durables)
        if reading.key in self.away:
            self._return(reading)
        elif self.network.sites[reading.site].broker is not None:
            self.network.sites[reading.site].leave(reading.key)
            self.away[reading.key] = reading

    def _return(self, reading: Reading) -> None:
        if self.network.sites[reading.site].broker is not None:
            del self.away[reading.key]
            self._seat(reading, reading.site)

    def _send(self) -> None:
        alive = [name for name in self.plan.producers if self.network.sites[name].broker is not None]
        if not alive:
            return
        site = self.network.sites[self.lots.one_of(alive)]
        for _ in range(self.lots.between(1, 12)):
            reading = self.lots.one_of(self.plan.readings)
            self._send_for(site, reading, self.lots.one_of(reading.targets))

    def _send_for(self, site: Site, reading: Reading, text: str = "") -> None:
        """Send what ``reading`` is owed; to the destination ``text``, its first one if not said."""
        text = text or reading.targets[0]
        identity = f"m{self.sent}"
        self.sent += 1
        colours = {"colour": reading.colour} if reading.colour else None
        wanted = [one for one in self.plan.readings if text in one.targets and one.colour == reading.colour]
        if text == f"topic://{VIRTUAL}" and not self._has(site, reading):
            wanted = []  # nobody's queue was known here yet: as with any topic
        self.judge.expected[identity] = wanted
        self.judge.texts[identity] = text
        site.send(text, identity, properties=colours)

    def _has(self, site: Site, reading: Reading) -> bool:
        return site.broker is not None and reading.text.partition("://")[2] in site.broker.table.queues

    def _move(self) -> None:
        for reading in self.plan.readings:
            if reading.mover:
                self.network.sites[self.places[reading.key]].leave(reading.key)
                self._seat(reading, self.lots.one_of(self.plan.producers))

    def counts(self) -> dict[str, int]:
        """Return counts of what happened, for the sum over many seeds."""
        network = self.network
        found = {
            "messages sent": self.sent,
            "messages confirmed": len(network.accepted),
            "messages consumed": sum(len(places) for places in network.seen.values()),
            "hops": sum(hops * count for hops, count in network.hops.items()),
            "brokers": len(network.sites),
            "connections of bridges": sum(bridge.link.counts.connections for bridge in network.dialled()),
            "messages given back by bridges": sum(bridge.link.counts.requeued for bridge in network.dialled()),
            "events": network.world.events,
            f"networks: {self.plan.shape}": 1,
            f"networks: {self.plan.audits or 'audit of copies'}": 1,
            "repetitions dropped": sum(
                int(site.broker.sending.repetitions.count) for site in network.sites.values() if site.broker is not None
            ),
            **self.talk.counts(),
        }
        for word in ("static", "twins", "operated"):
            if getattr(self.plan, word):
                found[f"networks: {word}"] = 1
        if any(reading.text.endswith(MOVING) for reading in self.plan.readings):
            found["networks whose reader moves"] = 1
        return found


def is_joined(plan: Plan, without: Wire) -> bool:
    """Return whether the network is one also without a cable."""
    first = next(iter(plan.blueprints))
    known, at = {first: None}, [first]
    while at:
        name = at.pop()
        for wire in plan.wires:
            if name in wire and wire != without:
                other = wire[0] if wire[1] == name else wire[1]
                if other not in known:
                    known[other] = None
                    at.append(other)
    return len(known) == len(plan.blueprints)
