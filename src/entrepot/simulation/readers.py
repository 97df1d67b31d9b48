"""The clients of a simulated broker that read without consuming at once: browsers, and readers by lease."""

from __future__ import annotations

from entrepot.base.environment import Duration
from entrepot.core.leases.wanting import LeaseReader as Demand
from entrepot.core.queue.bereaved import BODY_LOST
from entrepot.protocols.session import NEVER
from entrepot.protocols.stomp.client import Message
from entrepot.protocols.stomp.ranges import decode, headers_of
from entrepot.simulation.checkers import Copy, Subscriber
from entrepot.simulation.clients import Client, Stage
from entrepot.simulation.placed import FORM as LOCATED
from entrepot.simulation.placed import found_at, is_safe


class Browsing(Client):
    """Looks through a queue, goes, and comes again: whole bodies, nothing twice, nothing that was done with before."""

    def __init__(self, stage: Stage, name: str, queue: str, times: int) -> None:
        super().__init__(stage, name)
        self.queue = queue
        self.times = times
        self.shown: dict[str, bool] = {}
        self.began = 0

    def ready(self) -> None:
        """Begin to browse."""
        self.shown.clear()
        self.began = self.world.time
        self.client.subscribe(f"/queue/{self.queue}", headers={"browser": "true"})

    def took(self, message: Message) -> None:
        """Look at one message, or at the end."""
        if message.ends_browse:
            self.world.count("browses")
            self.times -= 1
            self.leaving = self.times <= 0
            self.hang_up()
            return
        copy = self.ledger.seen(self.queue, message.headers, message.body)
        if copy is None:
            return
        if copy.gone and copy.gone_at < self.began:
            self.world.violation(f"{copy.record.identity} is shown in {self.queue} and was settled before")
        # what a lease gives back stands behind the others, so a browser may come to it again (docs/leases.md)
        if message.message_id in self.shown and self.ledger.given_back.get(self.queue, -1) < self.began:
            self.world.violation(f"{copy.record.identity} is shown twice by one browser of {self.queue}")
        self.shown[message.message_id] = True


