"""What ActiveMQ Artemis and Classic say of what our log tells, so that alerts written for them go on to work.

One row for each: a code of `base/log_events.py`, which of its lines (a pattern in the text, "": all of them), the codes
that Artemis logs then, with the words of the first of them, and the class of Classic with its words. Only what is the
same event is here. That the other brokers do say so, the interop tests read in their jars; where both have several
versions, codes of Artemis never change, and words of Classic are those of 5.17.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Known(NamedTuple):
    """One row. ``artemis``: codes, a space between; ``says``: words of the first; ``classic``: ``Class: words``."""

    code: str
    when: str
    artemis: str
    says: str
    classic: str = ""


KNOWN: Final = (
    Known(
        "LOG-1003",
        "",
        "AMQ222010",
        "Critical IO Error, shutting down the server",
        "DefaultIOExceptionHandler: Stopping",
    ),
    Known("LOG-1004", "", "AMQ144003", "Error compacting"),
    Known("LOG-1005", "may be stored again.*octets are free", "AMQ224129", "Free storage space is at"),
    Known("LOG-1005", "may be stored again", "AMQ222211", "Free storage space is at"),
    Known("LOG-1005", "octets are free", "AMQ224128", "Free storage space is at"),
    Known("LOG-1005", "the journal holds", "AMQ222210", "Free storage space is at", "Queue: Persistent store is Full"),
    Known("LOG-1007", "", "AMQ224104", "Error starting the Acceptor"),
    Known(
        "LOG-1008",
        r"^address\.full ",
        "AMQ222183",
        "Blocking message production",
        "Queue: Usage Manager Memory Limit reached",
    ),
    Known("LOG-1008", r"^address\.free ", "AMQ221046", "Unblocking message production"),
    Known("LOG-1008", r"^consumer\.slow ", "AMQ221048", "Consumer {}:{} attached to queue"),
    Known("LOG-1008", r"^message\.dead-lettered ", "AMQ222149", "Sending message {} to Dead Letter Address {} from"),
    Known(
        "LOG-1008", r"^message\.dropped .*code=full\b", "AMQ222039", "Messages sent to address '{}' are being dropped"
    ),
    Known(
        "LOG-1008",
        r"^message\.dropped .*code=(poison|rejected|tries-used-up)\b",
        "AMQ222150",
        "Sending message {} to Dead Letter Address, but there is no",
        "RegionBroker: Dead Letter message with no DLQ strategy in place",
    ),
    Known("LOG-1008", r"^message\.duplicate .*code=same-duplicate-id\b", "AMQ222059", "Duplicate message detected"),
    Known("LOG-1008", r"^message\.expired ", "", "", "RegionBroker: Message expired"),
    Known("LOG-1008", r"^queue\.created ", "AMQ221003", "Deploying {} queue"),
    Known("LOG-1008", r"^queue\.deleted ", "AMQ224077", "Undeploying queue"),
    Known("LOG-1008", r"^address\.created ", "AMQ221080", "Deploying address"),
    Known("LOG-1008", r"^address\.deleted ", "AMQ224076", "Undeploying address"),
    Known("LOG-1008", r"^connection\.opened ", "AMQ601767 AMQ601715", "{} connection {} for user {} created"),
    Known("LOG-1008", r"^connection\.closed ", "AMQ601768", "{} connection {} for user {} destroyed"),
    Known("LOG-1008", r"^session\.opened ", "AMQ601267", "User {} is creating a core session"),
    Known("LOG-1008", r"^consumer\.attached ", "AMQ601265", "User {} is creating a core consumer"),
    Known("LOG-1008", r"^message\.delivered ", "AMQ601500", "User {} sent a message"),
    Known("LOG-1008", r"^message\.dispatched ", "AMQ601501", "User {} is consuming a message"),
    Known("LOG-1008", r"^message\.consumed ", "AMQ601502", "User {} acknowledged message"),
    Known("LOG-1008", r"^login\.refused ", "AMQ601716", "User {} failed authentication"),
    Known("LOG-1008", r"^right\.refused ", "AMQ601264", "User {} gets security check failure"),
    Known(
        "LOG-1015",
        "^entrepot, .* node ",
        "AMQ221001",
        "Apache ActiveMQ Artemis Message Broker version",
        "BrokerService: Apache ActiveMQ {} ({}, {}) started",
    ),
    Known(
        "LOG-1015",
        "^stopping: ",
        "AMQ221002",
        "Apache ActiveMQ Artemis Message Broker version",
        "BrokerService: Apache ActiveMQ {} ({}, {}) is shutting down",
    ),
    Known("LOG-2002", "", "AMQ221056", "Reloading configuration"),
    Known("LOG-2010", "^an operator added ", "AMQ601152", "User {} is adding a user"),
    Known("LOG-2010", "^an operator removed ", "AMQ601154", "User {} is removing a user"),
    Known("LOG-2010", "^an operator changed ", "AMQ601155", "User {} is resetting a user"),
    Known("LOG-2004", "", "AMQ224069", "Change detected in broker configuration file, but reload failed"),
    Known("LOG-2005", "", "AMQ224069", "Change detected in broker configuration file, but reload failed"),
    Known("LOG-3001", "", "AMQ221020", "Started {} Acceptor", "TransportConnector: Connector {} started"),
    Known("LOG-3003", "", "AMQ222206", "Connection limit of {} reached"),
    Known("LOG-3004", "", "AMQ222203", "Classpath lacks a protocol-manager for protocol"),
    Known("LOG-3005", "", "AMQ222208", "SSL handshake failed for client"),
    Known(
        "LOG-3008",
        "password is invalid|Unable to authenticate",
        "AMQ222216 AMQ229031 AMQ601716",
        "Security problem while authenticating",
        "TransportConnection: Failed to add Connection",
    ),
    Known(
        "LOG-3008",
        "is not authorized to",
        "AMQ229032 AMQ601264",
        "User: {} does not have permission",
        "TransportConnection: Security Error occurred on connection",
    ),
    Known("LOG-3008", "what it speaks in time", "AMQ224088", "Timeout ({} seconds) on acceptor"),
    Known(
        "LOG-3010",
        "",
        "AMQ222225",
        "Sending unexpected exception to the client",
        "TransportConnection: Async error occurred",
    ),
    Known(
        "LOG-4001",
        r"\bis open$",
        "AMQ221027",
        "Bridge {} is connected",
        "DemandForwardingBridgeSupport: Network connection between {} and {} ({}) has been established",
    ),
    Known(
        "LOG-4001",
        r": the bridge to .* ended: ",
        "",
        "",
        "DemandForwardingBridgeSupport: Network connection between {} and {} shutdown",
    ),
    Known(
        "LOG-4003",
        "",
        "AMQ224091",
        "Bridge {} is unable to connect to destination. Retrying",
        "DiscoveryNetworkConnector: Could not start network bridge between",
    ),
    Known("LOG-4004", "", "AMQ222099", "Bridge {} is unable to connect to destination. It will be disabled"),
    Known("LOG-4007", "", "AMQ222116", "unable to start broadcast group"),
    Known("LOG-4009", "", "AMQ222181", "Unable to scaleDown messages"),
    Known("LOG-4010", "", "AMQ222181", "Unable to scaleDown messages"),
    Known("LOG-5001", "it was a backup; ", "AMQ221010", "Backup Server is now active"),
    Known("LOG-5001", "", "AMQ221007", "Server is now active"),
    Known(
        "LOG-5002",
        "",
        "",
        "",
        "LockableServiceSupport: no longer able to keep the exclusive lock so giving up being a master",
    ),
    Known(
        "LOG-5003",
        "this broker is in slave mode",
        "AMQ221109",
        "Apache ActiveMQ Artemis Backup Server version",
        "SharedFileLocker: is locked by another server. This broker is now in slave mode waiting a lock to be acquired",
    ),
    Known("LOG-5005", "is in sync with", "AMQ221024", "Backup server {} is synchronized with primary server"),
    Known(
        "LOG-5005",
        "has lost the copy of",
        "AMQ222092",
        "Connection to the backup node failed, removing replication now",
    ),
    Known("LOG-5012", "", "AMQ221055", "There were too many old replicated folders"),
    Known("LOG-5025", "", "AMQ201001", "Network is unhealthy, stopping service"),
)
"""Of the rows of one code the first that fits counts."""


def _by_code() -> dict[str, list[tuple[re.Pattern[str], Known]]]:
    found: dict[str, list[tuple[re.Pattern[str], Known]]] = {}
    for row in KNOWN:
        found.setdefault(row.code, []).append((re.compile(row.when), row))
    return found


_ROWS: Final = _by_code()


def known_as(code: str, text: str) -> Known | None:
    """Return what the others say where our log says ``text``, an event of ``code``; None: nothing that is the same."""
    for pattern, row in _ROWS.get(code, ()):
        if pattern.search(text) is not None:
            return row
    return None
