"""The table of CORE, Artemis' own protocol: every packet, its ids, its fields in wire order, and when they travel.

This table is the only place that knows the layout. ``packets.py`` and the page docs/formats/core.md are written from
it, and the tests and the fuzz target read it. It decides nothing and reads no bytes. Its rules are those of artemis.md
5.2, its names the ones used there.

* A packet may have several *forms*: ids under which it travels with more and more fields. The sender takes the newest
  form that the version of the channel has; a reader takes what comes.
* Within a form a field may still depend on the version of the channel (``since``), on another field (``when``), or be
  absent at the end of the packet (``optional``: None).

>>> [field.name for field in packet_named("CreateConsumer").fields]
['consumer', 'queue', 'filter', 'browse', 'require_response', 'priority']
>>> packet_named("CreateSession").number(130), packet_named("CreateSession").number(136)
(30, -18)
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

VERSION_MIN: Final = 121
VERSION_MAX: Final = 136
"""The newest version that exists: Artemis 2.37 and all later ones."""
VERSION_UNKNOWN: Final = 130
"""What a channel speaks before its version is known: new for the layouts of 129 and 130, old for everything later."""

FORMS_MAX: Final = 9


class Kind(Enum):
    """How the value of a field travels; the value names the method of `primitives.PacketReader` and `PacketWriter`."""

    BOOLEAN = "boolean"
    BYTE = "byte"
    INT = "int32"
    LONG = "int64"
    SIMPLE = "simple"
    TEXT = "text"
    OCTETS = "octets"
    NULLABLE_BOOLEAN = "nullable_boolean"
    NULLABLE_BYTE = "nullable_byte"
    NULLABLE_INT = "nullable_int32"
    NULLABLE_LONG = "nullable_int64"
    NULLABLE_SIMPLE = "nullable_simple"
    NULLABLE_TEXT = "nullable_text"
    SIMPLES = "simples"
    ROUTINGS = "routings"
    LONGS = "int64s"
    XID = "xid"
    XIDS = "xids"
    CONNECTOR = "connector"
    NULLABLE_CONNECTOR = "nullable_connector"
    MESSAGE = "message"
    HEADERS = "headers"
    OPERATION = "operation"
    PAGE = "page"
    PAGED = "paged"
    CHUNK = "chunk"
    REST = "rest"


B, Y, I, L = Kind.BOOLEAN, Kind.BYTE, Kind.INT, Kind.LONG  # noqa: E741 - the letters of artemis.md 5.2
SS, S, D = Kind.SIMPLE, Kind.TEXT, Kind.OCTETS
NB, NI, NL = Kind.NULLABLE_BOOLEAN, Kind.NULLABLE_INT, Kind.NULLABLE_LONG
NSS, NS = Kind.NULLABLE_SIMPLE, Kind.NULLABLE_TEXT
XID, TC, NTC = Kind.XID, Kind.CONNECTOR, Kind.NULLABLE_CONNECTOR

ABOUT_KINDS: Final[dict[Kind, str]] = {
    Kind.BOOLEAN: "1 octet, any but 0 is true; written as ff",
    Kind.BYTE: "8 bits with sign",
    Kind.INT: "32 bits with sign, big-endian",
    Kind.LONG: "64 bits with sign, big-endian",
    Kind.SIMPLE: "i32 length in octets, then UTF-16 code units, little-endian",
    Kind.TEXT: "i32 n, the number of UTF-16 units; n < 9: the units, big-endian; n < 4095: i16 length and CESU-8;"
    " else a `simple`",
    Kind.OCTETS: "i32 length, then as many octets",
    Kind.NULLABLE_BOOLEAN: "an octet 0, or ff and a `boolean`",
    Kind.NULLABLE_BYTE: "an octet 0, or ff and a `byte`",
    Kind.NULLABLE_INT: "an octet 0, or ff and an `int32`",
    Kind.NULLABLE_LONG: "an octet 0, or ff and an `int64`",
    Kind.NULLABLE_SIMPLE: "an octet 0, or 01 and a `simple`",
    Kind.NULLABLE_TEXT: "an octet 0, or 01 and a `text`",
    Kind.SIMPLES: "i32 count, then as many `simple`",
    Kind.ROUTINGS: "i32 count, then an octet each: 0 multicast, 1 anycast",
    Kind.LONGS: "i32 count, then as many `int64`",
    Kind.XID: "format `int32`, branch qualifier `octets`, global id `octets`",
    Kind.XIDS: "i32 count, then as many `xid`",
    Kind.CONNECTOR: "name `text`, factory `text`, i32 count of parameters: key `text`, kind `byte` (0 boolean, 1 int32,"
    " 2 int64, 3 text), value",
    Kind.NULLABLE_CONNECTOR: "an octet 0, or ff and a `connector`",
    Kind.MESSAGE: "i32 length of the body + 13, body, headers; everything behind it is found from the end of the frame",
    Kind.HEADERS: "the headers of a message, up to the end of the frame",
    Kind.OPERATION: "from 131 on an octet: 0 update, 1 add, 2 event; before that a `boolean`: update",
    Kind.PAGE: "from 133 on an `int64`, before that an `int32`",
    Kind.PAGED: "a message as a page has it: transaction, kind, message or headers, queues",
    Kind.CHUNK: "as many octets as ``size`` says; what a sender puts behind them is ignored",
    Kind.REST: "octets up to the end of the frame, kept closed",
}


class Field(msgspec.Struct, frozen=True):
    """One field of a packet.

    It travels in the forms ``first`` to ``last`` (1 is the oldest), from version ``since`` of the channel on, and only
    ``when`` that expression over earlier fields is true. ``optional``: it may be missing at the end, and is None then.
    """

    name: str
    kind: Kind
    since: int = 0
    first: int = 1
    last: int = FORMS_MAX
    when: str = ""
    optional: bool = False
    default: int = 0


class Packet(msgspec.Struct, frozen=True):
    """One packet: ``forms`` are its ids with the version of the channel from which each may be written."""

    name: str
    wire_name: str
    forms: tuple[tuple[int, int], ...]
    fields: tuple[Field, ...]
    doc: str
    confirmed: bool = True
    """Whether both sides count it for PACKETS_CONFIRMED and keep it for a replay (5.2.6, Confirmation window)."""

    def number(self, version: int) -> int:
        """Return the id of the newest form that ``version`` has; 0 is a version that is not known yet."""
        known = version or VERSION_UNKNOWN
        return next((number for number, since in reversed(self.forms) if since <= known), self.forms[0][0])


REQUEST_BACKUP: Final = "RequestBackupQuorumVote"
"""The handler of the vote that asks who could host one more backup; its body is another one."""
ALREADY_REPLICATING: Final = 2
"""Of BACKUP_REGISTRATION_FAILED: with it alone a backup looks for another node; with none it waits for ever."""
WHO_IS_PRIMARY: Final = ("PrimaryFailoverQuorumVote", "LiveFailoverQuorumVote")
"""Handlers of votes on who is primary, the second of older brokers. The answer has the name of the question."""


def F(  # noqa: N802 - reads as the table's own word
    name: str,
    kind: Kind,
    *,
    since: int = 0,
    form: int = 1,
    last: int = FORMS_MAX,
    when: str = "",
    optional: bool = False,
    default: int = 0,
) -> Field:
    """Make a field; ``form`` is the first form that has it."""
    return Field(name, kind, since, form, last, when, optional, default)


def P(  # noqa: N802 - reads as the table's own word
    name: str, wire_name: str, number: int | tuple[tuple[int, int], ...], fields: tuple[Field, ...], doc: str,
    *, confirmed: bool = True,
) -> Packet:  # fmt: skip
    """Make a packet; ``number`` is its one id, or its forms."""
    forms = ((number, 0),) if isinstance(number, int) else number
    return Packet(name, wire_name, forms, fields, doc, confirmed)


def _vote() -> tuple[Field, ...]:
    """Return what a vote says: who is primary, or, by its handler, who could host a backup more (colocated)."""
    hosts, others = f'handler == "{REQUEST_BACKUP}"', f'handler != "{REQUEST_BACKUP}"'
    return (
        F("vote", B, when=others), F("node", S, when=others), F("connector", NS, when=others),
        F("backups", I, when=hosts), F("host", NS, when=hosts), F("available", B, when=hosts),
    )  # fmt: skip


def _attributes(form: int) -> tuple[Field, ...]:
    """Return what 5.2.5 calls *attributes*, as they travel from ``form`` on: older programs end before some of them."""
    kinds = (
        ("last_value_key", NSS), ("non_destructive", NB), ("consumers_before_dispatch", NI),
        ("delay_before_dispatch", NL), ("group_rebalance", NB), ("group_buckets", NI), ("auto_delete", NB),
        ("auto_delete_delay", NL), ("auto_delete_message_count", NL), ("group_first_key", NSS), ("ring_size", NL),
        ("enabled", NB), ("group_rebalance_pause_dispatch", NB),
    )  # fmt: skip
    return tuple(F(name, kind, form=form, optional=True) for name, kind in kinds)


PACKETS: Final[tuple[Packet, ...]] = (
    # the connection: channels 0 and 1
    P("Ping", "PING", 10, (F("ttl", L),), "Says that the sender is alive, and how long it is to be believed, in ms.",
      confirmed=False),
    P("Disconnect", "DISCONNECT", ((11, 0), (124, 125), (-19, 131)),
      (F("node", NSS), F("scale_down_node", NSS, form=2, last=2), F("reason", Y, form=3, default=-1),
       F("target_node", NSS, form=3), F("target", NTC, form=3)),
      "The server ends the connection; the client fails over. Reason 2: it stops, 0: go to ``target``.",
      confirmed=False),
    P("DisconnectConsumer", "DISCONNECT_CONSUMER", 12, (F("consumer", L),),
      "The server closed a consumer: its queue was deleted, or an administrator did it."),
    P("DisconnectConsumerKill", "DISCONNECT_CONSUMER_KILL", 13, (F("node", NSS),),
      "A slow consumer is sent away for good: the client does not reconnect.", confirmed=False),
    P("ExceptionReply", "EXCEPTION", 20, (F("code", I), F("text", NS), F("correlation", L, since=130, optional=True)),
      "Refuses a request, with a code of 5.2.9. ``correlation`` only where the request had one."),
    P("NullReply", "NULL_RESPONSE", 21, (F("correlation", L, since=130, optional=True),),
      "Done. ``correlation`` is the request's, or -1 where it had none."),
    P("PacketsConfirmed", "PACKETS_CONFIRMED", 22, (F("command", I),),
      "All packets up to this count were received.", confirmed=False),
    P("SubscribeTopology", "SUBSCRIBE_TOPOLOGY", ((112, 0), (113, 122)),
      (F("cluster_connection", B), F("version", I, form=2)), "Asks for the topology, now and whenever it changes."),
    P("ClusterTopology", "CLUSTER_TOPOLOGY", ((110, 0), (114, 122), (122, 125), (-17, 131)),
      (F("exit", B), F("node", S), F("event", L, form=2), F("primary", NTC, when="not exit"),
       F("backup", NTC, when="not exit"), F("last", B, when="not exit"), F("backup_group", NS, form=2),
       F("scale_down_group", NS, form=3), F("server_version", I, form=4)),
      "A member of the cluster comes, changes or goes. A removal travels in form 2 to every version from 122 on."),
    P("CreateSession", "CREATESESSION", ((30, 0), (-18, 131)),
      (F("name", S), F("session_channel", L), F("version", I), F("user", NS), F("password", NS), F("min_large", I),
       F("xa", B), F("auto_commit_sends", B), F("auto_commit_acks", B), F("window", I), F("pre_ack", B),
       F("default_address", NS), F("client_id", NS, form=2)),
      "Opens a session on ``session_channel``; ``window`` is the confirmation window in octets, -1: none.",
      confirmed=False),
    P("CreateSessionReply", "CREATESESSION_RESP", 31, (F("server_version", I),), "The session is open.",
      confirmed=False),
    P("ReattachSession", "REATTACH_SESSION", 32, (F("name", S), F("last_confirmed", I)),
      "Moves a session to this connection.", confirmed=False),
    P("ReattachSessionReply", "REATTACH_SESSION_RESP", 33, (F("last_confirmed", I), F("reattached", B)),
      "Says what the server has of the session; not ``reattached``: it must be made anew.", confirmed=False),
    P("CheckForFailover", "CHECK_FOR_FAILOVER", -4, (F("node", NS),), "Asks a backup whether it took over ``node``."),
    P("CheckForFailoverReply", "CHECK_FOR_FAILOVER_REPLY", -5, (F("ok", B),), "Whether it did."),
    # sessions: addresses, queues, queries
    P("CreateAddress", "CREATE_ADDRESS", -11,
      (F("address", SS), F("routing_types", Kind.ROUTINGS), F("require_response", B), F("auto_created", B)),
      "Creates an address; one that exists is no error."),
    P("CreateQueue", "CREATE_QUEUE", ((34, 0), (-12, 129)),
      (F("address", SS), F("queue", SS), F("filter", NSS), F("durable", B), F("temporary", B),
       F("require_response", B), F("auto_created", B, form=2), F("routing", Y, form=2, default=-1),
       F("max_consumers", I, form=2, default=-1), F("purge_on_no_consumers", B, form=2),
       F("exclusive", NB, form=2, optional=True),
       F("last_value", NB, form=2, optional=True), *_attributes(2)),
      "Creates a queue. ``routing`` 0 multicast, 1 anycast, -1 what the address has."),
    P("CreateSharedQueue", "CREATE_SHARED_QUEUE", ((36, 0), (-13, 129)),
      (F("address", SS), F("queue", SS), F("filter", NSS), F("durable", B), F("routing", Y, form=2, default=-1),
       F("require_response", B), F("max_consumers", NI, form=2, optional=True),
       F("purge_on_no_consumers", NB, form=2, optional=True),
       F("exclusive", NB, form=2, optional=True), F("last_value", NB, form=2, optional=True), *_attributes(2)),
      "Creates a queue that several may read, unless the same one exists."),
    P("DeleteQueue", "DELETE_QUEUE", 35, (F("queue", SS),), "Deletes a queue."),
    P("QueueQuery", "QUEUEQUERY", 45, (F("queue", SS),), "Asks what a queue is like."),
    P("QueueQueryReply", "QUEUEQUERY_RESP", ((46, 0), (-7, 126), (-14, 129)),
      (F("exists", B), F("durable", B), F("temporary", B), F("consumer_count", I), F("message_count", L),
       F("filter", NSS), F("address", NSS), F("name", NSS), F("auto_create_queues", B, form=2),
       F("auto_created", B, form=3), F("purge_on_no_consumers", B, form=3), F("routing", Y, form=3, default=-1),
       F("max_consumers", I, form=3, default=-1), F("exclusive", NB, form=3, optional=True),
       F("last_value", NB, form=3, optional=True),
       F("default_consumer_window", NI, form=3, optional=True), *_attributes(3),
       F("configuration_managed", NB, form=3, optional=True)),
      "What a queue is like, or would be. Also the answer to CREATECONSUMER."),
    P("BindingQuery", "BINDINGQUERY", 49, (F("address", SS),), "Asks which queues an address leads to."),
    P("BindingQueryReply", "BINDINGQUERY_RESP", ((50, 0), (-8, 126), (-10, 127), (-15, 129), (-22, 135)),
      (F("exists", B), F("queues", Kind.SIMPLES), F("auto_create_queues", B, form=2),
       F("auto_create_addresses", B, form=3), F("default_purge_on_no_consumers", B, form=4),
       F("default_max_consumers", I, form=4, default=-1), F("default_exclusive", NB, form=4),
       F("default_last_value", NB, form=4), F("default_last_value_key", NSS, form=4),
       F("default_non_destructive", NB, form=4), F("default_consumers_before_dispatch", NI, form=4),
       F("default_delay_before_dispatch", NL, form=4), F("multicast", B, form=5), F("anycast", B, form=5)),
      "The queues of an address, and what is set for it."),
    P("AddMetadata", "ADD_METADATA", ((104, 0), (105, 0)),
      (F("key", S), F("data", S), F("require_response", B, form=2)), "Notes something about a session.",
      confirmed=False),
    P("UniqueAddMetadata", "UNIQUE_ADD_METADATA", 106, (F("key", S), F("data", S), F("require_response", B)),
      "Notes something that no other session may have."),
    # sessions: producing
    P("CreateProducer", "CREATE_PRODUCER", -20, (F("sender", I), F("address", NSS)), "Opens a producer."),
    P("RemoveProducer", "REMOVE_PRODUCER", -21, (F("sender", I),), "Closes a producer."),
    P("Send", "SEND", 71,
      (F("message", Kind.MESSAGE), F("require_response", B), F("correlation", L, since=130), F("sender", I, since=134)),
      "Sends a message. The id in its headers is ignored."),
    P("SendLarge", "SEND_LARGE", 72, (F("headers", Kind.HEADERS),), "Begins a large message."),
    P("SendContinuation", "SEND_CONTINUATION", 73,
      (F("body", D), F("continues", B), F("body_size", L, when="not continues", default=-1), F("require_response", B),
       F("correlation", L, since=130), F("sender", I, since=134)),
      "A piece of a large message; the last one says how long the body is, or -1."),
    P("RequestCredits", "REQUEST_CREDITS", 79, (F("credits", I), F("address", SS)),
      "Asks whether so many octets may be sent."),
    P("Credits", "CREDITS", 80, (F("credits", I), F("address", SS)), "So many octets may be sent."),
    P("FailCredits", "FAIL_CREDITS", 82, (F("credits", I), F("address", SS)),
      "So many octets may be sent, and the address is full: the next send fails."),
    # sessions: consuming
    P("CreateConsumer", "CREATECONSUMER", 40,
      (F("consumer", L), F("queue", SS), F("filter", NSS), F("browse", B), F("require_response", B),
       F("priority", I, since=130, optional=True)),
      "Opens a consumer. The answer is a QUEUEQUERY_RESP."),
    P("CloseConsumer", "CONSUMER_CLOSE", 74, (F("consumer", L),), "Closes a consumer."),
    P("FlowToken", "FLOWTOKEN", 70, (F("consumer", L), F("credits", I)),
      "So many octets more may be delivered; 0: none, -1: any number."),
    P("ForceDelivery", "FORCE_DELIVERY", 78, (F("consumer", L), F("sequence", L)),
      "Deliver what there is, then say so with a message that carries ``sequence``."),
    P("Start", "START", 67, (), "Deliveries may begin."),
    P("Stop", "STOP", 68, (), "Deliveries are to stop."),
    P("Close", "CLOSE", 69, (), "Closes the session; its channel is gone."),
    P("Receive", "RECEIVE", 75, (F("message", Kind.MESSAGE), F("consumer", L), F("delivery_count", I, default=1)),
      "Delivers a message."),
    P("ReceiveLarge", "RECEIVE_LARGE", 76,
      (F("consumer", L), F("delivery_count", I, default=1), F("body_size", L), F("headers", Kind.HEADERS)),
      "Begins to deliver a large message."),
    P("ReceiveContinuation", "RECEIVE_CONTINUATION", 77, (F("body", D), F("continues", B), F("consumer", L)),
      "A piece of a large message."),
    P("Acknowledge", "ACKNOWLEDGE", 41, (F("consumer", L), F("message", L), F("require_response", B)),
      "Settles all that was delivered up to ``message``."),
    P("IndividualAcknowledge", "INDIVIDUAL_ACK", 81, (F("consumer", L), F("message", L), F("require_response", B)),
      "Settles one message."),
    P("Expired", "EXPIRED", 42, (F("consumer", L), F("message", L)), "The client found a message expired."),
    # transactions
    P("Commit", "COMMIT", 43, (F("correlation", L, since=132, optional=True),), "Commits."),
    P("Rollback", "ROLLBACK", 44, (F("consider_last_delivered", B),), "Rolls back."),
    P("XaStart", "XA_START", 51, (F("xid", XID),), "Begins a branch."),
    P("XaEnd", "XA_END", 52, (F("xid", XID), F("failed", B)), "Ends the work on a branch."),
    P("XaCommit", "XA_COMMIT", 53, (F("xid", XID), F("one_phase", B)), "Commits a branch."),
    P("XaPrepare", "XA_PREPARE", 54, (F("xid", XID),), "Prepares a branch."),
    P("XaReply", "XA_RESP", 55,
      (F("error", B), F("code", I), F("text", NS), F("correlation", L, since=130, optional=True)),
      "The outcome of a step of a branch."),
    P("XaRollback", "XA_ROLLBACK", 56, (F("xid", XID),), "Rolls a branch back."),
    P("XaJoin", "XA_JOIN", 57, (F("xid", XID),), "Joins a branch that another session began."),
    P("XaSuspend", "XA_SUSPEND", 58, (), "Suspends the branch."),
    P("XaResume", "XA_RESUME", 59, (F("xid", XID),), "Goes on with a branch."),
    P("XaForget", "XA_FORGET", 60, (F("xid", XID),), "Forgets a branch that was decided by hand."),
    P("XaInDoubtXids", "XA_INDOUBT_XIDS", 61, (), "Asks which branches are prepared."),
    P("XaInDoubtXidsReply", "XA_INDOUBT_XIDS_RESP", 62, (F("xids", Kind.XIDS),), "The branches that are prepared."),
    P("XaSetTimeout", "XA_SET_TIMEOUT", 63, (F("seconds", I),), "Limits how long a branch may last."),
    P("XaSetTimeoutReply", "XA_SET_TIMEOUT_RESP", 64, (F("ok", B),), "Whether that was done."),
    P("XaGetTimeout", "XA_GET_TIMEOUT", 65, (), "Asks for that limit."),
    P("XaGetTimeoutReply", "XA_GET_TIMEOUT_RESP", 66, (F("seconds", I),), "That limit."),
    P("XaFailed", "XA_FAILED", 39, (F("xid", XID),), "After a failover: this branch can only be rolled back."),
    # cluster control: channel 3
    P("ClusterConnect", "CLUSTER_CONNECT", 125, (F("user", S), F("password", S)), "A node shows its credentials."),
    P("ClusterConnectReply", "CLUSTER_CONNECT_REPLY", 126, (F("authorized", B),), "Whether they are right."),
    P("NodeAnnounce", "NODE_ANNOUNCE", 111,
      (F("node", S), F("backup_group", NS), F("backup", B), F("event", L), F("connector", NTC),
       F("backup_connector", NTC), F("scale_down_group", NS)), "A node says who it is and where."),
    P("BackupRegistration", "BACKUP_REGISTRATION", 115,
      (F("user", S), F("password", S), F("fail_back", B), F("connector", TC)), "A backup asks for the data."),
    P("BackupRegistrationFailed", "BACKUP_REGISTRATION_FAILED", 116, (F("problem", I),), "It does not get them."),
    P("QuorumVote", "QUORUM_VOTE", -2, (F("handler", SS), *_vote()),
      "Asks a member for its vote."),
    P("QuorumVoteReply", "QUORUM_VOTE_REPLY", -3, (F("handler", SS), *_vote()),
      "The vote of a member."),
    P("BackupRequest", "BACKUP_REQUEST", 127,
      (F("backup_size", I), F("journal_dir", NS), F("bindings_dir", NS), F("large_dir", NS), F("paging_dir", NS),
       F("node", NSS)), "Asks a node to start a backup inside itself (colocated)."),
    P("BackupResponse", "BACKUP_RESPONSE", -1, (F("started", B),), "Whether it did."),
    P("ScaleDownAnnouncement", "SCALEDOWN_ANNOUNCEMENT", -6, (F("target", SS), F("scaled_down", SS)),
      "A node gave everything to another one."),
    P("FederationDownstreamConnect", "FEDERATION_DOWNSTREAM_CONNECT", -16, (F("description", Kind.REST),),
      "Asks the peer to fetch from here (channel 4); `cluster/federation/description.py` reads the description."),
    # replication: channel 2
    P("ReplicationResponse", "REPLICATION_RESPONSE", ((90, 0), (-9, 0)), (F("synchronized", B, form=2),),
      "A packet of replication was done. Form 2 answers START_FINISH_SYNC alone."),
    P("ReplicationAppend", "APPEND", 91,
      (F("journal", Y), F("operation", Kind.OPERATION), F("id", L), F("record_type", Y), F("data", D)),
      "A record of a journal: 0 bindings, 1 messages."),
    P("ReplicationAppendTx", "APPEND_TX", 92,
      (F("journal", Y), F("operation", Kind.OPERATION), F("tx", L), F("id", L), F("record_type", Y), F("data", D)),
      "A record within a transaction."),
    P("ReplicationDelete", "DELETE", 93, (F("journal", Y), F("id", L)), "A record is deleted."),
    P("ReplicationDeleteTx", "DELETE_TX", 94, (F("journal", Y), F("tx", L), F("id", L), F("data", D)),
      "A record is deleted within a transaction."),
    P("ReplicationPrepare", "PREPARE", 95, (F("journal", Y), F("tx", L), F("data", D)),
      "A transaction is prepared; ``data`` is an xid."),
    P("ReplicationCommitRollback", "COMMIT_ROLLBACK", 96, (F("journal", Y), F("rollback", B), F("tx", L)),
      "A transaction is decided."),
    P("ReplicationPageWrite", "PAGE_WRITE", 97,
      (F("page", Kind.PAGE), F("paged", Kind.PAGED), F("address", NSS, since=133)),
      "A message goes to a page."),
    P("ReplicationPageEvent", "PAGE_EVENT", 98,
      (F("store", SS), F("page", Kind.PAGE), F("delete", B)),
      "A page is closed or deleted."),
    P("ReplicationLargeMessageBegin", "LARGE_MESSAGE_BEGIN", 99, (F("message", L),), "A large message begins."),
    P("ReplicationLargeMessageEnd", "LARGE_MESSAGE_END", 100,
      (F("message", L), F("pending_record", L, optional=True), F("delete", B, optional=True)),
      "A large message is complete, or deleted."),
    P("ReplicationLargeMessageWrite", "LARGE_MESSAGE_WRITE", 101, (F("message", L), F("body", D)),
      "A piece of a large message."),
    P("ReplicationStartFinishSync", "START_FINISH_SYNC", 120,
      (F("finished", B), F("allows_fail_back", B), F("node", S), F("data_type", Y, optional=True),
       F("ids", Kind.LONGS, optional=True)),
      "The first copy begins or is complete: 0 bindings, 1 messages, 2 large messages, 3 activation sequence."),
    P("ReplicationSyncFile", "SYNC_FILE", 103,
      (F("file", L), F("file_type", Y), F("journal", Y, when="file_type == 0"), F("store", SS, when="file_type == 1"),
       F("size", I), F("body", Kind.CHUNK, when="size > 0")),
      "A piece of a file: 0 journal, 1 page, 2 large message; no octets: its end."),
    P("ReplicationScheduledFailover", "SCHEDULED_FAILOVER", 121, (F("final", I),),
      "The primary stops (0), or the backup is to take over (1)."),
)  # fmt: skip

_BY_NAME: Final[dict[str, Packet]] = {each.name: each for each in PACKETS}


def packet_named(name: str) -> Packet:
    """Return the packet called ``name``. Raises KeyError if there is none."""
    return _BY_NAME[name]


def form_of(packet: Packet, number: int) -> int:
    """Return which form of ``packet`` the id ``number`` is, 1 for the oldest. Raises StopIteration for none."""
    return next(form for form, (known, _) in enumerate(packet.forms, 1) if known == number)


def travels(packet: Packet, field: Field, number: int, version: int) -> bool:
    """Tell whether ``field`` can be part of the form ``number`` on a channel of ``version``."""
    known = version or VERSION_UNKNOWN
    return field.first <= form_of(packet, number) <= field.last and field.since <= known
