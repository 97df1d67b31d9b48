"""SASL: what mechanisms say, apart from the protocol that carries it (RFC 4422, 4505, 4616, 5802, 7677). [C]

`credentials_of` says under which name and password a client wants in that says so at once; whether it may, the broker
decides. `Prover` is the server's side of SCRAM, by keys that the broker has of a name. The client's side is
`initial_response`, and `Proof`, by which each side shows the other that it knows the password.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Final

from entrepot.base.errors import AccessDenied
from entrepot.base.scram import Keys, hashed, mac, prepared, salted, same

ANONYMOUS: Final = "ANONYMOUS"
PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"
SCRAM: Final = {"SCRAM-SHA-256": "SHA-256", "SCRAM-SHA-512": "SHA-512"}
RESPONSE_OCTETS_MAX: Final = 64 * 1024
NONCE_OCTETS: Final = 18
ROUNDS_MAX: Final = 1_000_000  # half a second, which a server may ask of a client


class Credentials:
    """Who wants in. None: he did not say. ``external``: who he is, his certificate says."""

    def __init__(self, name: str | None, password: str | None, external: bool = False) -> None:
        self.name: str | None = name
        self.password: str | None = password
        self.external: bool = external


def credentials_of(mechanism: str, response: bytes) -> Credentials:
    """Return what ``response`` says in ``mechanism``. Raises AccessDenied for what cannot be read."""
    if len(response) > RESPONSE_OCTETS_MAX:
        raise AccessDenied(f"a response of SASL has more than {RESPONSE_OCTETS_MAX} octets")
    if mechanism == ANONYMOUS:
        return Credentials(None, None)
    if mechanism == EXTERNAL:
        return Credentials(None, None, True)
    if mechanism == PLAIN:
        return _plain(response)
    raise AccessDenied(f"the mechanism {mechanism[:40]!r} of SASL is not offered here")


def _plain(response: bytes) -> Credentials:
    """Read ``[authzid] NUL name NUL password``. To act for somebody else is not known here."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise AccessDenied("a response of PLAIN has not two NUL in it")
    try:
        acts_for, name, password = (part.decode() for part in parts)
    except UnicodeDecodeError:
        raise AccessDenied("a response of PLAIN is no UTF-8") from None
    if acts_for not in ("", name):
        raise AccessDenied("a client may not act for somebody else", remedy="leave the authorization identity empty")
    return Credentials(name, password)


def initial_response(mechanism: str, name: str, password: str) -> bytes:
    """Return what a client says first. Raises AccessDenied for a mechanism that is not known."""
    if mechanism == ANONYMOUS:
        return b"anonymous"
    if mechanism == EXTERNAL:
        return b""
    if mechanism == PLAIN:
        return b"\0" + name.encode() + b"\0" + password.encode()
    raise AccessDenied(f"the mechanism {mechanism!r} of SASL is not known")


# -- SCRAM: n,,n=NAME,r=NONCE -> r=NONCES,s=SALT,i=ROUNDS -> c=biws,r=NONCES,p=PROOF -> v=SIGNATURE --------------------


