"""A client of AMQP on a whole broker, without a socket: performatives in, performatives out, in virtual time."""

from __future__ import annotations

from typing import TypeVar

from librt.strings import BytesWriter

from entrepot.core.security.access import Rule
from entrepot.core.security.directory import Directory
from entrepot.model import address as names
from entrepot.protocols.amqp import performatives as said
from entrepot.protocols.amqp.codec import Decoder, Encoder, Frame, header
from entrepot.protocols.amqp.convert import message_of
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.amqp.performatives import Composite
from entrepot.protocols.amqp.primitives import Source as Octets
from entrepot.protocols.amqp.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    MESSAGE_ANNOTATIONS,
    VALUE,
    Sections,
    map_in,
    properties_in,
    put_descriptor,
    scan,
    write_header,
    write_properties,
    write_table,
)
from entrepot.protocols.amqp.server import AmqpServerSession
from entrepot.protocols.amqp.writing import write_value
from entrepot.protocols.session import Shell
from kit import Rig

Kind = TypeVar("Kind", bound=Composite)


class Wire(Shell):
    """The shell of one connection."""

    def __init__(self, rig: Rig, certificate: str | None = None) -> None:
        self.session: AmqpServerSession
        self.rig = rig
        self.shown = certificate

    def go_on(self) -> None:
        self.session.resume(self.rig.now)

    def certificate(self) -> str | None:
        return self.shown


class Hub:
    """One broker, and its connections."""

    def __init__(self, rig: Rig | None = None, options: AmqpOptions | None = None) -> None:
        self.rig = Rig() if rig is None else rig
        self.options = AmqpOptions() if options is None else options
        self.clients: list[Client] = []

    def protect(self, directory: Directory, rules: list[Rule]) -> None:
        """Let in whom ``directory`` knows."""
        self.rig.broker.access.protect(directory, rules)

    def fill(self, queue: str, *bodies: object) -> None:
        """Put messages into a queue."""
        broker = self.rig.broker
        target = broker.target(names.parse(queue))
        for body in bodies:
            message = message_of(encoded(body, durable=True), self.rig.wall).message
            message.address = target.name
            broker.send(message, target)
        self.rig.turn()

    def turn(self) -> None:
        """End a turn."""
        for _ in range(100):
            self.rig.turn()
            while self.rig.broker.effort.waits():
                self.rig.broker.effort.go_on()
            if not sum(client.read() for client in self.clients):
                return


