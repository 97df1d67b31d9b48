"""What ``<ha-policy>`` of a ``broker.xml`` holds, and what becomes of it here (artemis.md 2).

Nobody votes here on who may be primary: a lease decides, which one arbiter or a majority of voters gives out. So
options of votes have no effect, and what they are meant to prevent cannot happen.
"""

from __future__ import annotations

from typing import Final

from entrepot.config.vocabulary import Kind, Slot, no_effect, obeyed

LEASED: Final = "a lease decides, which an arbiter or a majority of voters gives out"
FENCED: Final = "always so: a primary whose lease is not renewed stops, with or without a replica"
UNTIRING: Final = "who waits asks for the lease until it has it, and never gives up"
AWAITED: Final = (
    "nobody is asked for a vote; --lease-duration says how long a takeover waits for a primary that is silent"
)
CHECKED: Final = "always so: who starts while another has the lease follows it as its replica"
TOLD: Final = "brokers of one store are told of one another with --peer, and clients by every cluster connection"

_PART: Final = [
    *obeyed("failover-on-shutdown:flag"),
    *no_effect("Artemis itself has dropped it", "failback-delay:number"),
]
_VOTES: Final = [
    *no_effect(LEASED, "quorum-size:number=-1"),
    *no_effect(FENCED, "vote-on-replication-failure:flag"),
    *no_effect(UNTIRING, "vote-retries:number=12 vote-retry-wait:number=5000"),
    *no_effect(AWAITED, "quorum-vote-wait:number=30"),
]
_COPIES: Final = [
    *obeyed("group-name:text"),
    *no_effect(TOLD, "cluster-name:text"),
    *no_effect("a replica tries again by itself", "retry-replication-wait:number"),
    *obeyed("max-saved-replicated-journals-size:number=2 initial-replication-sync-timeout:number=30000"),
]
_BACKUP_COPY: Final = [
    *obeyed("allow-failback:flag=false restart-backup:flag=true"),
    *no_effect("Artemis itself has dropped it", "failback-delay:number"),
]
_COLOCATED: Final = [
    *obeyed("request-backup:flag=false max-backups:number=1 backup-port-offset:number=100"),
    *obeyed("backup-request-retries:number=-1 backup-request-retry-interval:number=5000"),
]
_EXCLUDES: Final = Slot("excludes", ("excludes",))
_MANAGER: Final = Slot("manager", ("manager",))

HA_KINDS: Final = [
    Kind(
        "ha-policy",
        Slot("shared-store", ("shared-store",)),
        Slot("primary-only", ("primary-only",)),
        Slot("live-only", ("primary-only",)),
        Slot("replication", ("replication",)),
        about="how brokers stand in for one another",
    ),
    Kind("primary-only", Slot("scale-down", ("scale-down",)), about="a broker that stands alone"),
    Kind(
        "scale-down",
        obeyed("enabled:flag=true group-name:text"),
        no_effect("each message is settled when the other node has it", "commit-interval:number=-1"),
        Slot("connectors", ("scale-down-connectors",)),
        Slot("discovery-group-ref", ("discovery-group-ref",)),
        about="all messages go to another node of the first cluster connection: at a stop in order, or, of a backup, "
        "as soon as it takes over",
    ),
    Kind(
        "scale-down-connectors",
        Slot("connector-ref", ("connector-ref",), many=True),
        about="whom they are offered to, one after the other; without, the members of the cluster",
    ),
    Kind(
        "shared-store",
        Slot("primary", ("primary",)),
        Slot("master", ("primary",)),
        Slot("backup", ("backup",)),
        Slot("slave", ("backup",)),
        Slot("colocated", ("colocated",)),
        about="brokers with one directory: one serves, the others wait",
    ),
    Kind(
        "colocated",
        _COLOCATED,
        _EXCLUDES,
        Slot("primary", ("primary",)),
        Slot("master", ("primary",)),
        Slot("backup", ("backup",)),
        Slot("slave", ("backup",)),
        about="nodes of a cluster that host one another's backups: each in a process of its own, which this one keeps",
    ),
    Kind(
        "excludes",
        Slot("connector-ref", ("connector-ref",), many=True),
        about="connectors that lead elsewhere: a hosted backup dials them as they are, without the offset",
    ),
    Kind(
        "primary",
        _PART,
        no_effect("`entrepot run` returns when it ends", "wait-for-activation:flag"),
        about="the broker whose store it is",
    ),
    Kind(
        "backup",
        _PART,
        obeyed("allow-failback:flag restart-backup:flag"),
        Slot("scale-down", ("scale-down",)),
        about="a broker that serves while its primary cannot",
    ),
    Kind(
        "replication",
        Slot("primary", ("replicated-primary",)),
        Slot("master", ("replicated-primary",)),
        Slot("backup", ("replicated-backup",)),
        Slot("slave", ("replicated-backup",)),
        Slot("colocated", ("replicated-colocated",)),
        about="brokers with a store each, one a copy of the other",
    ),
    Kind(
        "replicated-colocated",
        _COLOCATED,
        _EXCLUDES,
        Slot("primary", ("replicated-primary",)),
        Slot("master", ("replicated-primary",)),
        Slot("backup", ("replicated-backup",)),
        Slot("slave", ("replicated-backup",)),
        about="nodes of a cluster that host copies of one another's stores: each in a process of its own",
    ),
    Kind(
        "replicated-primary",
        _COPIES,
        _VOTES,
        no_effect(CHECKED, "check-for-active-server:flag check-for-live-server:flag"),
        obeyed("coordination-id:text"),
        _MANAGER,
        about="the broker that serves where both could",
    ),
    Kind(
        "replicated-backup",
        _COPIES,
        _BACKUP_COPY,
        _VOTES,
        _MANAGER,
        Slot("scale-down", ("scale-down",)),
        about="a broker that has a copy, and serves while the primary cannot",
    ),
    Kind(
        "manager",
        obeyed("class-name:text"),
        Slot("properties", ("manager-properties",)),
        about="where the lease is: a class of Artemis, which becomes a locker",
    ),
    Kind(
        "manager-properties",
        Slot("property", ("manager-property",), many=True),
        about="what the class is told: connect-string and namespace of ZooKeeper, locks-folder of files",
    ),
    Kind("manager-property", obeyed("key:text value:text"), about="one of them"),
]
