"""Which wire a connection speaks: the one place of the client that knows them by name.

A second wire is a second `Conversation` (`protocols/conversing/port.py`) and a second branch here; what a URL must say
for it is read in `options`.
"""

from __future__ import annotations

from entrepot.base.environment import SECOND, Entropy
from entrepot.base.errors import Fault
from entrepot.client.options import FanoutOptions, Target
from entrepot.protocols.artemis.conversation.core import CoreConversation
from entrepot.protocols.artemis.conversation.identity import Windows
from entrepot.protocols.conversing.port import Conversation, ConversationEvents
from entrepot.protocols.openwire.commands import ConnectionId, ConnectionInfo
from entrepot.protocols.openwire.conversation.core import ConversationCore
from entrepot.protocols.openwire.conversation.fan import Fan


def conversation_of(
    target: Target, name: str, client_id: str, events: ConversationEvents, entropy: Entropy
) -> Conversation:
    """Return a conversation as ``target`` wants it. ``name``: of the connection, begins the ids of its messages."""
    options, failover = target.client, target.failover
    if target.core is not None:
        core = target.core
        return CoreConversation(
            name,
            client_id,
            options.user_name or None,
            options.password or None,
            events,
            entropy,
            reconnects=target.reconnects,
            windows=Windows(
                core.consumer_window_size,
                core.producer_window_size,
                core.min_large_message_size,
                core.connection_ttl * 1000 // SECOND,
                core.confirmation_window_size,
            ),
        )
    info = ConnectionInfo(
        connection_id=ConnectionId(name),
        client_id=client_id,
        user_name=options.user_name or None,
        password=options.password or None,
        manageable=True,
        client_master=True,
        fault_tolerant=target.reconnects,
    )
    return ConversationCore(
        info,
        events,
        entropy,
        reconnects=target.reconnects,
        zone=failover.zone,
        watch_advisories=options.watch_topic_advisories,
        audit=options.check_for_duplicates,
        cache_octets=failover.max_cache_size if failover.track_messages else 0,
        track_transaction_producers=failover.track_transaction_producers,
        handling=options.handling(),
    )


def fan_of(conversation: Conversation, options: FanoutOptions, target: Target) -> Fan:
    """Return what joins several brokers for ``conversation``; OpenWire alone has it."""
    if not isinstance(conversation, ConversationCore):
        raise Fault("this wire has no fanout")
    return Fan(conversation, options.min_ack_count, len(target.places), queues_too=options.fan_out_queues)
