"""TLS from options: what works, who is let in, and what is refused before a port is opened."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.io.renewing import Renewal
from entrepot.io.tcp import dial
from entrepot.io.tls import TlsOptions, client_context, server_context
from shell.certificates import PASSWORD, Certificates
from shell.harness import Echo, listening, no_options, rest_of, some_of, until


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def client(files: Certificates, identity: Path | None = None) -> ssl.SSLContext:
    return client_context(TlsOptions(trust=str(files.authority), certificate=str(identity or "")))


async def greeting(port: int, context: ssl.SSLContext) -> bytes:
    """Return the echo of a first word; TLS 1.3 tells a client that is not let in only when it reads."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(b"hello")
    return await some_of(reader, 5)


@pytest.mark.parametrize("form", ["server", "store"])
def test_a_listener_speaks_tls(run, files: Certificates, form: str) -> None:
    async def main() -> None:
        path = getattr(files, form)
        uri = f"stomp+ssl://127.0.0.1:0?keyStorePath={path}&transport.keyStorePassword={PASSWORD.decode()}"
        async with listening(uri) as place:
            reader, writer = await asyncio.open_connection("127.0.0.1", place.listener.port, ssl=client(files))
            writer.write(b"hello")
            assert await some_of(reader, 5) == b"hello"
            writer.write(b"bye")
            assert await rest_of(reader) == b"farewell"
            await until(lambda: place.sessions[0].why)
            writer.close()

    run(main)


def test_a_client_without_a_certificate_stays_outside_when_one_is_needed(run, files: Certificates) -> None:
    async def main() -> None:
        uri = (
            f"stomp+ssl://127.0.0.1:0?keyStorePath={files.server}&trustStorePath={files.authority}&needClientAuth=true"
        )
        async with listening(uri) as place:
            port = place.listener.port
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client(files, files.client))
            writer.write(b"hello")
            assert await some_of(reader, 5) == b"hello"
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await greeting(port, client(files))
            writer.write(b"again")
            assert await some_of(reader, 5) == b"again"
            assert len(place.sessions) == 1
            writer.close()

    run(main)


def test_a_plain_client_on_a_tls_port_harms_nobody(run, files: Certificates) -> None:
    async def main() -> None:
        async with listening(f"stomp+ssl://127.0.0.1:0?keyStorePath={files.server}") as place:
            reader, writer = await place.dial()
            writer.write(b"CONNECT\n\n\0")
            assert await rest_of(reader) != b"CONNECT\n\n\0"
            reader, writer = await asyncio.open_connection("127.0.0.1", place.listener.port, ssl=client(files))
            writer.write(b"hello")
            assert await some_of(reader, 5) == b"hello"
            writer.close()

    run(main)


def test_our_own_client_dials_and_checks_the_host(run, files: Certificates) -> None:
    async def main() -> None:
        async with listening(f"stomp+ssl://127.0.0.1:0?keyStorePath={files.server}") as place:
            made: list[Echo] = []

            def make(shell, peer):
                made.append(Echo(shell, peer))
                return made[-1]

            turn = place.listener.turn
            uri = f"stomp+ssl://127.0.0.1:{place.listener.port}"
            lost: list[object] = []
            with pytest.raises(ssl.SSLError):
                await dial(uri, turn, make, no_options, lost.append)
            trusting = f"{uri}?trustStorePath={files.authority}"
            connection = await dial(trusting, turn, make, no_options, lost.append)
            await until(lambda: place.sessions)
            place.sessions[-1].say(b"bye")  # the far session ends itself on that word
            await until(lambda: connection in lost)

    run(main)


def test_versions_and_suites_are_restricted(files: Certificates) -> None:
    suites = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384"
    options = TlsOptions(certificate=str(files.server), protocols="TLSv1.2", ciphers=suites)
    context = server_context(options)
    assert context.minimum_version == context.maximum_version == ssl.TLSVersion.TLSv1_2
    chosen = [suite["name"] for suite in context.get_ciphers() if not suite["name"].startswith("TLS_")]
    assert chosen == ["ECDHE-ECDSA-AES128-GCM-SHA256"]


def test_what_cannot_work_is_said_with_what_to_do(files: Certificates, tmp_path: Path) -> None:
    java = tmp_path / "old.jks"
    java.write_bytes(b"\xfe\xed\xfe\xed" + bytes(100))
    server = str(files.server)
    for options, words in [
        (TlsOptions(), "needs a certificate"),
        (TlsOptions(certificate=str(tmp_path / "none")), "cannot read the certificate"),
        (TlsOptions(certificate=str(java)), "keytool -importkeystore"),
        (TlsOptions(certificate=str(files.store), password="wrong"), "check the password"),
        (TlsOptions(certificate=str(files.authority)), "cannot use the certificate"),
        (TlsOptions(certificate=server, need_client=True), "trustStorePath"),
        (TlsOptions(certificate=server, protocols="SSLv3"), "broken"),
        (TlsOptions(certificate=server, protocols="TLSv9"), "no TLS version"),
        (TlsOptions(certificate=server, ciphers="NONSENSE"), "no cipher suite"),
    ]:
        with pytest.raises(InvalidOption, match=words):
            server_context(options)


def test_a_renewed_certificate_is_shown_to_who_comes_and_nobody_is_sent_away(run, tmp_path: Path) -> None:
    """sslAutoReload: the old trust goes with the old files, and a connection that is open stays."""

    async def main() -> None:
        folders = [tmp_path / name for name in ("old", "new")]
        for folder in folders:
            folder.mkdir()
        old, new = (Certificates(folder) for folder in folders)
        trusting = {name: client(each, each.client) for name, each in (("old", old), ("new", new))}
        uri = (
            f"stomp+ssl://127.0.0.1:0?keyStorePath={old.server}&trustStorePath={old.authority}&needClientAuth=true"
            "&sslAutoReload=true"
        )
        async with listening(uri) as place:
            port = place.listener.port
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting["old"])
            writer.write(b"hello")
            assert await some_of(reader, 5) == b"hello"
            renewal = Renewal([place.listener], 1_000_000)
            await renewal.start()
            for name in ("server", "authority"):
                getattr(old, name).write_bytes(getattr(new, name).read_bytes())
            dialling = [asyncio.ensure_future(greeting(port, trusting["new"])) for _ in range(20)]
            assert await renewal.look() == 1
            await asyncio.gather(*dialling, return_exceptions=True)
            assert await greeting(port, trusting["new"]) == b"hello"
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await greeting(port, trusting["old"])
            writer.write(b"again")
            assert await some_of(reader, 5) == b"again"
            writer.close()
            renewal.stop()
            assert (place.listener.port, place.listener.is_open) == (port, True)

    run(main)
