"""Conversations in OpenWire as golden text: what clients say, and every command that the broker answers with.

A file under tests/conversations/openwire/ is a list of steps, separated by empty lines, as in `conversation.py`:
commands, ``----``, what came of them. ``pytest --rewrite-conversations`` writes the answers anew; read the difference.

Commands (NAME is a connection; messages are named by their text; N is the number of a transaction or a consumer)::

    open NAME [failover] [client=ID]       connect; with failover, as who was connected before
    NAME producer WHERE|none [by=N] [window=N]
    NAME send WHERE TEXT [by=N] [persistent] [tx=N] [seq=N] [async]
    NAME consume WHERE N [prefetch=N] [durable=NAME] [selector=TEXT] [retroactive]
    NAME browse WHERE N
    NAME ack KIND LAST [first=TEXT] [count=N] [tx=N]
    NAME begin|commit|rollback|prepare N
    NAME pull N [timeout=MS]
    NAME leave N [last=TEXT]               the consumer closes; the last message that was delivered there
    NAME unsubscribe DURABLE
    NAME goodbye                           RemoveInfo of the connection, ShutdownInfo
    cut NAME                               the socket dies
    wait MS | restart | kill | queues
"""

from __future__ import annotations

from pathlib import Path

from conversation import play_steps
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTopic,
    Command,
    ConnectionId,
    ConsumerId,
    Destination,
    ExceptionResponse,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessageId,
    MessagePull,
    ProducerAck,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    ShutdownInfo,
    TransactionInfo,
    XATransactionId,
)
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.ids import AckType, TransactionStep, qualified_name
from kit import Rig

from .wired import Client, Hub, text_in

STEPS = {
    "begin": TransactionStep.BEGIN,
    "commit": TransactionStep.COMMIT_ONE_PHASE,
    "commit2": TransactionStep.COMMIT_TWO_PHASE,
    "rollback": TransactionStep.ROLLBACK,
    "prepare": TransactionStep.PREPARE,
    "end": TransactionStep.END,
}
HIDDEN = (commands.WireFormatInfo, commands.BrokerInfo, commands.ConnectionControl)  # told by `open.txt` alone


def place(text: str) -> Destination:
    kind, _, name = text.partition("://")
    return ActiveMQTopic(name) if kind == "topic" else ActiveMQQueue(name or kind)


