"""Lockers of activemq.xml: who may use a store, and for how long."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.config.findings import Severity
from entrepot.config.founding import shared_store
from entrepot.config.model import Sharing

from .broker_xml import MEMORY, broker, errors, read, said

POSTGRES = """<bean xmlns="http://www.springframework.org/schema/beans" id="ds" class="org.apache.BasicDataSource">
<property name="url" value="jdbc:postgresql://db:5432/locks?sslmode=require"/>
<property name="username" value="mq"/><property name="password"><value>geheim</value></property></bean>"""


def shared(store: str = "", *, around: str = "", attributes: str = "") -> Sharing | None:
    body = f"<persistenceAdapter>{store}</persistenceAdapter>" if store else ""
    reading = read(broker(body, attributes, around=around))
    assert reading.config is not None, said(reading, Severity.ERROR)
    return reading.config.sharing


def kaha(locker: str = "", attributes: str = "") -> str:
    return f'<kahaDB directory="d" {attributes}>{f"<locker>{locker}</locker>" if locker else ""}</kahaDB>'


def test_every_store_is_shared_with_whoever_has_the_same_directory() -> None:
    assert shared() == shared(kaha()) == shared(kaha("<shared-file-locker/>")) == Sharing()
    options = shared_store(Sharing(), "127.0.0.1:0")
    assert (options.locker, options.twins, options.part, options.failover_on_shutdown) == ("file", True, "either", True)
    assert (options.lease.duration, options.status) == (5 * SECOND, "127.0.0.1:0")


@pytest.mark.parametrize(
    ("store", "attributes"),
    [
        (kaha(attributes='failIfDatabaseIsLocked="true"'), ""),
        (kaha('<shared-file-locker failIfLocked="true"/>'), ""),
        ("<memoryPersistenceAdapter/>", ""),
        (kaha(), 'persistent="false"'),
    ],
)
def test_who_should_not_wait_or_stores_nothing_does_not(store: str, attributes: str) -> None:
    assert shared(store, attributes=attributes) is None


def test_the_period_of_the_keep_alive_is_that_of_renewals() -> None:
    assert shared(kaha(attributes='lockKeepAlivePeriod="500"')) == Sharing(
        lease=5 * SECOND, renew_every=500 * MILLISECOND
    )
    assert shared(kaha(attributes='lockKeepAlivePeriod="30000"')) == Sharing(
        lease=150 * SECOND, renew_every=30 * SECOND
    )


def test_what_has_no_meaning_is_said() -> None:
    store = kaha('<shared-file-locker lockAcquireSleepInterval="1000" directory="/x"/>', 'useLock="false"')
    reading = read(broker(f"<persistenceAdapter>{store}</persistenceAdapter>"))
    assert any("is woken the moment" in what for what in said(reading, Severity.NOTE))
    assert any('useLock="false" is not done here' in what for what in said(reading, Severity.WARNING))
    assert any('directory="/x" is not done here' in what for what in said(reading, Severity.WARNING))
    assert not said(
        read(
            broker(
                f"<persistenceAdapter>{kaha(attributes='useLock=' + chr(34) + 'true' + chr(34))}</persistenceAdapter>"
            )
        )
    )


def test_a_lease_in_postgresql() -> None:
    locker = (
        '<lease-database-locker dataSource="#ds" lockAcquireSleepInterval="8000" leaseHolderId="one">'
        '<statements><statements lockTableName="orders lock"/></statements></lease-database-locker>'
    )
    made = shared(kaha(locker, 'lockKeepAlivePeriod="2000"'), around=POSTGRES)
    assert made == Sharing(
        locker="postgresql://mq:geheim@db:5432/locks?sslmode=require&name=orders%20lock",
        lease=8 * SECOND,
        renew_every=2 * SECOND,
        holder="one",
    )
    reading = read(broker(f"<persistenceAdapter>{kaha(locker)}</persistenceAdapter>", around=POSTGRES))
    assert not any("geheim" in finding.describe() for finding in reading.findings)


@pytest.mark.parametrize(
    ("properties", "locker"),
    [
        ('<property name="url" value="jdbc:sqlite:/var/lock.db"/>', "sqlite:/var/lock.db"),
        (
            '<property name="serverName" value="db"/><property name="databaseName" value="x"/>'
            '<property name="user" value="u"/>',
            "postgresql://u@db:5432/x",
        ),
    ],
)
def test_other_ways_to_say_where(properties: str, locker: str) -> None:
    bean = POSTGRES.partition("\n")[0] + properties + "</bean>"
    made = shared(kaha('<lease-database-locker dataSource="#ds"/>'), around=bean)
    assert made is not None
    assert (made.locker, made.lease) == (locker, 10 * SECOND)


@pytest.mark.parametrize(
    ("locker", "attributes", "around", "message"),
    [
        ('<lease-database-locker dataSource="#no"/>', "", POSTGRES, "no bean with a DataSource and the id 'no'"),
        ("<lease-database-locker/>", "", POSTGRES, "does not say which database"),
        (
            '<lease-database-locker dataSource="#ds"/>',
            'lockKeepAlivePeriod="6000"',
            POSTGRES,
            "cannot be renewed every",
        ),
        (
            '<lease-database-locker dataSource="#ds"/>',
            "",
            POSTGRES.replace("jdbc:postgresql:", "jdbc:mysql:"),
            "not in mysql",
        ),
        ('<database-locker dataSource="#ds"/>', "", POSTGRES, "does not notice a broker that stands still"),
    ],
)
def test_what_cannot_be_a_lease_is_refused(locker: str, attributes: str, around: str, message: str) -> None:
    found = errors(broker(f"<persistenceAdapter>{kaha(locker, attributes)}</persistenceAdapter>", around=around))
    assert any(message in what for what in found), found


def test_a_store_in_memory_has_no_locker() -> None:
    assert read(broker(MEMORY)).config is not None
