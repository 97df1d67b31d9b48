"""TLS from options: what a listener shows, whom it believes, and what it speaks.

Certificates are PEM files; a PKCS#12 file, the usual form of Java's key stores by now, is read when the package
``cryptography`` is installed. The old JKS form is refused with the command that converts it.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from entrepot.base.errors import InvalidOption

VERSIONS: Final = {
    "TLSV1.2": ssl.TLSVersion.TLSv1_2,
    "TLSV1.3": ssl.TLSVersion.TLSv1_3,
}
WEAK: Final = ("SSLV2HELLO", "SSLV3", "TLSV1", "TLSV1.0", "TLSV1.1")

JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
PEM_MARK: Final = b"-----BEGIN"
WRONG_NAME: Final = (62, 63, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, _EMAIL_MISMATCH, _IP_ADDRESS_MISMATCH


class TlsOptions:
    """What a listener or a client is told about TLS. Paths are of PEM or PKCS#12 files."""

    def __init__(
        self,
        *,
        certificate: str = "",
        key: str = "",
        password: str = "",
        trust: str = "",
        trust_password: str = "",
        need_client: bool = False,
        want_client: bool = False,
        protocols: str = "",
        ciphers: str = "",
        verify_host: bool = True,
        trust_all: bool = False,
        reloads: bool = False,
    ) -> None:
        """``certificate`` may hold the key too. ``protocols`` and ``ciphers``: names with commas between them.

        ``reloads``: a listener looks whether the files change.
        """
        self.certificate = certificate
        self.key = key
        self.password = password
        self.trust = trust
        self.trust_password = trust_password
        self.need_client = need_client
        self.want_client = want_client
        self.protocols = protocols
        self.ciphers = ciphers
        self.verify_host = verify_host
        self.trust_all = trust_all
        self.reloads = reloads


def server_context(options: TlsOptions) -> ssl.SSLContext:
    """Return the context of a listener. Raises InvalidOption for what is missing, unreadable or unknown."""
    if not options.certificate:
        raise InvalidOption(
            "a TLS listener needs a certificate", remedy="add ?keyStorePath=FILE (PEM or PKCS#12) to its URI"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, options)
    _load_identity(context, options)
    context.sni_callback = NAMED.note
    if options.need_client or options.want_client:
        if not options.trust:
            raise InvalidOption(
                "client certificates are asked for and nobody is trusted", remedy="add trustStorePath=FILE"
            )
        context.verify_mode = ssl.CERT_REQUIRED if options.need_client else ssl.CERT_OPTIONAL
    if options.trust:
        _load_trust(context, options)
    return context


class Named:
    """What handshakes asked for: the name of a server, by the connection that asked (SNI)."""

    def __init__(self) -> None:
        self.names: WeakKeyDictionary[ssl.SSLObject | ssl.SSLSocket, str] = WeakKeyDictionary()

    def note(self, tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        """A handshake began; it goes on whatever was asked for."""
        if name:
            self.names[tls] = name


NAMED: Final = Named()


def asked_name(tls: ssl.SSLObject | None) -> str:
    """Return the name of the server that the peer asked for; "" without TLS, and where it asked for none."""
    return "" if tls is None else NAMED.names.get(tls, "")


def client_context(options: TlsOptions) -> ssl.SSLContext:
    """Return the context of a connection that we open; without ``trust`` the system's authorities count."""
    context = ssl.create_default_context() if not options.trust else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context, options)
    if options.trust:
        _load_trust(context, options)
    if options.certificate:
        _load_identity(context, options)
    if options.trust_all or not options.verify_host:
        context.check_hostname = False
    if options.trust_all:
        context.verify_mode = ssl.CERT_NONE
    return context