class Conversation:
    """Runs the steps of one file against one broker on a simulated disk."""

    def __init__(self) -> None:
        self.hub = Hub(Rig(segment_bytes=1 << 16))
        self.clients: dict[str, Client] = {}
        self.taken: dict[tuple[str, str], MessageDispatch] = {}  # the last dispatch of a text to a connection
        self.asked: dict[tuple[str, int], str] = {}
        self.closed: list[str] = []
        self.everything = False

    def run(self, lines: list[str]) -> list[str]:
        shown: list[str] = []
        for line in lines:
            shown += self.do(line.split())
            self.hub.rig.wait(0)
            shown += self.answers()
        return shown

    def do(self, words: list[str]) -> list[str]:
        verb = words[0]
        if verb == "show":
            self.everything = True
        elif verb == "open":
            self.open(words[1], words[2:])
        elif verb == "cut":
            self.clients.pop(words[1]).session.detach("cut", self.hub.rig.now)
        elif verb == "wait":
            self.wait(int(words[1]))
        elif verb in ("restart", "kill"):
            for client in self.clients.values():
                client.session.detach("the broker stops", self.hub.rig.now)
            self.clients.clear()
            self.hub.rig.restart({"restart": "close"}.get(verb, verb))
            self.hub = Hub(self.hub.rig)
        elif verb == "queues":
            queues = self.hub.rig.broker.table.queues.values()
            return [f"{queue.name}: {queue.count} messages, {queue.in_flight} in flight" for queue in queues]
        else:
            self.say(self.clients[verb], verb, words[1], words[2:])
        return []

    def open(self, name: str, words: list[str]) -> None:
        given = dict(word.partition("=")[::2] for word in words)
        client = self.hub.client(f"ID:{name}", connected=False)
        self.clients[name] = client
        info = commands.ConnectionInfo(
            connection_id=ConnectionId(client.name),
            client_id=given.get("client"),
            manageable=True,
            failover_reconnect="failover" in given,
        )
        self.post(name, client, info, "connect")

    def wait(self, milliseconds: int) -> None:
        for _ in range(max(1, milliseconds // 100)):
            self.hub.rig.wait(min(100, milliseconds))
            for client in self.clients.values():
                if client.session.deadline() <= self.hub.rig.now:
                    client.session.advance(self.hub.rig.now)

    def post(self, name: str, client: Client, command: Command, what: str, *, answer: bool = True) -> None:
        self.asked[(name, client.post(command, answer=answer))] = what

    def say(self, client: Client, name: str, verb: str, words: list[str]) -> None:
        given = dict(word.partition("=")[::2] for word in words if "=" in word or word in FLAGS)
        plain = [word for word in words if "=" not in word and word not in FLAGS]
        what = " ".join([verb, *plain])
        answer = "async" not in given
        if verb == "producer":
            where = None if plain[0] == "none" else place(plain[0])
            producer_id = ProducerId(client.name, int(given.get("by", "1")), 1)
            info = ProducerInfo(producer_id=producer_id, destination=where, window_size=int(given.get("window", "0")))
            self.post(name, client, info, what)
        elif verb == "send":
            message = client.text(
                place(plain[0]),
                plain[1],
                persistent="persistent" in given,
                transaction=self.transaction(client, given),
                sequence=int(given.get("seq", "0")),
                value=int(given.get("by", "1")),
            )
            self.post(name, client, message, what, answer=answer)
        elif verb in ("consume", "browse"):
            info_of = commands.ConsumerInfo(
                consumer_id=ConsumerId(client.name, 1, int(plain[1])),
                destination=place(plain[0]),
                prefetch_size=int(given.get("prefetch", "1000")),
                browser=verb == "browse",
                subscription_name=given.get("durable"),
                selector=given.get("selector"),
                retroactive="retroactive" in given,
            )
            self.post(name, client, info_of, what)
        elif verb == "ack":
            self.post(name, client, self.ack(client, name, plain, given), what, answer=False)
        elif verb in STEPS:
            step = TransactionInfo(
                connection_id=ConnectionId(client.name),
                transaction_id=self.transaction(client, {"tx": plain[0]}),
                type=int(STEPS[verb]),
            )
            self.post(name, client, step, what)
        elif verb == "pull":
            pull = MessagePull(
                consumer_id=ConsumerId(client.name, 1, int(plain[0])), timeout=int(given.get("timeout", "-1"))
            )
            self.post(name, client, pull, what, answer=False)
        elif verb == "leave":
            last = -2 if "last" not in given else self.broker_sequence(name, given["last"])
            gone = RemoveInfo(object_id=ConsumerId(client.name, 1, int(plain[0])), last_delivered_sequence_id=last)
            self.post(name, client, gone, what)
        elif verb == "unsubscribe":
            self.post(name, client, RemoveSubscriptionInfo(subscription_name=plain[0]), what)
        elif verb == "goodbye":
            self.post(name, client, RemoveInfo(object_id=ConnectionId(client.name)), what)
            client.post(ShutdownInfo())
        else:
            raise AssertionError(f"nobody knows how to {verb}")

    def transaction(self, client: Client, given: dict[str, str]) -> LocalTransactionId | XATransactionId | None:
        number = given.get("tx", "")
        if not number:
            return None
        if number.startswith("xa"):
            return XATransactionId(7, number.encode(), b"branch")
        return LocalTransactionId(int(number), ConnectionId(client.name))

    def ack(self, client: Client, name: str, plain: list[str], given: dict[str, str]) -> MessageAck:
        last = self.taken[(name, plain[1])]
        first = self.taken[(name, given["first"])] if "first" in given else last
        return MessageAck(
            destination=last.destination,
            consumer_id=last.consumer_id,
            ack_type=int(AckType[plain[0].upper()]),
            first_message_id=self.identity(first),
            last_message_id=self.identity(last),
            message_count=int(given.get("count", "1")),
            poison_cause=Throwable("java.lang.Exception", "cannot", []) if plain[0] == "poison" else None,
            transaction_id=self.transaction(client, given),
        )

    def identity(self, dispatch: MessageDispatch) -> MessageId | None:
        return None if dispatch.message is None else dispatch.message.message_id

    def broker_sequence(self, name: str, text: str) -> int:
        identity = self.identity(self.taken[(name, text)])
        assert identity is not None
        return int(identity.broker_sequence_id)

    # -- what came back ------------------------------------------------------------------------------------------------

    def answers(self) -> list[str]:
        shown: list[str] = []
        for name, client in self.clients.items():
            client.hear()
            for command in client.take():
                if self.everything or not isinstance(command, HIDDEN):
                    shown.append(f"{name}> {self.words(name, command)}")
            if client.session.closing and name not in self.closed:
                self.closed.append(name)
                client.session.detach("closed", self.hub.rig.now)
                shown.append(f"{name}> closed")
        return shown

    def words(self, name: str, command: Structure) -> str:
        kind = type(command).__name__
        if isinstance(command, MessageDispatch):
            if command.message is None:
                return f"{kind} to {command.consumer_id.value if command.consumer_id else '?'}: nothing"
            self.taken[(name, text_in(command))] = command
            again = f" redelivery {command.redelivery_counter}" if command.redelivery_counter else ""
            assert command.consumer_id is not None
            assert command.destination is not None
            where = qualified_name(command.destination)
            return f"{kind} to {command.consumer_id.value} of {where}{again} | {text_in(command)}"
        if isinstance(command, Response):
            said = f"{kind} to {self.asked.get((name, command.correlation_id), '?')}"
            if isinstance(command, ExceptionResponse) and command.exception is not None:
                return f"{said}: {command.exception.class_name}: {command.exception.message}"
            return f"{said}: {command.result}" if isinstance(command, commands.IntegerResponse) else said
        if isinstance(command, commands.ConnectionError) and command.exception is not None:
            return f"{kind}: {command.exception.class_name}: {command.exception.message}"
        if isinstance(command, ProducerAck):
            return f"{kind} of {command.size}"
        if isinstance(command, commands.ConsumerControl):
            return f"{kind} close={command.close}"
        return kind


FLAGS = ("persistent", "async", "failover", "retroactive")


def play(path: Path, rewrite: bool) -> None:
    """Run a file; assert that every answer is as written, or write the answers."""
    play_steps(Conversation().run, path, rewrite)
