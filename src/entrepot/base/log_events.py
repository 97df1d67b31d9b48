"""Every kind of line that the log has: its stable code, and what it means.

A code never changes its meaning and is never given out again; the words of a line may change. Which event a record is,
its logger and its template say, so whoever logs writes nothing beside. `docs/reference/log.md` is made from this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNNAMED: Final = "LOG-0000"
"""What no table knows: a line of a library, or of a test."""


@dataclass(frozen=True)
class LogEvent:
    """One kind of line: ``template`` as ``logger`` logs it."""

    code: str
    logger: str
    template: str
    about: str


EVENTS: Final = {
    "The broker": (
        LogEvent("LOG-1001", "entrepot.node", "%s: recovered %s", "a broker has read its journal"),
        LogEvent(
            "LOG-1002",
            "entrepot.node",
            "%s: %s; its message becomes a dead letter without it",
            "a large body is damaged, truncated or missing; `entrepot data check` says more",
        ),
        LogEvent(
            "LOG-1003",
            "entrepot.node",
            "the journal cannot be trusted any more, the broker stops: %s",
            "a write or a sync failed: what was confirmed is on disk, nothing more can be: mend the disk, restart",
        ),
        LogEvent("LOG-1004", "entrepot.node", "the journal could not compact itself: %s", "it is tried again"),
        LogEvent(
            "LOG-1025",
            "entrepot.node",
            "%s cannot be kept in %s and is removed: %s",
            "`journal-retention-directory` cannot be written to: what is settled cannot be sent again; it is said once",
        ),
        LogEvent("LOG-1005", "entrepot.node", "%s: %s", "a limit of the disk is reached, or is no more"),
        LogEvent("LOG-1006", "entrepot.node", "%s: stopped by an operator", "management stopped an acceptor"),
        LogEvent("LOG-1007", "entrepot.node", "the acceptor cannot be started: %s", "management could not start one"),
        LogEvent(
            "LOG-1008", "entrepot.broker", "%s %s %s", "an event of a plugin that logs what happens, of either family"
        ),
        LogEvent(
            "LOG-1009",
            "entrepot.trace",
            "the trace loses records: there is no segment to write them to",
            "the disk of the trace is full, or gone; the broker goes on",
        ),
        LogEvent("LOG-1010", "entrepot.trace", "the trace cannot go on for now: %s", "it is tried again"),
        LogEvent(
            "LOG-1024",
            "entrepot.trace",
            "what was traced before cannot be sealed: %s",
            "the chain of a trace begins anew; `entrepot trace verify` says so",
        ),
        LogEvent(
            "LOG-1011",
            "entrepot.connection",
            "the broker failed while it went on with earlier work; it goes on",
            "a bug of ours, with its traceback",
        ),
        LogEvent(
            "LOG-1020",
            "entrepot.node",
            "process %d is ready: pid %d, node %s",
            "one of the processes of `--processes` serves",
        ),
        LogEvent(
            "LOG-1022",
            "entrepot.node",
            "process %d has given its messages to the others",
            "`--processes` was started with fewer of them than before",
        ),
        LogEvent(
            "LOG-1023",
            "entrepot.node",
            "%d messages are still in %s, which no process serves: start with --processes %d to have them served",
            "what no process could take: prepared transactions, what repeats by a schedule",
        ),
        LogEvent(
            "LOG-1021",
            "entrepot.node",
            "process %d %s; it is started again in %.1f s",
            "one of the processes of `--processes` died; the others serve, and what it has on disk waits for it",
        ),
        LogEvent(
            "LOG-1026",
            "entrepot.node",
            "what the processes answer cannot be made one answer",
            "a bug of ours, with its traceback: a management message to all of `--processes` is refused",
        ),
        LogEvent(
            "LOG-1027",
            "entrepot.node",
            "message %d, position %d of %r on %r, is lost: %s; its reader is told, a dead letter stands for it",
            "a record rotted on the disk while a lease held its message; `entrepot data check` says more",
        ),
        LogEvent(
            "LOG-1028",
            "entrepot.node",
            "%d more messages that %r held on %r are lost; its reader was told, a dead letter stands for each",
            "behind the first 20 that LOG-1027 names of a lease; when it settles, or gives back",
        ),
        LogEvent(
            "LOG-1012",
            "entrepot.connection",
            "the broker failed at the end of a turn; it goes on",
            "a bug of ours, with its traceback",
        ),
        LogEvent(
            "LOG-1013",
            "entrepot.connection",
            "the journal failed to take a batch; nothing of it is confirmed",
            "with its traceback",
        ),
        LogEvent(
            "LOG-1014",
            "entrepot.connection",
            "the broker failed in its timer; it goes on",
            "a bug of ours, with its traceback",
        ),
        LogEvent("LOG-1015", "entrepot.node", "%s", "what begins and ends: as plain lines where the log is no JSON"),
        LogEvent(
            "LOG-1016",
            "entrepot.telemetry",
            "%s: spans are dropped, and counted from now on: %s",
            "said once: the collector of OpenTelemetry is away, refuses, or does not keep up; messages go on",
        ),
        LogEvent(
            "LOG-1017", "entrepot.telemetry", "%s: %d spans exported, %d dropped", "at the end, where some were dropped"
        ),
        LogEvent(
            "LOG-1019",
            "entrepot.telemetry",
            "%s: %d messages were not traced: no more than %d a second are",
            "at the end; `--otlp-limit` says how many",
        ),
        LogEvent(
            "LOG-1018",
            "entrepot.telemetry",
            "no telemetry: %s is not installed: %s",
            "the environment names a collector of OpenTelemetry; the broker runs without",
        ),
    ),
    "Configuration": (
        LogEvent("LOG-2001", "entrepot.options", "the option %s has no effect here: %s", "an option of a URI"),
        LogEvent(
            "LOG-2002",
            "entrepot.config",
            "the configuration was read again",
            "after SIGHUP, or because the file was changed",
        ),
        LogEvent(
            "LOG-2003",
            "entrepot.config",
            "changed in the configuration, and takes a restart: %s",
            "what the running broker does not take over",
        ),
        LogEvent(
            "LOG-2004", "entrepot.config", "%s: %s", "the changed configuration is refused; what held goes on to hold"
        ),
        LogEvent(
            "LOG-2005",
            "entrepot.config",
            "the configuration was changed and cannot be used, what held goes on to hold",
            "the same, by a bug of ours, with its traceback",
        ),
        LogEvent("LOG-2006", "entrepot.config", "%s", "a finding of `entrepot check` about what was read again"),
        LogEvent(
            "LOG-2007",
            "entrepot.io.lock",
            "%s could be read by other users of this machine (mode %03o): now it cannot",
            "a data directory of before",
        ),
        LogEvent(
            "LOG-2008",
            "entrepot.io.lock",
            "%s can be read by other users of this machine: %s",
            "its mode could not be changed",
        ),
        LogEvent(
            "LOG-2009",
            "entrepot.io.hashing",
            "a password could not be looked at: %s",
            "the process that hashes passwords failed; the client is refused",
        ),
        LogEvent(
            "LOG-2010",
            "entrepot.config",
            "an operator %s the user %r%s",
            "management added, changed or removed one in the files of users",
        ),
    ),
    "Connections of clients": (
        LogEvent("LOG-3001", "entrepot.listener", "listening on %s", "a connector is open"),
        LogEvent(
            "LOG-3002",
            "entrepot.listener",
            "%s: cannot accept, trying again in a second: %s",
            "out of file descriptors, nearly always",
        ),
        LogEvent(
            "LOG-3003",
            "entrepot.listener",
            "%s: maximumConnections=%d reached, %d refused so far",
            "the connector's own limit",
        ),
        LogEvent(
            "LOG-3004",
            "entrepot.listener",
            "%s: this build does not speak %s",
            "a protocol of the connector that an extra would bring",
        ),
        LogEvent("LOG-3005", "entrepot.listener", "%s: the TLS handshake failed: %s", "of one client"),
        LogEvent(
            "LOG-3006",
            "entrepot.listener",
            "a connection without a usable PROXY header is closed: %s",
            "the connector expects one",
        ),
        LogEvent("LOG-3007", "entrepot.listener", "the socket file %s was gone already", "somebody removed it"),
        LogEvent(
            "LOG-3008",
            "entrepot.connection",
            "%s: refused: %s",
            "a client broke its protocol, or was not let in; it was told the same",
        ),
        LogEvent("LOG-3009", "entrepot.connection", "%s: took nothing for %d ms, closed", "`transport.soWriteTimeout`"),
        LogEvent(
            "LOG-3010",
            "entrepot.connection",
            "%s: a fault of ours ends this connection: %r",
            "with its traceback; other connections go on",
        ),
        LogEvent(
            "LOG-3011", "entrepot.connection", "%s: a session failed while it was detached: %r", "with its traceback"
        ),
        LogEvent(
            "LOG-3012",
            "entrepot.listener",
            "%s: the certificates were read again",
            "`sslAutoReload`, and a changed file",
        ),
        LogEvent(
            "LOG-3013",
            "entrepot.listener",
            "%s: changed certificates cannot be used, what held goes on to hold: %s",
            "a half-written file, or a key of another certificate",
        ),
        LogEvent(
            "LOG-3014",
            "entrepot.listener",
            "the certificates were changed and cannot be used, what held goes on to hold",
            "the same, by a bug of ours, with its traceback",
        ),
    ),
    "Bridges, clusters, discovery": (
        LogEvent("LOG-4001", "entrepot.bridge", "%s: %s", "what a bridge does or meets: connected, lost, refused"),
        LogEvent("LOG-4002", "entrepot.bridge", "%s: not started (autoStart=false)", "management can start it"),
        LogEvent(
            "LOG-4003",
            "entrepot.bridge",
            "%s: attempt %d failed: %s",
            "the 1st, 2nd, 4th, 8th ... attempt; the others at debug",
        ),
        LogEvent("LOG-4004", "entrepot.bridge", "%s: given up: %s", "a bridge that is not tried again"),
        LogEvent("LOG-4005", "entrepot.discovery", "announcing %s to the group %s", "multicast or zeroconf"),
        LogEvent("LOG-4006", "entrepot.cluster", "announcements: %s", "a folder in which nodes announce themselves"),
        LogEvent("LOG-4007", "entrepot.cluster", "the broadcast group %r: %s", "it cannot send, or receive"),
        LogEvent("LOG-4008", "entrepot.cluster", "scale-down: %s", "what a drain moved"),
        LogEvent(
            "LOG-4009", "entrepot.cluster", "scale-down: AMQ222181: %s", "nobody takes over; the messages stay here"
        ),
        LogEvent(
            "LOG-4010",
            "entrepot.cluster",
            "scale-down: AMQ222181: nothing moved for %d s; the rest stays here",
            "the target takes nothing",
        ),
    ),
    "High availability": (
        LogEvent("LOG-5001", "entrepot.ha", "%s is the master now, epoch %d: %s", "this broker opens for clients"),
        LogEvent(
            "LOG-5002",
            "entrepot.ha",
            "%s is not the master any more: %s",
            "it stops at once: another one may have begun",
        ),
        LogEvent("LOG-5003", "entrepot.ha", "%s %s", "what a slave waits for, or a master's lease meets"),
        LogEvent(
            "LOG-5004",
            "entrepot.ha",
            "the thread that keeps the lease met a bug",
            "with its traceback; the lease ends, and with it this master",
        ),
        LogEvent("LOG-5005", "entrepot.ha", "%s", "what a replica or its primary does: catching up, in sync, left"),
        LogEvent("LOG-5006", "entrepot.ha", "%s refuses a replica: %s", "another store, another secret, or no room"),
        LogEvent(
            "LOG-5007",
            "entrepot.ha",
            "%s: a connection of replication shook no hands: %s",
            "not one of ours, or it ended early",
        ),
        LogEvent(
            "LOG-5008",
            "entrepot.ha",
            "%s: %d connections have not said who they are; one goes",
            "somebody opens connections and says nothing",
        ),
        LogEvent("LOG-5009", "entrepot.ha", "%s cannot follow %s: TLS fails: %s", "of a replica"),
        LogEvent("LOG-5010", "entrepot.ha", "%s follows %s no more: %s", "the replica looks for its primary again"),
        LogEvent(
            "LOG-5011",
            "entrepot.ha",
            "what this copy has and the primary does not is kept in %s",
            "a history that lost; nothing of it was confirmed by a majority",
        ),
        LogEvent(
            "LOG-5012",
            "entrepot.ha",
            "%s is deleted: %d old copies are kept, and another one begins",
            "`max-saved-replicated-journals-size`",
        ),
        LogEvent(
            "LOG-5013",
            "entrepot.ha",
            "two voters: while one of them is away nobody can become master, nor stay it; a third one on any "
            "machine (entrepot witness) mends that",
            "said once",
        ),
        LogEvent(
            "LOG-5014",
            "entrepot.ha",
            "the voter %s had lost its store; all others are there, so it votes again",
            "it took from them what it must know",
        ),
        LogEvent(
            "LOG-5015",
            "entrepot.ha",
            "the voter %s lost its store, or has another, and does not count: %s",
            "until all others are there",
        ),
        LogEvent("LOG-5016", "entrepot.votes", "votes at port %d, remembers in %s: %s", "`entrepot witness` has begun"),
        LogEvent("LOG-5017", "entrepot.votes", "stops; what it promised is on disk", "`entrepot witness` has ended"),
        LogEvent("LOG-5018", "entrepot.votes", "%s: votes with %s", "the voters were changed"),
        LogEvent("LOG-5019", "entrepot.votes", "a connection from %s ended: %s", "of a broker that asks"),
        LogEvent("LOG-5020", "entrepot.votes", "a connection from %s met a bug", "with its traceback"),
        LogEvent("LOG-5021", "entrepot.votes", "could not accept: %s", "out of file descriptors, nearly always"),
        LogEvent("LOG-5022", "entrepot.votes", "could not serve a connection: %s", "out of threads, nearly always"),
        LogEvent("LOG-5023", "entrepot.poller", "%s: %s", "at debug: a broker of a pair does not answer"),
        LogEvent("LOG-5024", "entrepot.ha", "%s steps down: %s", "an operator wants another broker to serve"),
        LogEvent(
            "LOG-5025",
            "entrepot.ha",
            "waits for the network: none of %s answers",
            "of the network check; the broker begins when one does",
        ),
        LogEvent("LOG-5026", "entrepot.ha", "%s cannot be run: %s", "the command of the network check"),
        LogEvent(
            "LOG-5027",
            "entrepot.ha",
            "%s keeps the store, which %s asks for: %s",
            "its primary is in sync, and had it too often",
        ),
        LogEvent(
            "LOG-5030",
            "entrepot.ha",
            "backup %d, of %s, %s: started again in %.0f s",
            "a hosted backup died; after some deaths in a row it is given up",
        ),
        LogEvent(
            "LOG-5031",
            "entrepot.ha",
            "%s does not say whose copy it is: %r",
            "a note of a hosted copy cannot be read: that copy is not gone on with",
        ),
        LogEvent(
            "LOG-5032",
            "entrepot.ha",
            "%s had what %s has not, or has otherwise: %s; it is kept in %s and was not merged: "
            "`entrepot data print` shows it",
            "a history that lost, or what was settled and compacted since; `entrepot ha status` and `history` have it",
        ),
        LogEvent(
            "LOG-5033",
            "entrepot.ha",
            "%s goes on with no copies that it hosts: the cluster-password is masked, which is not read",
            "of a node with `<colocated>`, while it waits for its own store: write the password as it is, in a file "
            "that only the owner may read",
        ),
    ),
    "Console, clients, pipeline": (
        LogEvent(
            "LOG-6001",
            "entrepot.console",
            "the console %s after %.1f s; it is started again in %.0f s",
            "the broker beside it goes on",
        ),
        LogEvent(
            "LOG-6002",
            "entrepot.client",
            "no broker after %d rounds: %s",
            "of a `failover:` URI; `warnAfterReconnectAttempts`",
        ),
        LogEvent("LOG-6003", "entrepot.client", "the list of brokers at %s cannot be read: %s", "`updateURIsURL`"),
        LogEvent(
            "LOG-6004",
            "entrepot.pipeline",
            "the broker %s of the network is not read: %s",
            "a search, or a query over a network: the others are",
        ),
        LogEvent(
            "LOG-6012",
            "entrepot.pipeline",
            "%s on %s was deleted; what was held there is gone with it",
            "a query over several queues: it goes on with the others",
        ),
        LogEvent("LOG-6005", "entrepot.pipeline.sink", "%s", "a batch that was committed before has other rows now"),
        LogEvent("LOG-6006", "entrepot.pipeline.land", "%s runs", "a stream of `entrepot pipeline land`"),
        LogEvent("LOG-6007", "entrepot.pipeline.land", "%s stopped", "its last batch is complete"),
        LogEvent(
            "LOG-6008",
            "entrepot.pipeline.land",
            "%s did not stop: %s",
            "it is ended with the process; its next run repeats the batch",
        ),
        LogEvent(
            "LOG-6009",
            "entrepot.pipeline.land",
            "%s ended: %s; again in %.0f s",
            "the stream is started again where it was",
        ),
        LogEvent("LOG-6013", "entrepot.pipeline.land", "%s ended: %s", "once; the next run goes on where it was"),
        LogEvent("LOG-6014", "entrepot.pipeline.land", "%s has landed what was there: %d messages", "with `--once`"),
        LogEvent(
            "LOG-6015",
            "entrepot.pipeline.lineage",
            "%d events were not delivered: %s",
            "by OpenLineage; the flows go on, and the catalog lacks these",
        ),
        LogEvent(
            "LOG-6016",
            "entrepot.pipeline.lineage",
            "%d events were not delivered before the end",
            "the catalog took none for 10 s; it lacks these",
        ),
        LogEvent(
            "LOG-6017",
            "entrepot.pipeline.lineage",
            "the columns of %s are not known: %s",
            "its run lacks the schema",
        ),
        LogEvent("LOG-6010", "entrepot.audit", "%s", "who did what with the console, and what came of it: `fields`"),
        LogEvent(
            "LOG-6011",
            "entrepot.console",
            "the console of %s is not started: the broker listens for no OpenWire",
            "it asks the broker in OpenWire; the broker goes on",
        ),
    ),
}
"""By what they are about."""

BY_TEMPLATE: Final = {(each.logger, each.template): each for events in EVENTS.values() for each in events}


def code_of(logger: str, template: str) -> str:
    """Return the code of what ``logger`` logs as ``template``; `UNNAMED` for what is in no table."""
    found = BY_TEMPLATE.get((logger, template))
    return UNNAMED if found is None else found.code
