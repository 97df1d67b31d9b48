"""One conversation with several scripted brokers."""

from __future__ import annotations

from entrepot.protocols.openwire.client import OpenWireClient
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.fanout import FanoutWire
from entrepot.protocols.openwire.ids import parse_destination
from entrepot.protocols.openwire.negotiation import WireFormatOptions
from entrepot.protocols.session import Shell
from pair import Pair

from .scripted import ScriptedBroker
from .test_conversation import Program, text_message

TOPIC = parse_destination("topic://T")


class Party:
    """A program that fans out, and its brokers."""

    def __init__(self, answers_min: int = 2, *, queues_too: bool = False) -> None:
        self.program = Program()
        self.wire = FanoutWire(self.program.core.hearing, answers_min, queues_too=queues_too)
        self.pairs: list[Pair] = []
        self.brokers: list[ScriptedBroker] = []

    def meet(self, broker: ScriptedBroker, *, known: bool) -> ScriptedBroker:
        client = OpenWireClient(Shell(), WireFormatOptions(), self.wire, 0)
        self.pairs.append(Pair(client, broker))
        self.run()
        self.wire.join(client, known=known)
        self.run()
        return broker

    def start(self, *brokers: ScriptedBroker) -> None:
        self.brokers = [self.meet(broker, known=False) for broker in brokers]
        self.program.core.use(self.wire)
        self.run()
        for broker in brokers:
            broker.story()

    def run(self) -> None:
        for pair in self.pairs:
            pair.run()

    def send(self, where: str, producer: object) -> None:
        message = text_message("x")
        message.destination = parse_destination(where)
        self.program.core.producers.identify(producer, message)  # type: ignore[arg-type]
        self.program.core.producers.send(producer, message, self.program.answer)  # type: ignore[arg-type]
        self.run()


def test_topics_go_to_all_and_queues_and_consumers_to_the_primary() -> None:
    party = Party()
    first, second = ScriptedBroker("a"), ScriptedBroker("b")
    party.start(first, second)
    assert party.program.log == ["first"]
    session = party.program.session()
    producer = party.program.producer(session)
    party.program.consumer(session)
    party.send("topic://T", producer)
    party.send("queue://Q", producer)
    assert first.story() == ["Session", "Producer?", "Consumer?", "send 1?", "send 2?"]
    assert second.story() == ["Session", "Producer?", "send 1?"]
    assert party.program.answers == [None] * 4


def test_queues_too() -> None:
    party = Party(queues_too=True)
    first, second = ScriptedBroker("a"), ScriptedBroker("b")
    party.start(first, second)
    party.send("queue://Q", party.program.producer(party.program.session()))
    assert second.story()[-1] == "send 1?"


def test_an_answer_needs_so_many() -> None:
    party = Party(2)
    brokers = [ScriptedBroker(name) for name in "abc"]
    brokers[0].mute = brokers[1].mute = {"ActiveMQTextMessage": None}
    party.start(*brokers)
    producer = party.program.producer(party.program.session())
    party.send("topic://T", producer)
    assert party.program.answers == [None]  # that of the producer
    heard = next(command for command in brokers[0].heard if command.type_id == 28)
    from entrepot.protocols.openwire.commands import Response

    brokers[0].say(Response(correlation_id=heard.command_id))
    party.run()
    assert party.program.answers == [None, None]


def test_a_refusal_is_told_at_once() -> None:
    party = Party(2)
    first, second = ScriptedBroker("a"), ScriptedBroker("b")
    first.refusals["ProducerInfo"] = Throwable("java.lang.SecurityException", "no")
    second.mute = {"ProducerInfo": None}
    party.start(first, second)
    party.program.producer(party.program.session())
    party.run()
    assert [type(answer).__name__ for answer in party.program.answers] == ["AccessDenied"]


def test_one_that_joins_is_told_all_but_consumers() -> None:
    party = Party(1)
    party.start(ScriptedBroker("a"))
    session = party.program.session()
    party.program.producer(session)
    party.program.consumer(session)
    party.run()
    late = party.meet(ScriptedBroker("late"), known=True)
    assert late.story() == ["ConnectionControl", "Connection?", "Session", "Producer"]
    assert len(party.wire.members) == 2


def test_the_next_takes_the_consumers_and_what_only_the_primary_was_asked() -> None:
    party = Party(1)
    first, second = ScriptedBroker("a"), ScriptedBroker("b")
    first.mute = {"ActiveMQTextMessage": None}
    party.start(first, second)
    session = party.program.session()
    producer = party.program.producer(session)
    party.program.consumer(session)
    party.send("queue://Q", producer)
    second.story()
    party.program.answers.clear()
    party.pairs[0].cut()
    party.run()
    assert second.story() == ["Consumer", "send 1?"]
    assert party.program.answers == [None]


def test_the_last_one_lost_is_a_loss() -> None:
    party = Party(1)
    party.start(ScriptedBroker("a"), ScriptedBroker("b"))
    for pair in party.pairs:
        pair.cut()
    assert party.program.log == ["first", "lost"]
    assert party.program.core.requests.wire is None
