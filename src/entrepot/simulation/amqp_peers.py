"""A program's side of AMQP in a simulated world: one connection with one session, which watches the rules of the wire.

What the standard bounds is looked at with every frame: no transfer without credit, or beyond the session's window, no
frame that is larger than was agreed, delivery-ids without a gap, and nothing on a link that is not attached.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.protocols.amqp.codec import PROTOCOL_AMQP, Decoder, Encoder, Frame, header
from entrepot.protocols.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Composite,
    Detach,
    Disposition,
    End,
    Flow,
    Header,
    Open,
    Properties,
    Transfer,
)
from entrepot.protocols.amqp.primitives import Source as Octets
from entrepot.protocols.amqp.sections import (
    APPLICATION_PROPERTIES,
    VALUE,
    put_descriptor,
    scan,
    write_header,
    write_properties,
    write_table,
)
from entrepot.protocols.amqp.writing import Target, write_value
from entrepot.simulation.machine import Machine
from entrepot.simulation.network import Weather
from entrepot.simulation.octet_cables import OctetCable
from entrepot.simulation.world import World

DUPLICATE: Final = "_AMQ_DUPL_ID"


def encoded(body: object, *, durable: bool = True, once: str = "", to: str = "") -> bytes:
    """Return a message; ``once``: its duplicate id."""
    out = BytesWriter()
    write_header(out, Header(durable=durable))
    if to:
        write_properties(out, Properties(to=to))
    write_table(out, APPLICATION_PROPERTIES, {DUPLICATE: once} if once else {}, False)
    put_descriptor(out, VALUE)
    write_value(out, body)
    return out.getvalue()


def composed(request: Composite) -> bytes:
    """Return a message whose value is ``request``: what is said to a coordinator."""
    out = BytesWriter()
    put_descriptor(out, VALUE)
    target = Target()
    target.out = BytesWriter()
    request.write(target)
    out.write(target.out.getvalue())
    return out.getvalue()


def body_of(octets: bytes) -> str:
    """Return the text in a message."""
    return str(Octets(octets, scan(octets).bodies[0], len(octets)).value())


class Delivery:
    """One message that comes. ``count``: deliveries before this one, as its header says."""

    def __init__(self, link: Reading, transfer: Transfer) -> None:
        self.link = link
        self.number = int(transfer.delivery_id)
        self.settled = transfer.settled == 1
        self.parts: list[bytes] = []
        self.text = ""


class LinkEnd:
    """Our end of a link. ``attached``: the other side has answered."""

    def __init__(self, peer: AmqpPeer, name: str, handle: int) -> None:
        self.peer = peer
        self.name = name
        self.handle = handle
        self.attached = False
        self.refused = False
        self.closed = False

    def answered(self, attach: Attach) -> None:
        """The broker has it, or not: then a detach follows."""
        self.attached = True

    def flow(self, flow: Flow) -> None:
        """The broker says where the link stands."""

    def detached(self, detach: Detach) -> None:
        """The broker ended it, or answers our detach."""
        self.attached = False
        self.peer.ends.pop(self.handle, None)
        if not self.closed:
            self.closed = True
            self.peer.say(Detach(handle=self.handle, closed=True))
            self.peer.refused(self)

    def detach(self, *, closes: bool) -> None:
        """Give the link up. Its answer comes behind the answers to what was said before."""
        if not self.closed:
            self.closed = True
            self.peer.say(Detach(handle=self.handle, closed=closes))


class Writing(LinkEnd):
    """A link that the program sends over."""

    def __init__(self, peer: AmqpPeer, name: str, handle: int) -> None:
        super().__init__(peer, name, handle)
        self.count = 0
        self.credit = 0

    def flow(self, flow: Flow) -> None:
        """Credit came."""
        self.credit = int(flow.delivery_count + flow.link_credit) - self.count

    def send(
        self,
        octets: bytes,
        *,
        settled: bool = False,
        state: Composite | None = None,
        pieces: int = 1,
        aborts: bool = False,
    ) -> int:
        """Send a message in so many transfers and return its delivery-id. There is credit."""
        peer = self.peer
        delivery = peer.next_delivery
        peer.next_delivery += 1
        self.count += 1
        self.credit -= 1
        most = min(peer.their_frame - 64, max(len(octets) // pieces, 1))
        parts = [octets[at : at + most] for at in range(0, len(octets), most)]
        for at, part in enumerate(parts):
            more = at < len(parts) - 1
            transfer = Transfer(handle=self.handle, more=more)
            if at == 0:
                transfer.delivery_id = delivery
                transfer.delivery_tag = delivery.to_bytes(4, "big")
                transfer.settled = int(settled)
                transfer.state = state
            if aborts and not more:
                transfer.aborted = True
            peer.say(transfer, b"" if transfer.aborted else part)
            peer.next_outgoing += 1
        return delivery


class Reading(LinkEnd):
    """A link that the program reads by. ``drains``: it waits to hear that there is no more."""

    def __init__(self, peer: AmqpPeer, name: str, handle: int) -> None:
        super().__init__(peer, name, handle)
        self.count = 0
        self.credit = 0
        self.drains = False
        self.coming: Delivery | None = None

    def grant(self, credit: int, *, drains: bool = False) -> None:
        """Take so many messages from now on."""
        self.credit = credit
        self.drains = drains
        self.peer.say_flow(self, credit, drains=drains)

    def flow(self, flow: Flow) -> None:
        """The broker has used up the credit of a drain."""
        if self.drains and flow.drain and flow.link_credit == 0:
            if int(flow.delivery_count) != self.count + self.credit:
                self.peer.world.violation(f"{self.name}: a drain ends at {flow.delivery_count}, {self.count} came")
            self.count = int(flow.delivery_count)
            self.credit = 0
            self.drains = False
            self.peer.world.count("drained")
            self.peer.drained(self)

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """A message, or a part of one."""
        peer = self.peer
        coming = self.coming
        if coming is None:
            if self.credit <= 0:
                peer.world.violation(f"{self.name}: a message came without credit")
            if transfer.delivery_id != peer.expected:
                peer.world.violation(f"{self.name}: delivery {transfer.delivery_id} where {peer.expected} is next")
            peer.expected = int(transfer.delivery_id) + 1
            self.credit -= 1
            self.count += 1
            coming = self.coming = Delivery(self, transfer)
        coming.parts.append(payload)
        if not transfer.more:
            self.coming = None
            coming.text = body_of(b"".join(coming.parts))
            peer.came(coming)


class AmqpPeer:
    """One program. Its connection is dialled again when it is lost; what a kind of program does is in its subclass."""

    def __init__(self, world: World, machine: Machine, name: str) -> None:
        self.world = world
        self.machine = machine
        self.name = name
        self.lots = world.lots(name)
        self.cable: OctetCable | None = None
        self.dials = 0
        self.opened = False
        self.our_frame = self.lots.one_of((512, 600, 8192))
        self.window_max = self.lots.one_of((1, 3, 20, 1000))
        self._forget()

    def _forget(self) -> None:
        self.opened = False
        self.their_frame = 512
        self.decoder = Decoder(1 << 20)
        self.encoder = Encoder()
        self.ends: dict[int, LinkEnd] = {}
        self.next_handle = 0
        self.next_delivery = 0
        self.next_outgoing = 0
        self.next_incoming = 0
        self.window = self.window_max
        self.expected = 0

    # -- the connection ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Dial; again while nobody answers."""
        if self.cable is not None:
            return
        if self.machine.broker is None:
            self.world.later(self.lots.between(5, 60) * MILLISECOND, self.start)
            return
        self.dials += 1
        self._forget()
        weather = Weather(self.world.lots(f"{self.name}/{self.dials}"))
        self.cable = OctetCable(self, weather, self.machine.accept_amqp)
        self.cable.write(header(PROTOCOL_AMQP))
        self.say(Open(container_id=self.name, max_frame_size=self.our_frame))
        self.say(Begin(incoming_window=self.window_max, outgoing_window=1 << 20))

    def say(self, performative: Composite, payload: bytes = b"") -> None:
        """Write a frame, if there is a connection."""
        cable = self.cable
        if cable is not None:
            out = BytesWriter()
            self.encoder.write_with(out, 0, performative, payload)
            cable.write(out.getvalue())

    def say_flow(self, link: Reading | None, credit: int = -1, *, drains: bool = False) -> None:
        """Say where the session stands, and a link."""
        flow = Flow(
            next_incoming_id=self.next_incoming, incoming_window=self.window_max,
            next_outgoing_id=self.next_outgoing, outgoing_window=1 << 20,
        )  # fmt: skip
        self.window = self.window_max
        if link is not None:
            flow.handle = link.handle
            flow.delivery_count = link.count
            flow.link_credit = credit
            flow.drain = drains
        self.say(flow)

    def receives(self, data: bytes) -> None:
        """Octets came."""
        for frame in self.decoder.feed(data):
            if self.cable is None:
                return
            self._frame(frame)

    def _frame(self, frame: Frame) -> None:
        said = frame.performative
        if frame.kind < 0 or said is None:
            return
        if isinstance(said, Transfer):
            self._transfer(said, frame.payload)
        elif isinstance(said, Open):
            self.their_frame = int(said.max_frame_size)
        elif isinstance(said, Begin):
            self.opened = True
            self.ready()
        elif isinstance(said, (Attach, Flow, Detach)):
            self._link(said)
        elif isinstance(said, Disposition):
            for number in range(int(said.first), int(max(said.last, said.first)) + 1):
                self.answered(number, said)
        elif isinstance(said, End):
            self.world.violation(f"{self.name}: the broker ended the session: {_text(said)}")
        elif isinstance(said, Close):
            self.world.count("closed by the broker")
            cable = self.cable
            if cable is not None:
                cable.cut(0, MILLISECOND)

    def _link(self, said: Attach | Flow | Detach) -> None:
        link = self.ends.get(int(said.handle))
        if link is None:
            if not isinstance(said, Flow) or said.handle >= 0:
                self.world.violation(f"{self.name}: {type(said).__name__} for {said.handle}, which is no link")
        elif isinstance(said, Attach):
            link.answered(said)
            self.attached(link)
        elif isinstance(said, Flow):
            link.flow(said)
            self.flowed()
        else:
            if said.error is not None:
                self.world.note(f"{self.name}: detached: {_text(said)}")
                self.world.count("links that the broker ended")
            link.detached(said)
            self.parted(link)

    def _transfer(self, said: Transfer, payload: bytes) -> None:
        size = len(payload) + 8
        if size > self.our_frame:
            self.world.violation(f"{self.name}: a frame has more than {size} octets, {self.our_frame} was agreed")
        if self.window <= 0:
            self.world.violation(f"{self.name}: a transfer came, and the window of the session is closed")
        self.window -= 1
        self.next_incoming += 1
        link = self.ends.get(int(said.handle))
        if not isinstance(link, Reading):
            self.world.violation(f"{self.name}: a transfer came for {said.handle}, which is no link to read by")
            return
        link.transfer(said, payload)
        if self.window <= self.window_max // 2:
            self.world.later(self.lots.between(0, 3) * MILLISECOND, self._widen)

    def _widen(self) -> None:
        if self.cable is not None and self.opened and self.window <= self.window_max // 2:
            self.say_flow(None)

    def lost(self) -> None:
        """The connection is gone."""
        self.cable = None
        self.opened = False
        self.ends.clear()
        self.gone()
        self.world.later(self.lots.between(1, 100) * MILLISECOND, self.start)

    def cut(self) -> None:
        """Lose the connection."""
        if self.cable is not None and not self.cable.gone:
            self.world.count("cut")
            self.cable.cut(self.lots.between(0, 200) * MILLISECOND, self.lots.between(0, 200) * MILLISECOND)

    def soon(self, action: object, low: int = 0, high: int = 20) -> None:
        """Do it in some ms, if this connection is there then."""
        cable = self.cable

        def act() -> None:
            if self.cable is cable and cable is not None and callable(action):
                action()

        self.world.later(self.lots.between(low, high) * MILLISECOND, act)

    # -- links ---------------------------------------------------------------------------------------------------------

    def attach(self, link: LinkEnd, asked: Attach) -> None:
        """Ask for a link."""
        self.ends[link.handle] = link
        asked.name = link.name
        asked.handle = link.handle
        asked.role = isinstance(link, Reading)
        if not asked.role:
            asked.initial_delivery_count = 0
        self.say(asked)

    def handle(self) -> int:
        """Return a handle that is free."""
        self.next_handle += 1
        return self.next_handle

    # -- what kinds of programs do -------------------------------------------------------------------------------------

    def ready(self) -> None:
        """The session has begun."""

    def attached(self, link: LinkEnd) -> None:
        """The broker answered an attach."""

    def parted(self, link: LinkEnd) -> None:
        """A link is gone: its last frame came."""

    def refused(self, link: LinkEnd) -> None:
        """The broker ended a link by itself."""
        self.soon(lambda: self.cable.cut(0, SECOND // 100) if self.cable else None, 1, 50)

    def flowed(self) -> None:
        """A flow came: there may be credit."""

    def came(self, delivery: Delivery) -> None:
        """A message came."""

    def drained(self, link: Reading) -> None:
        """There is no more."""

    def answered(self, number: int, said: Disposition) -> None:
        """The broker says what became of a delivery."""

    def gone(self) -> None:
        """The connection is gone, and all that hung on it."""


def _text(said: End | Detach | Close) -> str:
    error = said.error
    return f"{getattr(error, 'condition', '')}: {getattr(error, 'description', '')}"