def trouble(error: OSError) -> str:
    """Return why a connection that we dialled did not open, and what to do where whom we dialled is not trusted."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return error.strerror or str(error) or "it took too long"
    remedy = "name the authority that signed it with trustStorePath=FILE"
    if error.verify_code in WRONG_NAME:
        remedy = "dial it by a name that is in its certificate"
    return f"its certificate is not trusted: {error.verify_message.rstrip('.')}; {remedy}"


def _restrict(context: ssl.SSLContext, options: TlsOptions) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if options.protocols:
        wanted = [_version(name) for name in options.protocols.split(",") if name.strip()]
        context.minimum_version = min(wanted)
        context.maximum_version = max(wanted)
    if options.ciphers:
        names = [name.strip() for name in options.ciphers.split(",") if name.strip()]
        older = [name for name in names if not name.startswith("TLS_AES_") and not name.startswith("TLS_CHACHA20_")]
        if older:  # the suites of TLS 1.3 cannot be chosen through this interface, and all of them are good
            try:
                context.set_ciphers(":".join(_openssl_name(name) for name in older))
            except ssl.SSLError:
                raise InvalidOption(
                    f"no cipher suite of {options.ciphers!r} is known", remedy="`openssl ciphers -stdname` lists them"
                ) from None


def _version(name: str) -> ssl.TLSVersion:
    text = name.strip().upper()
    if text in VERSIONS:
        return VERSIONS[text]
    if text in WEAK:
        raise InvalidOption(f"{name.strip()} is broken and not spoken", remedy="use TLSv1.2, TLSv1.3 or both")
    raise InvalidOption(f"there is no TLS version {name.strip()!r}", remedy="use TLSv1.2, TLSv1.3 or both")


def _openssl_name(name: str) -> str:
    """Return OpenSSL's name of a suite that Java calls ``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256``."""
    if not name.startswith(("TLS_", "SSL_")):
        return name
    exchange, _, rest = name[4:].partition("_WITH_")
    rest = rest.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC", "")
    if rest.startswith("CHACHA20_POLY1305"):
        rest = "CHACHA20_POLY1305"
    parts = rest if exchange == "RSA" else f"{exchange}_{rest}"
    return parts.replace("_", "-").replace("CHACHA20-POLY1305", "CHACHA20-POLY1305")


def _load_identity(context: ssl.SSLContext, options: TlsOptions) -> None:
    start = _first_octets(options.certificate, "certificate")
    if start.startswith(PEM_MARK) or PEM_MARK in start:
        _load_chain(context, options.certificate, options.key or None, options)
        return
    pem = _from_pkcs12(options.certificate, options.password, start)
    if pem[0] == b"":
        raise InvalidOption(f"{options.certificate} holds no private key", remedy="export it with its key")
    import tempfile  # noqa: PLC0415 - half a MB, with shutil and what it compresses with, for PKCS#12 alone

    # OpenSSL reads a chain from a file only: one that nobody else can read, for as long as that takes.
    descriptor, name = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem[0] + pem[1])
        _load_chain(context, name, None, options)
    finally:
        os.unlink(name)


def _load_chain(context: ssl.SSLContext, certificate: str, key: str | None, options: TlsOptions) -> None:
    try:
        context.load_cert_chain(certificate, key, lambda: options.password)
    except (ssl.SSLError, OSError) as error:
        raise InvalidOption(
            f"cannot use the certificate {options.certificate!r}: {error}",
            remedy="check the files, that they belong together, and the password",
        ) from None


def _load_trust(context: ssl.SSLContext, options: TlsOptions) -> None:
    start = _first_octets(options.trust, "trust store")
    try:
        if PEM_MARK in start:
            context.load_verify_locations(options.trust)
        else:
            pem = _from_pkcs12(options.trust, options.trust_password or options.password, start)
            context.load_verify_locations(cadata=pem[1].decode())
    except ssl.SSLError as error:
        raise InvalidOption(f"cannot use the trust store {options.trust!r}: {error}") from None


def _first_octets(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()[:65536]
    except OSError as error:
        raise InvalidOption(f"cannot read the {what} {path!r}: {error.strerror}") from None


def _from_pkcs12(path: str, password: str, start: bytes) -> tuple[bytes, bytes]:
    """Return key and certificates of a PKCS#12 file as PEM; b"" for a key that it does not hold."""
    if start[:4] in (JKS_MAGIC, JCEKS_MAGIC):
        raise InvalidOption(
            f"{path} is a Java key store of the old form (JKS)",
            remedy=f"keytool -importkeystore -srckeystore {path} -destkeystore new.p12 -deststoretype pkcs12",
        )
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - optional
        from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415
    except ImportError:
        raise InvalidOption(
            f"reading {path} (PKCS#12) takes the Python package 'cryptography', which is not installed",
            remedy=f"pip install 'entrepot[pkcs12]', or convert it: openssl pkcs12 -in {path} -nodes -out new.pem",
        ) from None
    try:
        store = pkcs12.load_pkcs12(Path(path).read_bytes(), password.encode() or None)
    except ValueError as error:
        raise InvalidOption(f"cannot read {path}: {error}", remedy="check the password; PEM works too") from None
    pem = serialization.Encoding.PEM
    key = b""
    if store.key is not None:
        key = store.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    found = ([store.cert] if store.cert is not None else []) + list(store.additional_certs)
    return key, b"".join(one.certificate.public_bytes(pem) for one in found)
