"""Who may use the store: lockers of Classic as leases of `ha/` (classic.md 3.1).

In Classic every KahaDB is locked, and a broker that finds it locked waits as a slave; so do ours. What differs is said
where it differs: the lease is always kept alive, and it notices a master that stands still.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from entrepot.base.environment import MILLISECOND, Duration
from entrepot.base.errors import InvalidConfiguration, InvalidOption
from entrepot.config.model import BrokerSettings, Sharing
from entrepot.config.reading import Bean, Reader
from entrepot.config.xml import Element
from entrepot.ha.lease import DURATION, RENEWALS, LeaseOptions

LEASE_MS: Final = 10_000  # lockAcquireSleepInterval, where it is the length of a lease
_JDBC: Final = re.compile(r"jdbc:([a-z0-9]+):(.*)", re.DOTALL)


def sharing(reader: Reader, broker: Bean, settings: BrokerSettings) -> Sharing | None:
    """Return how the store is shared; None where a second broker is refused, or nothing is stored."""
    adapters = broker.many("persistenceAdapter", "persistenceFactory")
    adapter = adapters[0] if adapters else None
    if not settings.persistent or (adapter is not None and adapter.kind.name == "memoryPersistenceAdapter"):
        return None
    if adapter is None:
        return Sharing()
    period = int(adapter.get("lockKeepAlivePeriod", 0)) * MILLISECOND
    refused = bool(adapter.get("failIfDatabaseIsLocked", False))
    locker = adapter.one("locker")
    made: Sharing | None = _by_file(period)
    if locker is not None:
        refused = bool(locker.get("failIfLocked", False)) or refused
        if locker.kind.name == "lease-database-locker":
            made = _by_database(reader, locker, period)
    if made is None or refused:
        return None
    try:
        LeaseOptions(made.lease or DURATION, made.renew_every)
    except InvalidOption as error:
        reader.error(locker or adapter, error.message, error.remedy)
    return made


def _by_file(period: Duration) -> Sharing:
    if period == 0:
        return Sharing()
    return Sharing(lease=max(DURATION, RENEWALS * period), renew_every=period)


def _by_database(reader: Reader, locker: Bean, period: Duration) -> Sharing | None:
    lease = int(locker.get("lockAcquireSleepInterval", LEASE_MS)) * MILLISECOND
    holder = locker.text("leaseHolderId")
    reference, own = locker.text("dataSource"), locker.text("lockDataSource")
    attribute = "lockDataSource" if own else "dataSource"
    reference = own or reference
    statements = locker.one("statements")
    table = "" if statements is None else statements.text("tablePrefix") + statements.text("lockTableName")
    if not reference.startswith("#"):
        reader.error(locker, "it does not say which database", 'refer to a bean: dataSource="#id"', attribute)
        return None
    bean = reader.sources.beans.get(reference[1:])
    if bean is None:
        what = f"there is no bean with a DataSource and the id {reference[1:]!r} in this file"
        reader.error(locker, what, 'write it beside the broker: <bean id="..." class="...DataSource">', attribute)
        return None
    try:
        uri = _uri(dict(_properties(reader, bean)), table)
    except InvalidConfiguration as error:
        reader.error(locker, error.message, error.remedy, attribute)
        return None
    return Sharing(locker=uri, lease=lease, renew_every=period, holder=holder)


def _properties(reader: Reader, bean: Element) -> Iterator[tuple[str, str]]:
    """Yield the properties of a bean, filled in; secrets are masked from now on."""
    for child in bean.named("property"):
        name = child.attributes["name"].text if "name" in child.attributes else ""
        value = child.attributes["value"].text if "value" in child.attributes else ""
        for inner in child.named("value"):
            value = inner.text.strip()
        filled = reader.sources.fill(value).strip()
        reader.sources.hide(name, filled)
        yield name, filled


def _uri(properties: dict[str, str], table: str) -> str:
    """Return the URI of a locker (`io/registers.py`) for a JDBC data source. Raises InvalidConfiguration."""
    url = properties.get("url") or properties.get("jdbcUrl") or properties.get("URL") or ""
    if not url and "serverName" in properties:
        port = properties.get("portNumber", "5432")
        url = f"jdbc:postgresql://{properties['serverName']}:{port}/{properties.get('databaseName', '')}"
    found = _JDBC.fullmatch(url)
    name = f"name={quote(table, safe='')}" if table else ""
    if found is not None and found[1] == "sqlite":
        return f"sqlite:{found[2]}" + (f"?{name}" if name else "")
    if found is None or found[1] != "postgresql" or not found[2].startswith("//"):
        kind = found[1] if found is not None else "a data source without a JDBC URL"
        raise InvalidConfiguration(
            f"a lease is kept in PostgreSQL or SQLite, not in {kind}",
            remedy="use jdbc:postgresql://HOST/DATABASE, or shared-file-locker on the shared directory",
        )
    place, _, query = found[2][2:].partition("?")
    options = "&".join(part for part in (query, name) if part)
    return f"postgresql://{_login(properties)}{place}" + (f"?{options}" if options else "")


def _login(properties: dict[str, str]) -> str:
    """Return ``user:password@``, as far as the data source names them."""
    user = quote(properties.get("username") or properties.get("user") or "", safe="")
    password = quote(properties.get("password", ""), safe="")
    return f"{user}{':' + password if password else ''}@" if user else ""