class Prover:
    """The server's side of one exchange. ``name``: who wants in."""

    def __init__(self, digest: str, first: bytes, nonce: bytes) -> None:
        """``first``: what the client said; ``nonce``: octets of chance. Raises AccessDenied."""
        if len(first) > RESPONSE_OCTETS_MAX:
            raise AccessDenied(f"a response of SASL has more than {RESPONSE_OCTETS_MAX} octets")
        parts = _text(first).split(",", 2)
        if len(parts) != 3 or parts[0] not in ("n", "y"):
            raise AccessDenied("a client wants SCRAM bound to its channel, or says nothing", remedy="use no -PLUS")
        self._head: str = f"{parts[0]},{parts[1]},"
        self._bare: str = parts[2]
        said = _attributes(parts[2], "n", "r")
        self.digest: str = digest
        self.name: str = _name(said[0])
        acts_for = parts[1]
        if acts_for and (not acts_for.startswith("a=") or _name(acts_for[2:]) != self.name):
            raise AccessDenied(
                "a client may not act for somebody else", remedy="leave the authorization identity empty"
            )
        self.nonce: str = said[1] + b64encode(nonce).decode()
        self._asked: str = ""
        self._keys: Keys | None = None

    def challenge(self, keys: Keys) -> bytes:
        """Return what to ask: for a proof by ``keys``."""
        self._keys = keys
        self._asked = f"r={self.nonce},s={b64encode(keys.salt).decode()},i={keys.rounds}"
        return self._asked.encode()

    def answer(self, final: bytes) -> bytes:
        """Return the proof that the broker knows him too. Raises AccessDenied where ``final`` is no proof of his."""
        keys = self._keys
        assert keys is not None
        if len(final) > RESPONSE_OCTETS_MAX:
            raise AccessDenied(f"a response of SASL has more than {RESPONSE_OCTETS_MAX} octets")
        without, _, last = _text(final).rpartition(",")
        said = _attributes(without, "c", "r")
        (proof,) = _attributes(last, "p")
        if _octets(said[0]) != self._head.encode() or said[1] != self.nonce:
            raise AccessDenied("a proof of SCRAM is of another exchange")
        text = f"{self._bare},{self._asked},{without}".encode()
        signature = mac(self.digest, keys.stored, text)
        shown = _octets(proof)
        if len(shown) != len(signature):
            raise AccessDenied("a proof of SCRAM has another length")
        client_key = bytes([one ^ other for one, other in zip(shown, signature, strict=True)])
        if not same(hashed(self.digest, client_key), keys.stored):
            raise AccessDenied("User name or password is invalid.")
        return b"v=" + b64encode(mac(self.digest, keys.server, text))


class Proof:
    """The client's side of one exchange."""

    def __init__(self, digest: str, name: str, password: str, nonce: bytes) -> None:
        """``nonce``: octets of chance."""
        self.digest: str = digest
        self.password: str = password
        self.nonce: str = b64encode(nonce).decode()
        written = prepared(name).replace("=", "=3D").replace(",", "=2C")
        self._bare: str = f"n={written},r={self.nonce}"
        self._signature: bytes = b""

    def first(self) -> bytes:
        """Return what is said first."""
        return f"n,,{self._bare}".encode()

    def answer(self, challenge: bytes) -> bytes:
        """Return the proof. Raises AccessDenied for a challenge that is none. Takes some ms."""
        asked = _text(challenge)
        said = _attributes(asked, "r", "s", "i")
        if not said[0].startswith(self.nonce) or len(said[0]) == len(self.nonce):
            raise AccessDenied("a challenge of SCRAM is not to what was said")
        if not said[2].isdecimal() or not 1 <= len(said[2]) <= 7 or not 1 <= int(said[2]) <= ROUNDS_MAX:
            raise AccessDenied(f"a challenge of SCRAM asks for other than 1 to {ROUNDS_MAX} rounds")
        key = salted(self.digest, self.password, _octets(said[1]), int(said[2]))
        without = f"c=biws,r={said[0]}"
        text = f"{self._bare},{asked},{without}".encode()
        client_key = mac(self.digest, key, b"Client Key")
        signature = mac(self.digest, hashed(self.digest, client_key), text)
        proof = bytes([one ^ other for one, other in zip(client_key, signature, strict=True)])
        self._signature = mac(self.digest, mac(self.digest, key, b"Server Key"), text)
        return f"{without},p={b64encode(proof).decode()}".encode()

    def check(self, final: bytes) -> None:
        """Raise AccessDenied unless ``final`` shows that the server knows the password too."""
        (said,) = _attributes(_text(final), "v")
        if not self._signature or not same(_octets(said), self._signature):
            raise AccessDenied("the server did not prove that it knows the password")


def _text(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise AccessDenied("a message of SCRAM is no UTF-8") from None


def _attributes(text: str, *names: str) -> list[str]:
    """Return the values of the attributes ``names``, which come first and in this order. Others may follow."""
    parts = text.split(",")
    found: list[str] = []
    for at, name in enumerate(names):
        if at >= len(parts) or not parts[at].startswith(name + "=") or len(parts[at]) == 2:
            raise AccessDenied(f"a message of SCRAM has no {name}= where it belongs")
        found.append(parts[at][2:])
    return found


def _name(written: str) -> str:
    """Return a name, in which ``=2C`` is a comma and ``=3D`` an equals sign."""
    plain = written.replace("=2C", "").replace("=3D", "")
    if "=" in plain:
        raise AccessDenied("a name of SCRAM has an = that is not written =3D")
    return written.replace("=2C", ",").replace("=3D", "=")


def _octets(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise AccessDenied("a message of SCRAM has something that is no base64") from None
