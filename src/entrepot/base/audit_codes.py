"""What Artemis' audit log calls what our own tells (LOG-6010), so that alerts written for it go on to work.

One row for each deed: what the pages of the console call it, the operations of Jolokia (of both families), and the
codes that Artemis logs then: one when it is asked for, with its words, and one for how it ends, where it has such. Only
what is the same deed is here. That Artemis says so, the interop tests read in its jars. Where it logs the code of
another deed (a queue that cannot be resumed, one that is enabled), that is the code that its alerts know.
"""

from __future__ import annotations

from typing import Final, NamedTuple

EXEC: Final = "exec"
"""What the audit log calls an operation of Jolokia; the operation is beside it."""

QUEUES: Final = ("subcomponent=queues", "destinationType=Queue")
ADDRESSES: Final = ("component=addresses", "destinationType=Topic")
CONNECTIONS: Final = ("connectionViewType=",)


class Deed(NamedTuple):
    """One row. ``says``: words of the first code. ``beans``: one of these is in the name of the MBean; none: any."""

    pages: tuple[str, ...]
    calls: tuple[str, ...]
    says: str
    doing: str = ""
    done: str = ""
    failed: str = ""
    beans: tuple[str, ...] = ()

    def codes(self, *, well: bool) -> str:
        """Return the codes of one that ended ``well`` or not, a space between; "": Artemis says nothing then."""
        return f"{self.doing} {self.done if well else self.failed}".strip()


