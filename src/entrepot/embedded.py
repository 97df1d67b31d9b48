"""Brokers inside programs: `Broker`, for asyncio and for programs without it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from entrepot.client.portal import Portal
from entrepot.cluster.carrying.draw_options import draws_of, is_draw
from entrepot.cluster.networks.connector import connector_of
from entrepot.config.ledger import of_program
from entrepot.config.users import parse as parse_users
from entrepot.core.operators.views import UNBOUNDED, QueueView
from entrepot.management.queues import ConsumerViews, Queues, QueueViews, ScheduleViews
from entrepot.node import Node
from entrepot.node_options import MEMORY_LIMIT, NodeOptions

EPHEMERAL_LISTEN: Final = ("auto://127.0.0.1:0",)

T = TypeVar("T")


class Broker:
    """A broker inside this process: ``async with Broker() as broker: ... entrepot.connect(broker.url)``.

    ``with`` serves programs without asyncio: see `BlockingBroker`. Without ``data`` it keeps nothing on disk. Without
    ``listen`` it takes a free port on the loopback interface, where clients of OpenWire and of STOMP are understood.
    Several may run on one loop.
    """

    def __init__(
        self,
        *,
        data: str | Path | None = None,
        name: str = "embedded",
        listen: Sequence[str] = EPHEMERAL_LISTEN,
        policies: Mapping[str, Mapping[str, object]] | None = None,
        memory_limit: int = MEMORY_LIMIT,
        users: str | None = None,
        connect: Sequence[str] = (),
        duplex: bool = False,
        announce: Sequence[str] = (),
        trace: str | Path | None = None,
        zone: str = "",
        client_zones: Sequence[str] = (),
        otlp: str | None = None,
        otlp_ratio: float | None = None,
        otlp_limit: int | None = None,
    ) -> None:
        """``policies``: address pattern -> setting -> value. ``memory_limit`` in octets.

        ``users``: the text of a users file (docs/security.md); None: everybody may do everything. ``connect``: other
        brokers to bridge to, as `entrepot run --connect` has them (``artemis:(...)`` and ``activemq:(...)`` too), and
        ``vm://name`` for one of this process; ``duplex``: and back. ``announce``: where others may find this one, like
        ``multicast://default``.
        ``trace``: the directory of its trace (docs/audit.md). ``zone``: where this broker is, ``client_zones``: where
        its clients are (docs/zones.md). ``otlp``: the collector that spans of messages go to, ``otlp_ratio`` and
        ``otlp_limit`` as `entrepot run` has them (docs/telemetry.md); the variables of OpenTelemetry are the program's,
        and do not ask for it alone.

        Raises InvalidURI, InvalidOption, InvalidConfiguration.
        """
        directory = None if data is None else Path(data)
        security = None if users is None else parse_users(users)
        joined = [text for text in connect if not is_draw(text)]
        networks = [connector_of(text, number, duplex=duplex) for number, text in enumerate(joined, 1)]
        options = NodeOptions(
            name=name,
            data=directory,
            listen=listen,
            policies=policies,
            memory_limit=memory_limit,
            security=security,
            networks=networks,
            draws=draws_of(tuple(connect)),
            announce=announce,
            trace=None if trace is None else Path(trace),
            zone=zone,
            client_zones=client_zones,
            said=of_program(name, directory, listen, memory_limit),
        )
        if not (otlp is None and otlp_ratio is None and otlp_limit is None):
            from entrepot.management.telemetry import Telemetry, telemetry_options  # noqa: PLC0415 - an extra

            asked = telemetry_options(otlp, otlp_ratio, {} if otlp is None else os.environ, otlp_limit)
            options.telemetry = None if asked is None else Telemetry(asked)
        self.node: Final = Node(options)

    @property
    def queues(self) -> Queues:
        """Return what an operator may do to its queues."""
        return Queues(lambda: (self.node.broker, self.node.turn))

    @property
    def uris(self) -> list[str]:
        """Return where it listens."""
        return self.node.uris

    def uri(self, protocol: str) -> str:
        """Return where ``protocol`` (``stomp``, ``openwire``, ``tcp``) is spoken. Raises InvalidOption."""
        return self.node.uri(protocol)

    @property
    def url(self) -> str:
        """Return what clients of OpenWire connect to, like ``tcp://127.0.0.1:61616``. Raises InvalidOption."""
        return self.node.uri("tcp")

    def __enter__(self) -> BlockingBroker:
        portal = Portal.shared()
        portal.call(self.node.start)
        return BlockingBroker(self, portal)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        Portal.shared().call(self.node.stop)

    async def __aenter__(self) -> Self:
        await self.node.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.node.stop()