class Client:
    """One connection, with one session on channel 0. `take` returns, and forgets, the performatives of one kind."""

    def __init__(
        self, hub: Hub, *, opens: bool = True, container: str = "", certificate: str | None = None, **fields: object
    ) -> None:
        self.hub = hub
        shell = Wire(hub.rig, certificate)
        hub.rig.broker.tick(hub.rig.now, hub.rig.wall)
        number = len(hub.clients) + 1
        self.session = AmqpServerSession(shell, hub.rig.broker, hub.options, number, f"peer-{number}")
        shell.session = self.session
        self.encoder, self.decoder = Encoder(), Decoder(1 << 24)
        self.frames: list[Frame] = []
        self.next_delivery = 0
        self.next_outgoing = 0
        hub.clients.append(self)
        self.container = container or f"client-{number}"
        if opens:
            self.feed(header(0))
            self.say(said.Open(container_id=self.container, **fields))  # type: ignore[arg-type]
            self.say(said.Begin(incoming_window=1 << 20, outgoing_window=1 << 20))
            assert self.take(said.Open)
            assert self.take(said.Begin)

    # -- octets --------------------------------------------------------------------------------------------------------

    def feed(self, octets: bytes) -> None:
        self.hub.rig.broker.tick(self.hub.rig.now, self.hub.rig.wall)
        self.session.receive(octets, self.hub.rig.now)
        self.read()

    def say(self, performative: Composite, payload: bytes = b"", *, channel: int = 0, kind: int = 0) -> None:
        out = BytesWriter()
        self.encoder.write_with(out, channel, performative, payload, kind)
        self.feed(out.getvalue())

    def read(self) -> int:
        octets = self.session.outgoing()
        self.frames += self.decoder.feed(octets)
        return len(octets)

    def take(self, kind: type[Kind]) -> list[Kind]:
        """Return what came of one kind."""
        found = [one.performative for one in self.frames if isinstance(one.performative, kind)]
        self.frames = [one for one in self.frames if not isinstance(one.performative, kind)]
        return found

    def messages(self) -> list[Received]:
        """Return the messages that came, put together."""
        transfers = [one for one in self.frames if isinstance(one.performative, said.Transfer)]
        self.frames = [one for one in self.frames if not isinstance(one.performative, said.Transfer)]
        found: list[Received] = []
        parts: dict[int, tuple[said.Transfer, list[bytes]]] = {}
        for one in transfers:
            transfer = one.performative
            assert isinstance(transfer, said.Transfer)
            first, pieces = parts.setdefault(int(transfer.handle), (transfer, []))
            pieces.append(one.payload)
            if not transfer.more:
                del parts[int(transfer.handle)]
                found.append(Received(first, b"".join(pieces)))
        assert not parts
        return found

    def bodies(self) -> list[object]:
        return [one.body for one in self.messages()]

    # -- links ---------------------------------------------------------------------------------------------------------

    def sender(self, address: str | None, handle: int = 0, **fields: object) -> said.Attach:
        """Attach a link to send over."""
        capabilities = fields.pop("capabilities", [])
        target = said.Target(address=address, capabilities=capabilities)  # type: ignore[arg-type]
        asked = said.Attach(name=f"s{handle}", handle=handle, role=False, initial_delivery_count=0)
        asked.target = fields.pop("target", target)  # type: ignore[assignment]
        for name, value in fields.items():
            setattr(asked, name, value)
        self.say(asked)
        return self.take(said.Attach)[-1]

    def receiver(
        self, address: str | None, handle: int = 1, credit: int = 100, *, name: str = "", **fields: object
    ) -> said.Attach:
        """Attach a link to read from; fields of Attach, and of its source."""
        source = said.Source(address=address)
        asked = said.Attach(name=name or f"r{handle}", handle=handle, role=True, source=source, target=said.Target())
        for key, value in fields.items():
            setattr(asked if hasattr(asked, key) else source, key, value)
        self.say(asked)
        answers = self.take(said.Attach)
        if not answers:  # what it made is to be on disk first
            self.hub.turn()
            answers = self.take(said.Attach)
        answer = answers[-1]
        if credit:
            self.credit(credit, handle)
        return answer

    def credit(self, credit: int, handle: int = 1, *, count: int = 0, drain: bool = False, echo: bool = False) -> None:
        self.say(
            said.Flow(
                next_incoming_id=int(self.session.channels[0].next_outgoing), incoming_window=1 << 20,
                next_outgoing_id=self.next_outgoing, outgoing_window=1 << 20, handle=handle, delivery_count=count,
                link_credit=credit, drain=drain, echo=echo,
            )
        )  # fmt: skip

    def send(self, octets: bytes, handle: int = 0, *, settled: bool = False, **fields: object) -> int:
        """Send a message in one transfer; return its delivery-id."""
        return self.send_parts([octets], handle, settled=settled, **fields)

    def send_parts(self, parts: list[bytes], handle: int = 0, *, settled: bool = False, **fields: object) -> int:
        delivery = self.next_delivery
        self.next_delivery += 1
        for at, part in enumerate(parts):
            transfer = said.Transfer(handle=handle, more=at < len(parts) - 1)
            if at == 0:
                transfer.delivery_id = delivery
                transfer.delivery_tag = delivery.to_bytes(4, "big")
                transfer.settled = int(settled)
                for name, value in fields.items():
                    setattr(transfer, name, value)
            self.say(transfer, part)
            self.next_outgoing += 1
        return delivery

    def settle(self, first: int, state: Composite | None = None, *, last: int = -1, settled: bool = True) -> None:
        state = said.Accepted() if state is None else state
        self.say(said.Disposition(role=True, first=first, last=last, settled=settled, state=state))

    def outcomes(self) -> list[tuple[int, int, str, bool]]:
        """Return what became of what was sent: first, last, state, settled."""
        self.hub.turn()
        return [
            (int(one.first), int(one.last), type(one.state).__name__, one.settled)
            for one in self.take(said.Disposition)
        ]


class Received:
    """One message as a client sees it."""

    def __init__(self, transfer: said.Transfer, octets: bytes) -> None:
        self.id = int(transfer.delivery_id)
        self.settled = transfer.settled == 1
        self.octets = octets
        self.sections: Sections = scan(octets)
        self.header = self.sections.header or said.Header()
        self.properties = properties_in(octets, self.sections) or said.Properties()
        self.annotations = map_in(octets, self.sections.annotations_at)
        self.application = map_in(octets, self.sections.application_at)

    @property
    def body(self) -> object:
        values = [Octets(self.octets, at, len(self.octets)).value() for at in self.sections.bodies]
        return values[0] if len(values) == 1 else values


def encoded(
    body: object = None, *, durable: bool = False, annotations: dict[str, object] | None = None,
    application: dict[str, object] | None = None, data: bool = False, properties: said.Properties | None = None,
    **header_fields: int,
) -> bytes:  # fmt: skip
    """Return a message."""
    out = BytesWriter()
    if durable or header_fields:
        write_header(out, said.Header(durable=durable, **header_fields))
    write_table(out, MESSAGE_ANNOTATIONS, annotations or {}, True)
    if properties is not None:
        write_properties(out, properties)
    write_table(out, APPLICATION_PROPERTIES, application or {}, False)
    put_descriptor(out, DATA if data else VALUE)
    write_value(out, body)
    return out.getvalue()