class LeaseReader(Client):
    """Leases ranges of a queue, reads them more than once, settles or releases, crashes and comes back."""

    def __init__(self, stage: Stage, name: str, queue: str, most: int, pause: Duration) -> None:
        super().__init__(stage, name)
        self.queue = queue
        self.most = most
        self.pause = pause
        self.epoch = 0
        self.base = 0
        self.tail = 0
        self.settled_least = 0  # positions below are settled for certain
        self.settled_most = 0  # and those from here on are not
        self.tail_least = 0  # claimed for certain
        self.held: dict[int, Copy] = {}
        self.ids: dict[int, str] = {}  # of what is held; "" where only what stands for it was shown
        self.releasing = False
        self.reading: dict[int, str] = {}
        self.lost_ones: list[Copy] = []  # that this READ showed without anything of them
        self.ending = False
        self.finished = False
        self.shard = {"queue": f"/queue/{queue}"}
        self.more = stage.world.lots(f"{name}/more")  # lots of what came later: seeds keep what they drew before
        self.demands = stage.world.lots(f"{name}/demand")  # and of what came after that
        self.places = stage.world.lots(f"{name}/places")
        self.looks = self.places.chance(0.3)  # into the files of the broker itself
        self.told: Message | None = None

    def _ask(self, command: str, **headers: int | str) -> str:
        fields = {**self.shard, "group": self.name, "epoch": str(self.epoch)}
        fields.update({name: str(value) for name, value in headers.items()})
        self.world.note(f"{self.name} {command} {headers}")
        return self.client.request(command, fields)

    # -- attaching ----------------------------------------------------------------------------------------------------

    def ready(self) -> None:
        """Attach: every earlier reader of this name is fenced."""
        self.receipts[self._ask("ATTACH")] = self._attached

    def _attached(self, code: str) -> None:
        if code:
            self._retry()
            return
        epoch = int(self.answer["epoch"])
        if epoch <= self.epoch:
            self.world.violation(f"{self.name} attached and got epoch {epoch} behind {self.epoch}")
        self.epoch = epoch
        self._learn()
        self.act(self._step, self.lots.between(0, self.pause))

    def _learn(self) -> None:
        """Compare what the broker says of the ledger with what it promised."""
        base, tail = int(self.answer["base"]), int(self.answer["tail"])
        if self.releasing:  # asked for, and not known to have happened: it did if nothing is held
            if base == tail:
                self._let_go()
            self.releasing = False
            self.ledger.given_back[self.queue] = self.world.time
        elif not self.settled_least <= base <= max(self.settled_most, self.settled_least) or tail < self.tail_least:
            self.world.violation(
                f"{self.name} holds {base}..{tail}; settled {self.settled_least} to {self.settled_most}, "
                f"claimed {self.tail_least}"
            )
        for position in [position for position in self.held if position < base]:
            copy = self.held.pop(position)
            copy.lease = ""
            copy.asked = True
            self.ids.pop(position)
            self.ledger.settled(copy)
        self.base = self.settled_least = self.settled_most = base
        self.tail = self.tail_least = tail

    def _let_go(self) -> None:
        for copy in self.held.values():
            copy.lease = ""
            copy.bereft = False
        self.held.clear()
        self.ids.clear()

    def _retry(self) -> None:
        if self.online:
            self.hang_up()

    # -- working ------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        lots = self.lots
        if self.ending and self.base == self.tail:
            self.finished = True
            self.leave()
            return
        lot = lots.fraction()
        if self.base < self.tail and (lot < 0.5 or self.ending):
            if self._read_up_to() < self.tail or lot < 0.2:
                self._read()
            else:
                self._settle()
        elif lot < 0.56 and self.base < self.tail:
            self._release()
        elif self.tail - self.base < 4 * self.most:
            start = self.tail if lots.chance(0.7) else self.base
            most = lots.between(1, self.most)
            wait = self.more.one_of((0, 0, 20, 400))
            demand = self.demands.one_of(({}, {"demand": "true"}, {"demand": "true"}, {"demand": "false"}))
            self.receipts[self._ask("CLAIM", start=start, max=most, wait=wait, **demand)] = self._claimed
            if self.looks and self.places.chance(0.5):  # before the disk has what is claimed
                self.receipts[self._ask("READ", form=LOCATED)] = lambda code: None
        else:
            self._read()

    def _read_up_to(self) -> int:
        """Return the first position that it has not read: it settles nothing that it has not seen."""
        position = self.base
        while position in self.held:
            position += 1
        return position

    def _next(self) -> None:
        self.act(self._step, self.lots.between(0, self.pause))

    def _claimed(self, code: str) -> None:
        if code:
            self._retry()
            return
        self.tail = self.tail_least = int(self.answer["tail"])
        self.world.count("claims")
        self._next()

    def _read(self) -> None:
        self.reading = {}
        self.lost_ones = []
        low, high = self.base, self.tail
        if self.looks and self.places.chance(0.7):
            self.told = None
            token = self._ask("READ", start=low, end=high, form=LOCATED)
            self.receipts[token] = lambda code: self._was_told(low, high, code)
        else:
            self._read_from(low, low, high)

    def _read_from(self, at: int, low: int, high: int) -> None:
        token = self._ask("READ", start=at, end=high, form=self.more.one_of(("message", "batch")))
        self.receipts[token] = lambda code: self._has_read(low, high, code)

    def _was_told(self, low: int, high: int, code: str) -> None:
        """Look a while later, whatever becomes of the broker meanwhile."""
        if code:
            self._retry()
            return
        told, links = self.told, self.links
        self.world.later(self.places.between(0, 4 * self.pause), lambda: self._look(told, low, high, links))

    def _look(self, told: Message | None, low: int, high: int, links: int) -> None:
        """Read what is found where it was told; the rest is asked for."""
        if self.links != links:
            return  # it has begun anew meanwhile
        at = low
        for position, headers, body in [] if told is None else found_at(self.stage.machine.disk, told):
            self._read_one(position, headers, body)
            at = position + 1
            self.world.count("read where it is")
        if not self.online or self.link is None:
            return
        if at < high:
            self._read_from(at, low, high)
        else:
            self._has_read(low, high, "")
        self.link.flush_client()

    def took(self, message: Message) -> None:
        """One position of a range that was asked for, or many."""
        if message.headers.get("form") == LOCATED:
            self.told = message
            if not is_safe(self.stage.machine.disk, message):
                self.world.violation(f"{self.name} was told the place of what is not on disk")
            return
        if message.headers.get("form") != "batch":
            self._read_one(int(message.headers.get("position", "-1")), message.headers, message.body)
            return
        found = decode(message.body)
        for at, position in enumerate(found.positions):
            headers = {**headers_of(found.headers[at]), "message-id": found.ids[at]}
            self._read_one(position, headers, found.bodies[at])
        self.world.count("lease batches")

    def _read_one(self, position: int, headers: dict[str, str], body: bytes) -> None:
        copy = self.ledger.seen(self.queue, headers, body)
        if copy is None:
            return
        message_id = headers.get("message-id", "")
        if self.ledger.is_stand_in(headers):
            self._read_stand_in(position, copy, headers)
            message_id = self.ids.get(position, "")  # of the message, if it was ever shown: a crash may take rot back
        elif BODY_LOST in headers:
            self.lost_ones.append(copy)
        known = self.ids.get(position)
        if known and known != message_id:
            self.world.violation(f"{self.name} read {known} at {position}, and now {message_id}")
        if copy.gone:
            self.world.violation(f"{self.name} read {copy.record.identity}, whose acknowledgement was confirmed")
        if copy.lease not in ("", self.name):
            self.world.violation(f"{copy.record.identity} is leased to {copy.lease} and to {self.name}")
        if not copy.record.repeats:
            copy.lease = self.name
        copy.era = self.ledger.era  # its reader has seen it: who gets it later is told so
        self.ids[position] = message_id
        self.held[position] = copy
        self.reading[position] = message_id

    def _read_stand_in(self, position: int, copy: Copy, headers: dict[str, str]) -> None:
        """What stands for a message whose record rotted is that of its position, and says so."""
        if headers.get(BODY_LOST) != "unknown":
            self.world.violation(f"{self.name} read what stands for {copy.record.identity}, and it says {headers}")
        if self.held.get(position, copy) is not copy:
            self.world.violation(f"{self.name} read at {position} what stands for {copy.record.identity}")
        self.lost_ones.append(copy)

    def _has_read(self, low: int, high: int, code: str) -> None:
        if code:
            self._retry()
            return
        self.world.count("lease reads")
        for copy in self.lost_ones:
            copy.bereft = True
        if list(self.reading) != list(range(low, high)):
            self.world.violation(f"{self.name} asked for {low}..{high} and read {list(self.reading)}")
        self._next()

    def _settle(self) -> None:
        end = self._read_up_to() if self.ending else self.lots.between(self.base, self._read_up_to())
        self.settled_most = max(self.settled_most, end)
        for position, copy in self.held.items():
            if position < end:
                copy.asked = True
        self.receipts[self._ask("SETTLE", end=end)] = self._settled

    def _settled(self, code: str) -> None:
        if code:
            self._retry()
            return
        self.world.count("lease settlements")
        self._learn()
        self._next()

    def _release(self) -> None:
        self.releasing = True
        self.ledger.given_back[self.queue] = NEVER  # until it is known to be over
        for copy in self.held.values():
            copy.lease = ""  # from now on others may get it
            copy.bereft = False  # and find out for themselves
        self.receipts[self._ask("RELEASE")] = self._released

    def _released(self, code: str) -> None:
        if not code:
            self.world.count("lease releases")
            self._learn()
        self._retry()  # the epoch is over: come back with another

    def lost(self) -> None:
        """What it holds it holds, whether it is there or not."""
        if self.releasing:
            for copy in self.held.values():
                copy.lease = ""

    # -- the end ------------------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Read and settle all that is held, then go."""
        self.ending = True
        if self.link is None:
            self.start()

    @property
    def quiet(self) -> bool:
        """Whether nothing is held any more, and no other broker hears of it as of a reader."""
        return self.finished and self.link is None and not self._is_demand()

    def _is_demand(self) -> bool:
        broker = self.stage.machine.broker
        queue = None if broker is None else broker.table.queues.get(self.queue)
        readers = [] if queue is None else queue.roster.consumers
        return any(isinstance(one, Demand) and one.group == self.name for one in readers)


class TopicReader(LeaseReader):
    """Reads a topic by lease, through a durable subscription that its first ATTACH makes; stays to the very end."""

    def __init__(self, stage: Stage, name: str, topic: str, most: int, pause: Duration) -> None:
        super().__init__(stage, name, name, most, pause)
        self.topic = topic
        self.shard = {"topic": f"/topic/{topic}", "subscription": name}
        self.waiting = -1  # how many messages the last claim left

    def _attached(self, code: str) -> None:
        if not code and self.name not in self.ledger.subscribers:
            self.ledger.subscribers[self.name] = Subscriber(self.topic, "", self.world.time)
        super()._attached(code)

    def _step(self) -> None:
        if self.ending and self.base == self.tail:
            self.receipts[self._ask("CLAIM", max=self.most, wait=100)] = self._claimed
        else:
            super()._step()

    def _claimed(self, code: str) -> None:
        if not code:
            self.waiting = int(self.answer["more"])
        super()._claimed(code)

    @property
    def quiet(self) -> bool:
        """Whether nothing is held, and nothing was left to claim."""
        return self.ending and self.online and self.base == self.tail and self.waiting == 0
