"""Two zones of three brokers and three hundred clients, from one seed: brokers die or stop and come back, zones are cut
off.

The cores under test are `cluster.census.Census`, `cluster.roll.Roll` and `cluster.balance.Balance` of each broker, and
`FailoverCore` of every second client; the others are clients as ActiveMQ makes them, which know no zones, draw a broker
by lot from the list that they were told, however it is ordered, and forget what they were configured with when they are
asked to move. Half of the worlds take brokers that are gone out of the lists (``updateClusterClientsOnRemove``).
Bridges, sockets and messages are left out: a link is up or down, and what is told over it arrives after a while. A
client that is asked to move may be in the middle of a transaction for some time.

Checked when nothing has happened for `SETTLING`: no client is abroad while a broker of its own zone lives and can be
reached, the clients of a zone are spread evenly, and those of a broker that stopped are with the others that it knew.
Checked always: how many clients are moved because of one event, and that nobody who stops sends clients to himself.
``planted`` names a bug that a run is to be made with, to see that it would be found.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Instant
from entrepot.base.uri import Endpoint
from entrepot.cluster.balance import TOLERANCE, Balance, Client
from entrepot.cluster.census import Census, Facts
from entrepot.cluster.roll import Roll
from entrepot.protocols.failover import Dial, Drop, Effect, FailoverCore, Use
from entrepot.protocols.peers import FailoverOptions
from entrepot.simulation.world import Bell, World

PLANTED: Final = (
    "credulous",  # a broker that comes and goes is believed each time
    "all at once",  # everybody gives his whole load away, not his surplus
    "no way home",  # guests stay
    "the dead are listed",  # a broker that is gone is still believed
    "zones mixed",  # clients are spread over all zones
    "stops like one that dies",  # its clients are told whom it loses, bridge after bridge, and in the end it alone
)

ZONES: Final = ("ams", "fra")
BROKERS_PER_ZONE: Final = 3
CLIENTS: Final = 300
MOVES_EACH: Final = 8  # times that one client is asked for one event: a broker that flaps, and lots drawn badly
LOOK_EVERY: Final = 500 * MILLISECOND  # half as often as in earnest: four times the clients in a second
FLAPS: Final = 12
STEP: Final = 5 * SECOND
SETTLING: Final = 150 * SECOND  # the longest disbelief in a broker that fell often, and some ten waves behind it
EVENTS: Final = 6
LATENCY: Final = 20 * MILLISECOND
PARTING: Final = 30 * MILLISECOND  # between the ends of two bridges of a broker that stops: longer than the latency
EVENTS_MAX: Final = 1_000_000  # zones that are lost over and over, with 300 clients that dial, take some 400,000


class Site:
    """One broker, dead or alive."""

    def __init__(self, region: Region, zone: str, number: int) -> None:
        self.region = region
        self.world = region.world
        self.zone = zone
        self.name = f"{zone}{number}"
        self.place = Endpoint("tcp", self.name, 61616)
        self.alive = False
        self.stopping = False
        self.parted: dict[str, None] = {}  # of a broker that stops: whose bridge to it is closed
        self.life = 0
        self.clients: dict[int, Program] = {}
        self.leaving: dict[int, Program] = {}
        self.told: tuple[str, ...] = ()
        self.boot()

    def boot(self) -> None:
        """Begin with nothing in memory."""
        if self.alive:
            return
        self.alive = True
        self.stopping = False
        self.parted.clear()
        self.life += 1
        self.world.note(f"{self.name} begins")
        url = self.place.format()
        self.census = Census(Facts(f"{self.name}#", self.name, url, self.zone, 0), self.world.wall())
        self.roll = Roll(self.census)
        self.balance = Balance()
        for other in self.region.sites:
            self.region.join(self, other)
        life = self.life
        self.world.later(self.region.lots.between(1, LOOK_EVERY), lambda: self._look(life))

    def kill(self) -> None:
        """End, with every connection."""
        if not self.alive:
            return
        self.alive = False
        self.world.note(f"{self.name} ends")
        for other in self.region.sites:
            self.region.part(self, other)
        clients, self.clients, self.leaving = list(self.clients.values()), {}, {}
        for client in clients:
            client.lost(self)

    @property
    def open(self) -> bool:
        """Whether it takes connections."""
        return self.alive and not self.stopping

    def stop(self) -> None:
        """End in order: take no more clients, tell them of the others, close bridge after bridge, then the rest."""
        if not self.open:
            return
        self.stopping = True
        self.world.note(f"{self.name} stops")
        known = {facts.name: None for facts in self.census.brokers()}
        there = [one for one in self.region.sites if one.open and one.name in known and self.region.linked(self, one)]
        if self.region.planted != "stops like one that dies":
            self.roll.retire()
            token = self.census.leave(self.world.time, self.world.wall())
            for other in there:
                self.world.later(LATENCY, lambda other=other: self._arrive(other, token))  # type: ignore[misc]
        for client in self.clients.values():
            client.promised = there
        self._push()
        life = self.life
        for number, other in enumerate(self.region.sites, 1):
            self.world.later(number * PARTING, lambda other=other: self._part(other, life))  # type: ignore[misc]
        self.world.later((len(self.region.sites) + 1) * PARTING, lambda: self._end(life))

    def _part(self, other: Site, life: int) -> None:
        if self.alive and life == self.life and other is not self:
            self.region.part(self, other)
            self.parted[other.name] = None
            self._push()

    def _end(self, life: int) -> None:
        if life == self.life:
            self.kill()

    def _look(self, life: int) -> None:
        if not self.open or life != self.life:
            return
        now = self.world.time
        if self.region.planted != "the dead are listed":
            before = self.roll.named()
            self.census.advance(now)
            self.roll.forget(before)
        self.census.count(len(self.clients))
        self._rebalance(now)
        self._push()
        token = self.census.tell(now, self.world.wall())
        if token:
            for other in self.region.sites:
                if self.region.linked(self, other):
                    self.world.later(LATENCY, lambda other=other: self._arrive(other, token))  # type: ignore[misc]
        self.world.later(LOOK_EVERY, lambda: self._look(life))

    def _known(self, now: int) -> tuple[Facts, list[Facts]]:
        """Return what this broker believes of itself and of the others: with some planted bugs not the truth."""
        here = self.census.here
        planted = self.region.planted
        if planted == "the dead are listed":
            return here, [site.census.here for site in self.region.sites if site is not self]
        believed = planted == "credulous"
        settled = [one.facts for _, one in sorted(self.census.members.items()) if believed or one.settled(now)]
        if planted == "zones mixed":
            return _unzoned(here), [_unzoned(one) for one in settled]
        return here, settled

    def _rebalance(self, now: int) -> None:
        """Send clients away that others should have."""
        planted = self.region.planted
        here, settled = self._known(now)
        staying = [one for one in self.clients.values() if one.number not in self.leaving]
        clients = [
            Client(one.number, "" if planted in ("no way home", "zones mixed") else one.zone, not one.busy(now))
            for one in staying
        ]
        moves = self.balance.look(
            here,
            settled,
            lambda: clients,
            count=len(clients),
            guests=any(one.zone not in ("", here.zone) for one in clients),
            leaving=len(self.leaving),
            now=now,
        )
        if planted == "all at once" and moves and not self.leaving:
            for client in staying:
                self._send(client, moves[0].to.name)
        for move in moves:
            self._send(self.clients[move.key], move.to.name)

    def _arrive(self, other: Site, token: bytes) -> None:
        if self.region.linked(self, other):
            before = other.roll.named()
            other.census.heard(token, self.world.time)
            other.roll.forget(before)

    def _send(self, client: Program, to: str) -> None:
        if client.number in self.leaving:
            return
        self.leaving[client.number] = client
        self.region.moved(client)
        target = next(site for site in self.region.sites if site.name == to)
        held = self.region.lots.skewed(5 * MILLISECOND, 2 * SECOND)  # what it holds has to be settled first
        self.world.later(held, lambda: client.sent(self, target))

    def listed(self, client: Program) -> list[Site]:
        """Return what a client is told: its own zone first."""
        others = self.roll.others(removes=self.region.removes, fits=lambda one: True)
        urls = self.roll.in_order(others, self.place.format(), client.zone, client.number)
        sites = {site.place.format(): site for site in self.region.sites}
        return [sites[url] for url in urls]

    def _push(self) -> None:
        """Tell the clients when there is another list."""
        self.roll.found()
        others = self.roll.others(removes=self.region.removes, fits=lambda one: True)
        told = (*(one.name for one in others), str(self.roll.retired))
        if told != self.told:
            self.told = told
            for client in list(self.clients.values()):
                client.learn(self)


def _is_uneven(loads: list[int]) -> bool:
    """Return whether one of the brokers of a zone has more clients than it should."""
    if not loads:
        return False
    even = -(-sum(loads) // len(loads))
    return max(loads) > even + even // TOLERANCE + 1


def _unzoned(facts: Facts) -> Facts:
    return Facts(facts.id, facts.name, facts.url, "", facts.clients, facts.version)


class Program:
    """One client: with a zone of its own that its core knows, or as ActiveMQ's are."""

    def __init__(self, region: Region, number: int, zone: str, *, clever: bool) -> None:
        self.region = region
        self.world = region.world
        self.number = number
        self.zone = zone
        self.lots = region.world.lots(f"client {number}")
        self.at: Site | None = None
        self.moves = 0
        self.busy_until: Instant = 0
        self.configured = list(region.sites)
        self.known = list(region.sites)
        self.promised: list[Site] = []  # those that lived when its broker stopped: one of them must do
        self.core: FailoverCore | None = None
        self._attempts: dict[int, Site] = {}
        self._bell: Final = Bell(region.world, self._ring)
        if clever:
            options = FailoverOptions(zone=zone, max_reconnect_delay=2 * SECOND)
            places = [site.place.with_options({"zone": site.zone}) for site in region.sites]
            self.core = FailoverCore(places, options, self.lots)

    def busy(self, now: Instant) -> bool:
        """Whether a transaction is open: now and then one is."""
        if now >= self.busy_until and self.lots.chance(0.05):
            self.busy_until = now + self.lots.skewed(10 * MILLISECOND, 3 * SECOND)
        return now < self.busy_until

    def hopes(self, reachable: dict[str, None]) -> bool:
        """Whether it must find one of these: who has no core knows what its last broker told it, and no more."""
        if any(site.name in reachable for site in self.promised):
            return True
        return self.core is not None or any(site.name in reachable for site in self.known)

    def start(self) -> None:
        """Begin to connect."""
        if self.core is not None:
            self._perform(self.core.start(self.world.time))
        else:
            self._dial_by_lot(None)

    def lost(self, site: Site) -> None:
        """The broker is gone."""
        if self.core is not None:
            for attempt, where in list(self._attempts.items()):
                if where is site:
                    del self._attempts[attempt]
                    if attempt == self.core.current:
                        self.at = None
                    self._perform(self.core.failed(attempt, "reset", self.world.time))
        elif self.at is site:
            self.at = None
            self.world.later(self.lots.skewed(10 * MILLISECOND, SECOND), lambda: self._dial_by_lot(site))

    def sent(self, by: Site, to: Site) -> None:
        """It holds nothing any more and is asked to move."""
        if by.leaving.pop(self.number, None) is None or self.at is not by:
            return
        if self.core is not None:
            brokers = ",".join([to.place.format(), by.place.format()])
            self._perform(self.core.control(brokers, to.place.format(), False, self.world.time))
        elif to.open and self.region.reaches(self, to):
            self.configured = [to]
            self._leave()
            self.world.later(self.lots.skewed(MILLISECOND, SECOND), lambda: self._enter_or_not(to))

    # -- as ActiveMQ's ------------------------------------------------------------------------------------------------

    def _dial_by_lot(self, avoided: Site | None) -> None:
        if self.at is not None:
            return
        sites = list(self.known)
        for at in range(len(sites) - 1, 0, -1):
            other = self.lots.below(at + 1)
            sites[at], sites[other] = sites[other], sites[at]
        sites.sort(key=lambda site: site is avoided)
        for site in sites:
            if site.open and self.region.reaches(self, site):
                self._enter(site)
                return
        self.world.later(self.lots.between(SECOND // 10, SECOND), lambda: self._dial_by_lot(None))

    def _enter_or_not(self, site: Site) -> None:
        if self.at is None and site.open and self.region.reaches(self, site):
            self._enter(site)
        else:
            self._dial_by_lot(None)

    def _leave(self) -> None:
        if self.at is not None:
            self.at.clients.pop(self.number, None)
            self.at.leaving.pop(self.number, None)
            self.at = None

    def _enter(self, site: Site) -> None:
        self._leave()
        self.at = site
        site.clients[self.number] = self
        self.world.note(f"{self.number} {site.name}")
        self.promised = []
        self._hear(site)
        self.world.count("connections")

    def _hear(self, site: Site) -> list[Site]:
        told = site.listed(self)
        if told:  # no list is no news
            self.known = list(dict.fromkeys([*told, *self.configured]))
        if site.stopping and site in told and self.promised:
            self.world.violation(f"{site.name} stops, and sends client {self.number} to itself")
        return told

    def learn(self, site: Site) -> None:
        """The broker tells of others."""
        told = self._hear(site)
        core = self.core
        if core is not None and told:
            zones = {one.place.format(): one.zone for one in told}
            self._perform(core.located(site.zone, zones, self.world.time))
            self._perform(core.control(",".join(zones), "", False, self.world.time))

    # -- with a core --------------------------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        core = self.core
        assert core is not None
        for effect in effects:
            match effect:
                case Dial(attempt, place):
                    site = next(one for one in self.region.sites if one.name == place.host)
                    took = self.lots.skewed(MILLISECOND, 50 * MILLISECOND)
                    self.world.later(took, lambda attempt=attempt, site=site: self._dialled(attempt, site))  # type: ignore[misc]
                case Drop(attempt):
                    self._attempts.pop(attempt, None)
                case Use(attempt, _):
                    site = self._attempts[attempt]
                    self._enter(site)
                    self.learn(site)
                case _:
                    pass
        core.check()
        self._arm()

    def _dialled(self, attempt: int, site: Site) -> None:
        core = self.core
        assert core is not None
        if site.open and self.region.reaches(self, site):
            self._attempts[attempt] = site
            self._perform(core.opened(attempt, self.world.time))
        else:
            self._perform(core.failed(attempt, "refused", self.world.time))

    def _arm(self) -> None:
        core = self.core
        assert core is not None
        self._bell.set(core.deadline())

    def _ring(self) -> None:
        core = self.core
        assert core is not None
        self._perform(core.advance(self.world.time) if core.deadline() <= self.world.time else [])


class Region:
    """The whole of it."""

    def __init__(self, seed: int, planted: str = "") -> None:
        self.world = World(seed)
        self.world.events_max = EVENTS_MAX
        self.lots = self.world.lots("region")
        self.manners = self.world.lots("manners")
        self.removes = self.manners.chance(0.5)
        self.planted = planted
        self.cut = False  # the zones do not reach each other; clients are in their zone
        self.sites: list[Site] = []
        self.moves = 0
        self.strokes = 1
        self.bound = CLIENTS
        for zone in ZONES:
            for number in range(BROKERS_PER_ZONE):
                self.sites.append(Site(self, zone, number))
        share = self.lots.between(CLIENTS // 4, 3 * CLIENTS // 4)
        self.programs = [
            Program(self, number, ZONES[number >= share], clever=number % 2 == 0) for number in range(CLIENTS)
        ]

    # -- the network ---------------------------------------------------------------------------------------------------

    def linked(self, one: Site, other: Site) -> bool:
        """Whether two brokers have a bridge."""
        if one is other or other.name in one.parted or one.name in other.parted:
            return False
        return one.alive and other.alive and (not self.cut or one.zone == other.zone)

    def reaches(self, client: Program, site: Site) -> bool:
        """Whether a client can connect there."""
        return not self.cut or client.zone == site.zone

    def join(self, one: Site, other: Site) -> None:
        """A bridge comes up."""
        if self.linked(one, other):
            for near, far in ((one, other), (other, one)):
                facts = far.census.here
                bare = Facts(facts.id, facts.name, facts.url)
                near.census.joined(far.name, bare, self.world.time)
                near.census.heard(far.census.token(), self.world.time)

    def part(self, one: Site, other: Site) -> None:
        """A bridge breaks."""
        for near, far in ((one, other), (other, one)):
            if near.alive and self.planted != "the dead are listed":
                before = near.roll.named()
                near.census.left(far.name, self.world.time)
                near.roll.forget(before)

    def end(self, site: Site) -> str:
        """Let a broker die, or stop in order; return the word for it."""
        if self.manners.chance(0.5):
            if site.alive:
                self.world.count("stops")
            site.stop()
            return "stops"
        if site.alive:
            self.world.count("kills")
        site.kill()
        return "dies"

    # -- what happens --------------------------------------------------------------------------------------------------

    def moved(self, client: Program) -> None:
        """A broker asks a client to move."""
        self.moves += 1
        client.moves += 1
        self.world.count("moves")
        if self.moves > self.bound:
            self.world.violation(f"{self.moves} clients were asked to move where {self.bound} would do")
        if client.moves > MOVES_EACH * self.strokes:
            self.world.violation(f"client {client.number} was asked to move {client.moves} times")

    def run(self) -> list[str]:
        """Return the promises that were broken."""
        for program in self.programs:
            self.world.later(self.lots.between(0, 2 * SECOND), program.start)
        self._settle("the start")
        for _ in range(EVENTS):
            if self.world.violations:
                break
            self._settle(self._befall())
        return self.world.violations

    def _befall(self) -> str:
        """Let something happen, or a few things at once; set how many moves that may cost."""
        self.strokes = self.bound = self.moves = 0
        for program in self.programs:
            program.moves = 0
        what: list[str] = []
        for _ in range(1 if self.lots.chance(0.6) else self.lots.between(2, 4)):
            what.append(self._stroke())
            self.world.run(self.world.time + self.lots.skewed(MILLISECOND, 10 * SECOND))
        return ", ".join(what)

    def _stroke(self) -> str:
        # Half of the clients draw by lot: those of a lost broker may go abroad and have to be sent home, and what is
        # even again may have been made uneven by that. A broker that joins costs its share, and the guests it gets.
        self.strokes += 1
        self.bound += CLIENTS
        site = self.lots.one_of(self.sites)
        if self.lots.chance(0.2):
            self.cut = not self.cut
            self.world.note("cut" if self.cut else "healed")
            self.world.count("cuts")
            across = [(one, other) for one in self.sites for other in self.sites if one.zone < other.zone]
            for one, other in across:
                (self.part if self.cut else self.join)(one, other)
            for program in self.programs:
                if program.at is not None and not self.reaches(program, program.at):
                    at = program.at
                    at.clients.pop(program.number, None)
                    at.leaving.pop(program.number, None)
                    program.lost(at)
            return "a cut" if self.cut else "the cut heals"
        if self.lots.chance(0.2):
            return self._flap(site)
        if self.lots.chance(0.15):
            for one in self.sites:
                if one.zone == site.zone:
                    self.end(one)
            self.world.count("zones lost")
            return f"all of {site.zone} ends"
        if site.alive:
            return f"{site.name} {self.end(site)}"
        site.boot()
        self.world.count("starts")
        return f"{site.name} comes back"

    def _flap(self, site: Site) -> str:
        """A broker that falls soon after every start: it has cost its clients, and must not cost the others theirs."""
        for _ in range(FLAPS):
            self.end(site)
            self.world.run(self.world.time + self.lots.between(SECOND, 2 * SECOND))
            site.boot()
            self.world.run(self.world.time + self.lots.between(8 * SECOND, 12 * SECOND))
        self.world.count("flaps")
        return f"{site.name} falls and rises {FLAPS} times"

    def _settle(self, why: str) -> None:
        """Let things come to rest, and see whether they are as they should be, and stay so."""
        until = self.world.time + SETTLING
        calm = 0
        before = -1
        while self.world.time < until and calm < 3 and not self.world.violations:
            self.world.run(self.world.time + STEP)
            after = self.world.counts.get("connections", 0) + self.world.counts.get("moves", 0)
            calm = calm + 1 if after == before and not self._wrong(why) else 0
            before = after
        for found in [] if self.world.violations else self._wrong(why):
            self.world.violation(found)
        for site in self.sites:
            if site.alive:
                site.census.check()

    def _wrong(self, why: str) -> list[str]:
        return [found for zone in ZONES for found in self._wrong_in(zone, why)]

    def _reachable(self, zone: str) -> dict[str, None]:
        """Return the brokers that clients of ``zone`` can come to."""
        return {site.name: None for site in self.sites if site.open and (not self.cut or site.zone == zone)}

    def _wrong_in(self, zone: str, why: str) -> list[str]:
        found: list[str] = []
        mine = [program for program in self.programs if program.zone == zone]
        reachable = self._reachable(zone)
        stranded = [one for one in mine if one.at is None and one.hopes(reachable)]
        if reachable and stranded:
            found.append(f"after {why}: {len(stranded)} clients of {zone} are nowhere")
        loads = [len(site.clients) for site in self.sites if site.alive and site.zone == zone]
        abroad = [program for program in mine if program.at is not None and program.at.zone != zone]
        if loads and abroad:
            found.append(f"after {why}: {len(abroad)} clients of {zone} are abroad")
        if _is_uneven(loads):
            found.append(f"after {why}: the clients at {zone} are spread {loads}")
        return found