DEEDS: Final = (
    Deed(("log in",), (), "User {} successfully authenticated", done="AMQ601715", failed="AMQ601716"),
    Deed(("message POST", "message PUT"), (), "User {} sent a message", done="AMQ601500"),
    Deed(("message GET", "message DELETE"), (), "User {} is consuming a message", done="AMQ601501"),
    Deed(
        ("send",),
        ("sendMessage", "sendTextMessage", "sendTextMessageWithProperties"),
        "User {} is sending a message",
        "AMQ601013",
        "AMQ601723",
        "AMQ601724",
        QUEUES,
    ),
    Deed(
        (),
        ("sendMessage", "sendTextMessage", "sendTextMessageWithProperties"),
        "User {} is sending a message",
        "AMQ601013",
        beans=ADDRESSES,
    ),
    Deed(("export",), (), "User {} is browsing a queue", "AMQ601215", "AMQ601725", "AMQ601726"),
    Deed(("remove-one",), ("removeMessage",), "User {} is removing a message", "AMQ601195"),
    Deed(
        ("purge",),
        ("purge", "removeMessages", "removeAllMessages", "removeMatchingMessages"),
        "User {} is removing messages",
        "AMQ601196",
        "AMQ601713",
        "AMQ601714",
        QUEUES,
    ),
    Deed((), ("purge",), "User {} is purging", "AMQ601750", "AMQ601751", "AMQ601752", ADDRESSES),
    Deed((), ("expireMessage",), "User {} is expiring messages", "AMQ601197"),
    Deed((), ("expireMessages",), "User {} is expiring messages", "AMQ601198"),
    Deed(("retry-one",), ("retryMessage",), "User {} is retry sending message", "AMQ601199"),
    Deed(("retry",), ("retryMessages",), "User {} is retry sending messages", "AMQ601200"),
    Deed(("move-one",), ("moveMessage", "moveMessageTo"), "User {} is moving a message to another queue", "AMQ601201"),
    Deed(
        ("move",),
        ("moveMessages", "moveMatchingMessagesTo"),
        "User {} is moving messages to another queue",
        "AMQ601202",
    ),
    Deed(
        ("copy",),
        ("copyMessage", "copyMessageTo", "copyMatchingMessagesTo"),
        "User {} is copying a message to another queue",
        "AMQ601790",
    ),
    Deed((), ("sendMessagesToDeadLetterAddress",), "User {} is sending messages to dead letter", "AMQ601203"),
    Deed((), ("sendMessageToDeadLetterAddress",), "User {} is sending messages to dead letter", "AMQ601204"),
    Deed(
        (),
        ("deliverScheduledMessage", "deliverScheduledMessages"),
        "User {} is calling deliverScheduledMessage",
        "AMQ601764",
    ),
    Deed(("pause",), ("pause",), "User {} is pausing", "AMQ601212", "AMQ601719", "AMQ601720", QUEUES),
    Deed(("resume",), ("resume",), "User {} is resuming", "AMQ601213", "AMQ601721", "AMQ601720", QUEUES),
    Deed((), ("pause",), "User {} is pausing", "AMQ601212", "AMQ601731", "AMQ601732", ADDRESSES),
    Deed((), ("resume",), "User {} is resuming", "AMQ601213", "AMQ601733", "AMQ601734", ADDRESSES),
    Deed((), ("disable",), "User {} is disabling", "AMQ601729"),
    Deed((), ("enable",), "User {} is resuming", "AMQ601213"),
    Deed((), ("block",), "User {} is blocking", "AMQ601754"),
    Deed((), ("unblock",), "User {} is unblocking", "AMQ601755"),
    Deed((), ("flushExecutor",), "User {} is flushing executor", "AMQ601216"),
    Deed((), ("resetAllGroups", "removeAllMessageGroups"), "User {} is resetting all groups", "AMQ601217"),
    Deed((), ("resetGroup", "removeMessageGroup"), "User {} is resetting group", "AMQ601218"),
    Deed((), ("resetMessageCounter",), "User {} is resetting message counter", "AMQ601208"),
    Deed((), ("resetMessagesAdded",), "User {} is resetting added messages", "AMQ601221"),
    Deed((), ("resetMessagesAcknowledged",), "User {} is resetting acknowledged messages", "AMQ601222"),
    Deed((), ("resetMessagesExpired",), "User {} is resetting expired messages", "AMQ601223"),
    Deed((), ("resetMessagesKilled",), "User {} is resetting killed messages", "AMQ601224"),
    Deed((), ("clearDuplicateIdCache",), "User {} is clearing duplicate ID cache", "AMQ601510"),
    Deed((), ("deployQueue",), "User {} is creating a queue", "AMQ601064"),
    Deed(
        (),
        ("createQueue", "addQueue", "createDurableSubscriber"),
        "User {} is creating a queue",
        "AMQ601065",
        "AMQ601707",
        "AMQ601708",
    ),
    Deed((), ("updateQueue",), "User {} is updating a queue", "AMQ601066", "AMQ601709", "AMQ601710"),
    Deed(
        ("destroy",),
        ("destroyQueue", "removeQueue", "destroyDurableSubscriber"),
        "User {} is deleting a queue",
        "AMQ601072",
        "AMQ601711",
        "AMQ601712",
    ),
    Deed(
        (), ("createAddress", "addTopic"), "User {} successfully created address", done="AMQ601701", failed="AMQ601702"
    ),
    Deed((), ("updateAddress",), "User {} successfully updated address", done="AMQ601703", failed="AMQ601704"),
    Deed(
        (),
        ("deleteAddress", "removeTopic"),
        "User {} successfully deleted address",
        done="AMQ601705",
        failed="AMQ601706",
    ),
    Deed((), ("createDivert",), "User {} is creating a divert", "AMQ601125"),
    Deed((), ("updateDivert",), "User {} is updating a divert", "AMQ601727"),
    Deed((), ("destroyDivert",), "User {} is destroying a divert", "AMQ601126"),
    Deed((), ("addAddressSettings",), "User {} is adding addressSettings", "AMQ601122"),
    Deed((), ("removeAddressSettings",), "User {} is removing address settings", "AMQ601123"),
    Deed((), ("addSecuritySettings",), "User {} is adding security settings", "AMQ601119"),
    Deed((), ("removeSecuritySettings",), "User {} is removing security settings", "AMQ601120"),
    Deed((), ("addUser",), "User {} is adding a user", "AMQ601152"),
    Deed((), ("removeUser",), "User {} is removing a user", "AMQ601154"),
    Deed((), ("resetUser",), "User {} is resetting a user", "AMQ601155"),
    Deed((), ("clearAuthenticationCache",), "User {} is clearing authentication cache", "AMQ601769"),
    Deed((), ("clearAuthorizationCache",), "User {} is clearing authorization cache", "AMQ601770"),
    Deed((), ("closeConnectionsForAddress",), "User {} is closing connections for address", "AMQ601099"),
    Deed(
        (), ("closeConsumerConnectionsForAddress",), "User {} is closing consumer connections for address", "AMQ601100"
    ),
    Deed((), ("closeConnectionsForUser",), "User {} is closing connections for user", "AMQ601101"),
    Deed(("close",), ("closeConnectionWithID",), "User {} is closing a connection by ID", "AMQ601102"),
    Deed((), ("stop",), "User {} is closing a connection by ID", "AMQ601102", beans=CONNECTIONS),
    Deed((), ("closeSessionWithID",), "User {} is closing session with id", "AMQ601103"),
    Deed((), ("closeConsumerWithID",), "User {} is closing consumer with id", "AMQ601104"),
    Deed((), ("commitPreparedTransaction",), "User {} is commiting prepared transaction", "AMQ601096"),
    Deed((), ("rollbackPreparedTransaction",), "User {} is rolling back prepared transaction", "AMQ601097"),
    Deed((), ("enableMessageCounters",), "User {} is enabling message counters", "AMQ601082"),
    Deed((), ("disableMessageCounters",), "User {} is disabling message counters", "AMQ601083"),
    Deed((), ("resetAllMessageCounters",), "User {} is resetting all message counters", "AMQ601084"),
    Deed((), ("resetAllMessageCounterHistories",), "User {} is resetting all message counter histories", "AMQ601085"),
    Deed((), ("setMessageCounterSamplePeriod",), "User {} is setting message counter sample period", "AMQ601088"),
    Deed((), ("setMessageCounterMaxDayCount",), "User {} is setting message counter max day count", "AMQ601090"),
    Deed((), ("forceFailover",), "User {} is forceing a failover", "AMQ601133"),
    Deed((), ("scaleDown",), "User {} is performing scale down", "AMQ601134"),
    Deed((), ("start",), "User {} is starting an acceptor", "AMQ601024", beans=("component=acceptors",)),
    Deed((), ("stop",), "User {} is stopping an acceptor", "AMQ601025", beans=("component=acceptors",)),
    Deed((), ("start",), "User {} is starting a bridge", "AMQ601239", beans=("component=bridges",)),
    Deed((), ("stop",), "User {} is stopping a bridge", "AMQ601240", beans=("component=bridges",)),
    Deed((), ("start",), "User {} is start cluster connection", "AMQ601257", beans=("component=cluster-connections",)),
    Deed((), ("stop",), "User {} is stop cluster connection", "AMQ601258", beans=("component=cluster-connections",)),
    Deed((), ("start",), "User {} is requesting to start broker", "AMQ601740", beans=("component=broker-connections",)),
    Deed((), ("stop",), "User {} is requesting to stop broker", "AMQ601739", beans=("component=broker-connections",)),
)
"""Of the rows of one operation the first whose MBean fits counts."""


def _by_name() -> dict[str, list[Deed]]:
    found: dict[str, list[Deed]] = {}
    for deed in DEEDS:
        for name in (*(f"page {page}" for page in deed.pages), *(f"call {call}" for call in deed.calls)):
            found.setdefault(name, []).append(deed)
    return found


_DEEDS: Final = _by_name()


def deed_of(action: str, mbean: str = "", operation: str = "") -> Deed | None:
    """Return what was done: an ``action`` of a page, or an ``operation`` (its arguments are not looked at) of an MBean.

    None: Artemis has no name for it.
    """
    name = f"call {operation.partition('(')[0]}" if action == EXEC else f"page {action}"
    for deed in _DEEDS.get(name, ()):
        if action != EXEC or not deed.beans or any(mark in mbean for mark in deed.beans):
            return deed
    return None