class BlockingBroker:
    """A broker that runs in a thread beside a program without asyncio: ``with Broker() as broker:``.

    The thread is that of the blocking clients, one for the process.
    """

    def __init__(self, broker: Broker, portal: Portal) -> None:
        self._broker: Final = broker
        self._portal: Final = portal
        self.queues: Final = BlockingQueues(broker.queues, portal)

    @property
    def uris(self) -> list[str]:
        """Return where it listens."""
        return self._broker.uris

    @property
    def url(self) -> str:
        """Return what `entrepot.blocking.connect` connects to. Raises InvalidOption where OpenWire is not spoken."""
        return self._broker.url

    def uri(self, protocol: str) -> str:
        """Return where ``protocol`` (``stomp``, ``openwire``, ``tcp``) is spoken. Raises InvalidOption."""
        return self._broker.uri(protocol)

    def wait(self) -> str:
        """Return why it ends, when it does: it was stopped, or its journal failed."""
        return self._portal.call(self._broker.node.wait)


class BlockingQueues:
    """What an operator may do to the queues: `management.queues.Queues`, each call waits until it is done."""

    def __init__(self, queues: Queues, portal: Portal) -> None:
        self._queues: Final = queues
        self._portal: Final = portal

    def _look(self, action: Callable[[Queues], T]) -> T:
        return self._portal.run(lambda: action(self._queues))

    def list(self, pattern: str = "") -> QueueViews:
        """Return all queues, or those whose name a wildcard matches, by name."""
        return self._look(lambda queues: queues.list(pattern))

    def show(self, name: str) -> QueueView:
        """Return one queue."""
        return self._look(lambda queues: queues.show(name))

    def consumers(self, name: str = "") -> ConsumerViews:
        """Return the consumers of one queue, or all."""
        return self._look(lambda queues: queues.consumers(name))

    def scheduled(self, most: int = 1_000) -> ScheduleViews:
        """Return up to ``most`` messages that wait for their time."""
        return self._look(lambda queues: queues.scheduled(most))

    def create(self, name: str, *, durable: bool = True) -> None:
        """Make a queue that no disuse deletes. Raises InvalidDestination if it exists."""
        self._look(lambda queues: queues.create(name, durable=durable))

    def pause(self, name: str) -> None:
        """Stop delivery from a queue."""
        self._look(lambda queues: queues.pause(name))

    def resume(self, name: str) -> None:
        """Deliver again."""
        self._look(lambda queues: queues.resume(name))

    def cancel(self, number: int) -> bool:
        """Forget the message with this number that waits for its time; False when there is none."""
        return self._look(lambda queues: queues.cancel(number))

    def purge(self, name: str, *, selector: str = "", most: int = UNBOUNDED) -> int:
        """Remove what waits in a queue; return how many messages that were."""
        return self._portal.call(lambda: self._queues.purge(name, selector=selector, most=most))

    def delete(self, name: str, *, if_empty: bool = False, if_unused: bool = False) -> int:
        """Delete a queue with all that it holds; return how many messages went."""
        return self._portal.call(lambda: self._queues.delete(name, if_empty=if_empty, if_unused=if_unused))

    def move(self, name: str, target: str, *, selector: str = "", most: int = UNBOUNDED) -> int:
        """Move what waits to the end of another queue, in order; return how many messages that were."""
        return self._portal.call(lambda: self._queues.move(name, target, selector=selector, most=most))

    def copy(self, name: str, target: str, *, selector: str = "", most: int = UNBOUNDED) -> int:
        """Copy what waits to the end of another queue, in order; return how many messages that were."""
        return self._portal.call(lambda: self._queues.copy(name, target, selector=selector, most=most))

    def retry(self, name: str = "ActiveMQ.DLQ", *, selector: str = "", most: int = UNBOUNDED) -> int:
        """Send dead letters back to where they came from; return how many messages that were."""
        return self._portal.call(lambda: self._queues.retry(name, selector=selector, most=most))

    def remove(self, name: str, identity: str | int) -> bool:
        """Remove one message, named by its id or its number; False when it does not wait there."""
        return self._portal.call(lambda: self._queues.remove(name, identity))
