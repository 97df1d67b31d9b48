"""Leases that are kept in a database or in ZooKeeper: one small record that is changed by compare-and-swap.

No clock of any other machine is believed, neither the database's nor the challenger's wall clock: the holder changes
the record with each renewal, and it counts as expired when a challenger saw no change for longer than the lease. So a
holder that dies is succeeded when its lease has run out, one that stops in good order at once: who waits is told by
PostgreSQL (NOTIFY) and ZooKeeper (a watch), and asks SQLite a hundred times a second whether its file has changed.

The service may answer while the store does not: a file server that only the master cannot reach any more. A master that
went on renewing then would keep the store from everybody. So each renewal, and each claim, is first written into
``DIR/LOCK.alive``, which nobody reads: whoever cannot write there has no business with the lease.

URIs, each with ``?name=LOCK`` where several stores share one table (default ``entrepot``)::

    sqlite:/var/lib/entrepot/lock.db              brokers of one machine
    postgresql://user:password@host/database      needs psycopg (pip install 'entrepot[postgresql]')
    zookeeper://host:2181,host:2181/path          needs kazoo   (pip install 'entrepot[zookeeper]')
    quorum:(a:7790,b:7790,c:7790)                 voters of our own, see `io/quorum.py`
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from entrepot.base.environment import SECOND
from entrepot.base.errors import InvalidOption, InvalidURI, StoreUnusable
from entrepot.ha.candidate import Sight, System
from entrepot.ha.lease import LeaseOptions, Record, decode
from entrepot.io.descriptors import let_go
from entrepot.io.leases import RECORD_OCTETS, Lock, mount_of, store_identity
from entrepot.io.lock import NO_SPACE, OWNER_DIRECTORY, OWNER_FILE
from entrepot.io.register import NAME, Register

TABLE: Final = "entrepot_lock"
ALIVE: Final = "LOCK.alive"
CHANNEL: Final = "entrepot_lock"
GLANCE: Final = 0.01
"""s between two questions to SQLite whether anything was written: 5 us each."""


class SqliteRegister(Register):
    """A row in an SQLite file: for the brokers of one machine."""

    def __init__(self, path: str, name: str, patience: float) -> None:
        """Raises StoreUnusable. ``patience``: s that a locked database is waited for."""
        self._name = name
        self._path = path
        self._version = 0
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS {TABLE} (name TEXT PRIMARY KEY, version INTEGER NOT NULL, record BLOB)"
            )
        except (sqlite3.Error, OSError) as error:
            raise StoreUnusable(
                f"the lock database {path} cannot be used: {error}", remedy="check its directory and its permissions"
            ) from error

    def read(self) -> tuple[bytes, int]:
        """Return the row."""
        self._version = self._written()
        row = self._ask(f"SELECT record, version FROM {TABLE} WHERE name = ?", (self._name,)).fetchone()
        return (b"", 0) if row is None else (bytes(row[0]), int(row[1]))

    def swap(self, version: int, octets: bytes) -> int:
        """Change the row, or make it."""
        if version == 0:
            made = self._ask(f"INSERT OR IGNORE INTO {TABLE} VALUES (?, 1, ?)", (self._name, octets))
        else:
            made = self._ask(
                f"UPDATE {TABLE} SET record = ?, version = version + 1 WHERE name = ? AND version = ?",
                (octets, self._name, version),
            )
        return version + 1 if made.rowcount == 1 else -1

    def pause(self, wake: threading.Event, seconds: float) -> None:
        """Look now and then whether somebody else has written to the file."""
        until = time.monotonic() + seconds
        while not wake.wait(GLANCE) and time.monotonic() < until:
            if self._written() != self._version:
                return

    def _written(self) -> int:
        """Return what changes whenever another connection changes the file."""
        return int(self._ask("PRAGMA data_version", ()).fetchone()[0])

    def _ask(self, text: str, values: tuple[object, ...]) -> sqlite3.Cursor:
        try:
            return self._connection.execute(text, values)
        except sqlite3.Error as error:
            raise OSError(f"the lock database {self._path} does not answer: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class PostgresRegister(Register):
    """A row in PostgreSQL."""

    def __init__(self, conninfo: str, name: str, patience: float) -> None:
        """Connects when it is first asked. Raises InvalidOption when psycopg is not installed."""
        try:
            import psycopg  # noqa: PLC0415 - optional
        except ImportError:
            raise InvalidOption(
                "a lock in PostgreSQL needs psycopg", remedy="pip install 'entrepot[postgresql]'"
            ) from None
        self._psycopg = psycopg
        self._conninfo = conninfo
        self._name = name
        self._patience = patience
        self._connection: Any = None

    def read(self) -> tuple[bytes, int]:
        """Return the row."""
        row = self._ask(f"SELECT record, version FROM {TABLE} WHERE name = %s", (self._name,)).fetchone()
        return (b"", 0) if row is None else (bytes(row[0]), int(row[1]))

    def swap(self, version: int, octets: bytes) -> int:
        """Change the row, or make it."""
        if version == 0:
            text = f"INSERT INTO {TABLE} (name, version, record) VALUES (%s, 1, %s) ON CONFLICT DO NOTHING"
            made = self._ask(text, (self._name, octets))
        else:
            text = f"UPDATE {TABLE} SET record = %s, version = version + 1 WHERE name = %s AND version = %s"
            made = self._ask(text, (octets, self._name, version))
        return version + 1 if made.rowcount == 1 else -1

    def pause(self, wake: threading.Event, seconds: float) -> None:
        """Wait for a notification; ``wake`` is looked at when ``seconds`` are over."""
        if self._connection is None or wake.is_set():
            wake.wait(seconds)
            return
        try:
            for _ in self._connection.notifies(timeout=seconds, stop_after=1):
                return
        except self._psycopg.Error as error:
            self.close()
            raise OSError(f"the lock database does not answer: {str(error).strip()}") from error

    def tell(self) -> None:
        """Notify all who listen."""
        self._ask("SELECT pg_notify(%s, %s)", (CHANNEL, self._name))

    def _ask(self, text: str, values: tuple[object, ...]) -> Any:
        """Run one statement in a transaction of its own; a connection that broke is replaced at the next call."""
        psycopg = self._psycopg
        try:
            if self._connection is None:
                self._connection = self._connect()
            return self._connection.execute(text, values)
        except psycopg.Error as error:
            self.close()
            raise OSError(f"the lock database does not answer: {str(error).strip() or type(error).__name__}") from error

    def _connect(self) -> Any:
        timeout = max(1, int(self._patience))
        options = f"-c statement_timeout={int(self._patience * 1000)}"
        connection = self._psycopg.connect(
            self._conninfo,
            autocommit=True,
            connect_timeout=timeout,
            options=options,
            application_name="entrepot-lock",
            tcp_user_timeout=int(self._patience * 1000),
        )
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (name TEXT PRIMARY KEY, version BIGINT NOT NULL, record BYTEA)"
        )
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class ZooKeeperRegister(Register):
    """A node in ZooKeeper. It is no ephemeral one: the lease decides, not the session, which has timers of its own."""

    def __init__(self, hosts: str, path: str, patience: float) -> None:
        """Connects when it is first asked. Raises InvalidOption when kazoo is not installed."""
        try:
            from kazoo.client import KazooClient  # noqa: PLC0415 - optional
        except ImportError:
            raise InvalidOption("a lock in ZooKeeper needs kazoo", remedy="pip install 'entrepot[zookeeper]'") from None
        self._client: Any = KazooClient(hosts=hosts, timeout=max(2.0, patience), command_retry=None)
        self._path = path
        self._patience = patience
        self._started = False
        self._wake: threading.Event | None = None

    def read(self) -> tuple[bytes, int]:
        """Return the node. Versions begin at 1 here, at 0 there."""
        from kazoo.exceptions import NoNodeError  # noqa: PLC0415

        try:
            octets, state = self._ask(lambda: self._client.get_async(self._path, watch=self._changed))
        except NoNodeError:
            return b"", 0
        return bytes(octets), int(state.version) + 1

    def swap(self, version: int, octets: bytes) -> int:
        """Change the node, or make it and its parents."""
        from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError  # noqa: PLC0415

        try:
            if version == 0:
                self._ask(lambda: self._client.create_async(self._path, octets, makepath=True))
                return 1
            state = self._ask(lambda: self._client.set_async(self._path, octets, version=version - 1))
        except (BadVersionError, NodeExistsError, NoNodeError):
            return -1
        return int(state.version) + 1

    def pause(self, wake: threading.Event, seconds: float) -> None:
        """Wait; the watch that `read` has left sets ``wake``."""
        self._wake = wake
        wake.wait(seconds)

    def _changed(self, _event: object) -> None:
        if self._wake is not None:
            self._wake.set()

    def _ask(self, call: Callable[[], Any]) -> Any:
        from kazoo.exceptions import (  # noqa: PLC0415
            BadVersionError,
            KazooException,
            NodeExistsError,
            NoNodeError,
        )
        from kazoo.handlers.threading import KazooTimeoutError  # noqa: PLC0415

        try:
            if not self._started:
                self._client.start(timeout=self._patience)
                self._started = True
            return call().get(timeout=self._patience)
        except (BadVersionError, NodeExistsError, NoNodeError):
            raise
        except (KazooException, KazooTimeoutError) as error:
            raise OSError(f"ZooKeeper does not answer: {str(error) or type(error).__name__}") from error

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()
        self._started = False


class RegisterLock(Lock):
    """The lock of a store in a `Register`."""

    def __init__(self, register: Register, directory: Path, mine: Record, store: str = "") -> None:
        """``directory``: the store, which must be the same for all, unless ``store`` says what the lock is of.

        Raises StoreUnusable.
        """
        self._register = register
        self._directory = directory
        self._alive = -1  # where it is written that the store can be written
        try:
            directory.mkdir(mode=OWNER_DIRECTORY, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnusable(f"the data directory {directory} cannot be made: {error.strerror}") from error
        mine.store = self._store = store or store_identity(directory)
        self._remote = mount_of(directory).remote

    def look(self) -> Sight:
        """Read the register. Raises InvalidOption when it is that of another store."""
        octets, version = self._register.read()
        record = decode(octets)
        if record is None and octets:
            raise StoreUnusable(
                "the lock holds something that no broker wrote", remedy="give the lock another name: ?name=..."
            )
        if record is not None and record.store != self._store:
            raise InvalidOption(
                f"the lock is that of another store: {record.describe()} does not use {self._directory}",
                remedy="give both brokers the same --data, or this store a lock of its own: ?name=...",
            )
        ended = record is not None and not record.released and self._register.ended(record.instance)
        return Sight(record, version, system=System.PROVED if ended else System.NONE)

    def swap(self, version: int, record: Record) -> int:
        """Change the register; say that it is free to those who listen.

        Raises OSError, or does not return, while the store cannot be written.
        """
        octets = record.encode()
        if not record.released:
            self._write_alive(octets)
        version = self._register.swap(version, octets)
        if version >= 0 and record.released:
            self._register.tell()
        return version

    def _write_alive(self, octets: bytes) -> None:
        """See whether the store answers to a write; that it is full is an answer, too."""
        try:
            if self._alive < 0:
                self._alive = os.open(self._directory / ALIVE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE)
            os.pwrite(self._alive, octets.ljust(RECORD_OCTETS, b"\0"), 0)
            if self._remote:
                os.fsync(self._alive)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise

    def pause(self, wake: threading.Event, seconds: float) -> None:
        """Wait until the register is changed, or ``wake`` is set. Raises OSError."""
        self._register.pause(wake, seconds)

    def replaced(self) -> bool:
        """Nothing can replace it without the register knowing."""
        return False

    def close(self) -> None:
        """Let go of the register."""
        self._register.close()
        if self._alive >= 0:
            let_go(self._alive)
            self._alive = -1


def open_register(uri: str, options: LeaseOptions, instance: str = "") -> Register:
    """Return the register that ``uri`` names; ``instance``: this process, as in its record.

    Raises InvalidURI, InvalidOption, StoreUnusable.
    """
    parts = urlsplit(uri)
    if parts.scheme == "quorum":
        from entrepot.io.quorum import QuorumRegister  # noqa: PLC0415 - for those who have voters

        return QuorumRegister(uri, options, instance)
    query = dict(parse_qsl(parts.query))
    name = query.pop("name", NAME)
    patience = max(0.1, options.renew_every / SECOND)  # a call that takes longer is as good as failed
    if parts.scheme == "sqlite":
        if not parts.path:
            raise InvalidURI(f"{uri!r} names no file", remedy="write it like sqlite:/var/lib/entrepot/lock.db")
        return SqliteRegister(parts.path, name, patience)
    if parts.scheme in ("postgresql", "postgres"):
        conninfo = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(query), ""))
        return PostgresRegister(conninfo, name, patience)
    if parts.scheme == "zookeeper":
        if not parts.netloc:
            raise InvalidURI(f"{uri!r} names no server", remedy="write it like zookeeper://a:2181,b:2181/entrepot")
        return ZooKeeperRegister(parts.netloc, f"{parts.path.rstrip('/') or '/entrepot'}/{name}", patience)
    raise InvalidURI(
        f"there is no locker {parts.scheme or uri!r}", remedy="use file, quorum:, sqlite:, postgresql: or zookeeper:"
    )
