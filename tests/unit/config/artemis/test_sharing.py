"""`<ha-policy><replication>` of a broker.xml: which lock, which copies, and what is refused by name."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import InvalidOption
from entrepot.config.artemis.ha_elements import HA_KINDS
from entrepot.config.findings import Severity
from entrepot.config.founding import shared_store
from entrepot.config.model import Colocation, Copying, Sharing
from entrepot.ha.lease import BACKUP, PRIMARY
from unit.config.artemis.test_artemis import config, document, read, said

MANAGER = (
    "<manager><class-name>org.apache.activemq.artemis.lockmanager.{}</class-name><properties>{}</properties></manager>"
)


def replicated(inside: str, part: str = "primary") -> str:
    return f"<ha-policy><replication><{part}>{inside}</{part}></replication></ha-policy>"


def manager(name: str, **told: str) -> str:
    texts = (f'<property key="{key.replace("_", "-")}" value="{value}"/>' for key, value in told.items())
    return MANAGER.format(name, "".join(texts))


def colocated(inside: str) -> str:
    return f"<ha-policy><shared-store><colocated>{inside}</colocated></shared-store></ha-policy>"


CLUSTERED = (
    "<cluster-user>u</cluster-user><cluster-password>p</cluster-password>"
    '<connectors><connector name="own">tcp://a:61616</connector><connector name="far">tcp://b</connector></connectors>'
    '<cluster-connections><cluster-connection name="c"><connector-ref>own</connector-ref>'
    "<static-connectors><connector-ref>far</connector-ref></static-connectors></cluster-connection>"
    "</cluster-connections>"
)


@pytest.mark.parametrize("part", ["primary", "master", "backup", "slave"])
def test_a_broker_with_a_copy(part: str) -> None:
    sharing = config(replicated("", part)).sharing
    assert sharing is not None
    assert sharing.part == (PRIMARY if part in ("primary", "master") else BACKUP)
    assert (sharing.failover_on_shutdown, sharing.allow_failback, sharing.restart_backup) == (True, False, True)
    assert sharing.locker == "file"
    assert sharing.copies == Copying(kept=2, patience=30 * SECOND)


def test_a_backup_gives_its_store_back_where_it_may() -> None:
    inside = "<allow-failback>true</allow-failback><restart-backup>false</restart-backup>"
    sharing = config(replicated(inside, "backup")).sharing
    assert sharing is not None
    assert (sharing.allow_failback, sharing.restart_backup) == (True, False)


def test_how_many_old_copies_and_how_long_for_an_answer() -> None:
    inside = (
        "<max-saved-replicated-journals-size>-1</max-saved-replicated-journals-size>"
        "<initial-replication-sync-timeout>1500</initial-replication-sync-timeout>"
    )
    sharing = config(replicated(inside)).sharing
    assert sharing is not None
    assert sharing.copies == Copying(kept=-1, patience=1500 * MILLISECOND)
    said = "<group-name>red</group-name><quorum-size>4</quorum-size><coordination-id>p</coordination-id>"
    sharing = config(replicated(said)).sharing
    assert sharing is not None
    assert sharing.copies == Copying(patience=30 * SECOND, group="red", quorum=4, peers=True)


@pytest.mark.parametrize(
    ("inside", "locker"),
    [
        (
            manager("zookeeper.CuratorDistributedLockManager", connect_string="a:2181,b:2181", namespace="n"),
            "zookeeper://a:2181,b:2181/n",
        ),
        (
            manager("zookeeper.CuratorDistributedLockManager", connect_string="a:2181")
            + "<coordination-id>peer 1</coordination-id>",
            "zookeeper://a:2181/entrepot?name=peer%201",
        ),
        (manager("file.FileBasedLockManager", locks_folder="/mnt/locks/"), "file:/mnt/locks/entrepot"),
    ],
)
def test_a_lock_manager_becomes_a_locker(inside: str, locker: str) -> None:
    sharing = config(replicated(inside)).sharing
    assert sharing is not None
    assert sharing.locker == locker


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (replicated(manager("zookeeper.CuratorDistributedLockManager")), "is not told its connect-string"),
        (replicated(manager("file.FileBasedLockManager", locks_folder="/l", more="1")), "has no property 'more'"),
        (replicated(manager("Mine", a="b")), "'Mine' is a class of Java, and no locker is known for it"),
        (replicated("<scale-down/>", "backup"), "nobody could take what this backup took over"),
        (
            "<ha-policy><shared-store><backup><scale-down/></backup></shared-store></ha-policy>",
            "nobody could take what this backup took over",
        ),
        (
            "<ha-policy><replication><colocated/><primary/></replication></ha-policy>",
            "beside <primary> or <backup>",
        ),
        ("<ha-policy><shared-store><colocated/><backup/></shared-store></ha-policy>", "beside <primary> or <backup>"),
        (replicated("<initial-replication-sync-timeout>0</initial-replication-sync-timeout>"), "0 is no time"),
        (replicated("<initial-replication-sync-timeout>-1</initial-replication-sync-timeout>"), "-1 is no time"),
        (colocated("<max-backups>-1</max-backups>"), "-1 is no number of backups"),
        (colocated("<max-backups>33</max-backups>"), "33 is no number of backups"),
        (colocated("<backup-port-offset>0</backup-port-offset>"), "0 moves no port"),
        (colocated("<backup-request-retry-interval>0</backup-request-retry-interval>"), "0 is no time"),
        (colocated("<excludes><connector-ref>x</connector-ref></excludes>"), "there is no connector 'x'"),
        (colocated("<primary/><master/>"), "it is there twice"),
        (
            CLUSTERED + colocated("<excludes><connector-ref>own</connector-ref></excludes>"),
            "would say that it is at 'own'",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(text: str, message: str) -> None:
    errors = said(read(document(text)), Severity.ERROR)
    assert [one for one in errors if message in one], errors


def test_copies_are_hosted_as_its_primary_and_backup_say() -> None:
    policy = (
        "<ha-policy><replication><colocated><max-backups>2</max-backups><request-backup>true</request-backup>"
        "<primary/><backup><allow-failback>true</allow-failback></backup></colocated></replication></ha-policy>"
    )
    sharing = config(CLUSTERED + policy).sharing
    assert sharing is not None
    assert sharing.colocation is not None
    assert (sharing.part, sharing.colocation.backup.part) == (PRIMARY, BACKUP)
    assert (sharing.colocation.backups_max, sharing.colocation.requests) == (2, True)
    assert sharing.colocation.backup.allow_failback
    bare = config(CLUSTERED + "<ha-policy><replication><colocated/></replication></ha-policy>").sharing
    assert bare is not None
    assert bare.colocation is not None
    assert not bare.colocation.backup.allow_failback, "false, as that of a copy is"
    for one in (sharing, bare):
        assert one.copies is not None
        assert one.colocation is not None
        assert one.colocation.backup.copies is not None


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("vote-on-replication-failure", "a primary whose lease is not renewed stops"),
        ("quorum-size", "a lease decides"),
        ("vote-retries", "never gives up"),
        ("vote-retry-wait", "never gives up"),
        ("quorum-vote-wait", "--lease-duration"),
        ("check-for-active-server", "follows it as its replica"),
        ("cluster-name", "--peer"),
    ],
)
def test_options_of_votes_have_no_effect_and_it_is_said_what_holds_instead(name: str, instead: str) -> None:
    value = "true" if name.startswith(("vote-on", "check")) else "3"
    told = said(read(document(replicated(f"<{name}>{value}</{name}>"))), Severity.NOTE)
    assert [one for one in told if name in one and instead in one], told


def test_the_file_alone_does_not_say_where() -> None:
    sharing = config(replicated("")).sharing
    assert sharing is not None
    with pytest.raises(InvalidOption, match="not where replicas connect"):
        shared_store(sharing)


def test_every_kind_of_ha_policy_is_described_once() -> None:
    keys = [kind.name for kind in HA_KINDS]
    assert len(keys) == len(set(keys))
    assert "replication" in " ".join(keys)


def test_a_node_that_hosts_backups_and_has_its_own_hosted() -> None:
    inside = (
        "<request-backup>true</request-backup><max-backups>3</max-backups><backup-port-offset>10</backup-port-offset>"
        "<backup-request-retries>7</backup-request-retries>"
        "<backup-request-retry-interval>250</backup-request-retry-interval>"
        "<excludes><connector-ref>far</connector-ref></excludes>"
        "<master><failover-on-shutdown>true</failover-on-shutdown></master>"
        "<slave><allow-failback>false</allow-failback></slave>"
    )
    sharing = config(CLUSTERED + colocated(inside)).sharing
    assert sharing == Sharing(
        part=PRIMARY,
        failover_on_shutdown=True,
        colocation=Colocation(
            backup=Sharing(part=BACKUP, failover_on_shutdown=False, allow_failback=False),
            requests=True,
            backups_max=3,
            retries=7,
            retry_ms=250,
            port_offset=10,
            excludes=("far",),
        ),
    )
    assert shared_store(sharing).part == PRIMARY


def test_what_colocated_leaves_out_is_as_artemis_has_it() -> None:
    sharing = config(CLUSTERED + colocated("")).sharing
    backup = Sharing(part=BACKUP, failover_on_shutdown=False, allow_failback=True)
    assert sharing == Sharing(part=PRIMARY, failover_on_shutdown=False, colocation=Colocation(backup=backup))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (colocated(""), "there is no cluster"),
        (CLUSTERED + colocated(""), "a hosted backup dials 'far' at its port + backup-port-offset"),
        (CLUSTERED.replace("<cluster-password>p</cluster-password>", "") + colocated(""), "everybody knows"),
    ],
)
def test_what_would_surprise_is_said(text: str, message: str) -> None:
    told = said(read(document(text)), Severity.WARNING)
    assert [one for one in told if message in one], told


def test_a_port_that_there_is_not_is_said_before_a_backup_needs_it() -> None:
    acceptors = '<acceptors><acceptor name="a">tcp://127.0.0.1:61616?protocols=STOMP</acceptor></acceptors>'
    text = colocated("<max-backups>2</max-backups><backup-port-offset>2000</backup-port-offset>")
    errors = said(read(document(CLUSTERED + text, acceptors=acceptors)), Severity.ERROR)
    assert errors == ["the acceptor 'a' would listen on 65616, which is no port"]


@pytest.mark.parametrize(("inside", "drains"), [("", True), ("<enabled>false</enabled>", False)])
def test_a_backup_with_a_copy_gives_away_what_it_takes_over(inside: str, drains: bool) -> None:
    made = config(CLUSTERED + replicated(f"<scale-down>{inside}</scale-down>", "backup"))
    assert made.sharing is not None
    assert made.sharing.drains == drains
    assert (made.peering.scale_down is not None) == drains


@pytest.mark.parametrize(("inside", "drains"), [("", True), ("<enabled>false</enabled>", False)])
def test_a_backup_gives_away_what_it_takes_over(inside: str, drains: bool) -> None:
    policy = f"<ha-policy><shared-store><backup><scale-down>{inside}</scale-down></backup></shared-store></ha-policy>"
    made = config(CLUSTERED + policy)
    assert made.sharing is not None
    assert (made.sharing.drains, shared_store(made.sharing).drains) == (drains, drains)
    down = made.peering.scale_down
    assert (None if down is None else down.of_backup) == (True if drains else None)
    assert made.peering.hosted_scale_down is None


@pytest.mark.parametrize(
    ("inside", "message"),
    [
        ("<coordination-id>peers</coordination-id>", "there is no <manager>"),
        ("<cluster-name>other</cluster-name>", "there is no cluster connection 'other'"),
        ("<cluster-name>c</cluster-name>", ""),
        ("<coordination-id>peers</coordination-id>" + manager("file.FileBasedLockManager", locks_folder="/l"), ""),
    ],
)
def test_what_leads_to_something_else_than_it_looks_is_said(inside: str, message: str) -> None:
    warnings = said(read(document(CLUSTERED + replicated(inside))), Severity.WARNING)
    assert [one for one in warnings if "there is no" in one] == [one for one in warnings if message and message in one]
    assert not message or any(message in one for one in warnings)
