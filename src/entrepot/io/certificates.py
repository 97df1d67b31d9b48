"""Whose certificate a peer showed: its subject as Java writes it, which is how files of users name it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

KEYWORDS: Final[Mapping[str, str]] = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "title": "T",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "generationQualifier": "GENERATION",
    "dnQualifier": "DNQ",
    "surname": "SURNAME",
    "serialNumber": "SERIALNUMBER",
    "userId": "UID",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
}
"""What OpenSSL calls a part of a name -> what ``X500Name.getName`` does."""

QUOTED: Final = frozenset(',+=\n<>#;\\"')  # a value with one of these stands in quotes


def certified(tls: ssl.SSLObject | None) -> str | None:
    """Return the subject of the peer's certificate, "" where it showed none; None without TLS.

    Only a certificate that an authority of the trust store vouches for counts: others end the handshake.
    """
    if tls is None:
        return None
    certificate = tls.getpeercert()
    return distinguished_name(certificate) if certificate else ""


def distinguished_name(certificate: Mapping[str, Any]) -> str:
    """Return the subject as Java writes it: ``CN=client, O=Acme, C=DE``, the last part of the certificate first."""
    parts = [
        " + ".join(f"{KEYWORDS.get(name, name)}={_value(str(value))}" for name, value in each)
        for each in certificate.get("subject", ())
    ]
    return ", ".join(reversed(parts))


def _value(text: str) -> str:
    plain = not QUOTED.intersection(text) and text == text.strip() and "  " not in text
    if plain:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
