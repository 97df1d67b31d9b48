"""What brokers tell one another of readers and temporary destinations, between OpenWire's words and the bridges' own.

The one place where both are known: what a bridge decides is said in `wanted.py`, what is on the wire in OpenWire's
commands. Nothing that matters is lost in either direction; a null of the wire and an empty text are the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from mypy_extensions import i32

from entrepot.base.errors import InvalidDestination
from entrepot.cluster.networks.lists import Place
from entrepot.cluster.networks.wanted import DurableGone, Reader, ReaderGone, ReaderId, TemporaryTold, Told
from entrepot.core.broker import BrokerCore
from entrepot.protocols.openwire.commands import (
    BrokerId,
    BrokerSubscriptionInfo,
    ConnectionId,
    ConsumerId,
    ConsumerInfo,
    Destination,
    DestinationInfo,
    ExceptionResponse,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
)
from entrepot.protocols.openwire.convert import named
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.ids import DestinationOperation, components, is_queue, is_temporary, path_of


def place_of(where: Destination) -> Place:
    """Return what ``where`` names; of a composite the whole."""
    return Place(where.physical_name or "", not is_queue(where), is_temporary(where))


def destination_of(place: Place) -> Destination:
    """Return how OpenWire writes ``place``."""
    return named(place.name, place.topic, place.temporary)


def reader_of(info: ConsumerInfo) -> Reader:
    """Return the consumer that ``info`` announces; one of a destination that has an empty part reads nothing."""
    where = info.destination
    parts: tuple[Place, ...] = ()
    if where is not None and where.physical_name:
        try:
            parts = tuple(place_of(part) for part in components(where))
        except InvalidDestination:
            parts = ()
    return Reader(
        Place("", topic=False) if where is None else place_of(where),
        parts,
        None if info.consumer_id is None else reader_id_of(info.consumer_id),
        path_of(info.broker_path),
        tuple(reader_id_of(one) for one in info.network_consumer_path or () if isinstance(one, ConsumerId)),
        network=info.network_subscription,
        browser=info.browser,
        client_id=info.client_id,
        subscription_name=info.subscription_name,
        selector=info.selector,
        prefetch=int(info.prefetch_size),
        pending_limit=int(info.maximum_pending_message_limit),
        dispatch_async=info.dispatch_async,
        exclusive=info.exclusive,
        retroactive=info.retroactive,
        priority=int(info.priority),
    )


def info_of(reader: Reader) -> ConsumerInfo:
    """Return what announces ``reader``."""
    return ConsumerInfo(
        consumer_id=None if reader.id is None else consumer_id_of(reader.id),
        browser=reader.browser,
        destination=destination_of(reader.where),
        prefetch_size=i32(reader.prefetch),
        maximum_pending_message_limit=i32(reader.pending_limit),
        dispatch_async=reader.dispatch_async,
        selector=reader.selector,
        client_id=reader.client_id,
        subscription_name=reader.subscription_name,
        exclusive=reader.exclusive,
        retroactive=reader.retroactive,
        priority=i32(reader.priority),
        broker_path=[BrokerId(one) for one in reader.path] or None,
        network_subscription=reader.network,
        network_consumer_path=[consumer_id_of(one) for one in reader.served] or None,
    )


def reader_id_of(identity: ConsumerId) -> ReaderId:
    """Return who ``identity`` is."""
    return ReaderId(identity.connection_id or "", int(identity.session_id), int(identity.value))


def consumer_id_of(reader: ReaderId) -> ConsumerId:
    """Return how OpenWire writes ``reader``."""
    return ConsumerId(reader.connection, reader.session, reader.value)


def told_of(said: Structure | None) -> Told | None:
    """Return what the data structure of an advisory tells of what bridges act on, None for all else."""
    if isinstance(said, ConsumerInfo):
        return reader_of(said)
    if isinstance(said, RemoveInfo):
        return ReaderGone(reader_id_of(said.object_id)) if isinstance(said.object_id, ConsumerId) else None
    if isinstance(said, RemoveSubscriptionInfo):
        return DurableGone(said.client_id or "", said.subscription_name or "")
    if isinstance(said, DestinationInfo) and said.destination is not None and is_temporary(said.destination):
        there = said.operation_type == DestinationOperation.ADD
        return TemporaryTold(place_of(said.destination), path_of(said.broker_path), there)
    return None


def temporary_info(where: Place, path: Iterable[str], connection: str) -> DestinationInfo:
    """Return what announces that the temporary destination ``where`` of ``connection`` is there."""
    return DestinationInfo(
        connection_id=ConnectionId(connection),
        destination=destination_of(where),
        operation_type=int(DestinationOperation.ADD),
        broker_path=[BrokerId(one) for one in path],
    )


def listed(told: BrokerSubscriptionInfo) -> list[Reader]:
    """Return the durable subscriptions that another broker lists."""
    return [reader_of(one) for one in told.subscription_infos or () if one is not None]


def listing(broker: BrokerCore, readers: Iterable[Reader]) -> BrokerSubscriptionInfo:
    """Return the list of durable subscriptions ``readers`` as our broker sends it."""
    return BrokerSubscriptionInfo(
        broker_id=BrokerId(broker.ids.node_id),
        broker_name=broker.options.name,
        subscription_infos=[info_of(one) for one in readers],
    )


def refusal_of(response: Response) -> str | None:
    """Return why the other broker does not do what it was asked, None where it does."""
    if not isinstance(response, ExceptionResponse):
        return None
    exception = response.exception
    return "" if exception is None else f"{exception.class_name}: {exception.message}"
