"""An authority, a server and a client, made on the spot."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PASSWORD = b"secret"


class Certificates:
    """``authority``, ``server`` and ``client`` are PEM files (the last two with their keys); ``store`` is PKCS#12."""

    def __init__(self, folder: Path) -> None:
        self.authority = folder / "authority.pem"
        self.server = folder / "server.pem"
        self.client = folder / "client.pem"
        self.store = folder / "server.p12"
        root_key = ec.generate_private_key(ec.SECP256R1())
        root = signed("authority", root_key, "authority", root_key, authority=True)
        self.authority.write_bytes(pem(root))
        for path in (self.server, self.client):
            key = ec.generate_private_key(ec.SECP256R1())
            certificate = signed(path.stem, key, "authority", root_key)
            path.write_bytes(private(key) + pem(certificate))
            if path is self.server:
                locked = serialization.BestAvailableEncryption(PASSWORD)
                self.store.write_bytes(pkcs12.serialize_key_and_certificates(b"s", key, certificate, [root], locked))


def signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    authority: bool = False,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    local = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(local, critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
