"""What mechanisms of SASL say, and what cannot be read (RFC 4616)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable

import pytest

from entrepot.base.errors import AccessDenied
from entrepot.base.scram import keys_of
from entrepot.protocols.sasl import RESPONSE_OCTETS_MAX, Proof, Prover, credentials_of, initial_response


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [("ANONYMOUS", (None, None, False)), ("EXTERNAL", (None, None, True)), ("PLAIN", ("ännchen", "ge heim", False))],
)
def test_the_broker_reads_what_a_client_says_first(mechanism: str, expected: tuple[object, ...]) -> None:
    found = credentials_of(mechanism, initial_response(mechanism, "ännchen", "ge heim"))
    assert (found.name, found.password, found.external) == expected


def test_a_client_may_name_itself_and_nobody_else() -> None:
    assert credentials_of("PLAIN", b"ann\0ann\0x").name == "ann"
    with pytest.raises(AccessDenied, match="somebody else"):
        credentials_of("PLAIN", b"root\0ann\0x")


@pytest.mark.parametrize("response", [b"", b"ann", b"\0ann", b"\0ann\0x\0", b"\0\xff\0x"])
def test_what_is_not_plain_is_refused(response: bytes) -> None:
    with pytest.raises(AccessDenied, match="PLAIN"):
        credentials_of("PLAIN", response)


def test_a_response_has_a_bound_and_a_mechanism_a_name() -> None:
    assert credentials_of("PLAIN", b"\0a\0" + b"x" * (RESPONSE_OCTETS_MAX - 3)).name == "a"
    with pytest.raises(AccessDenied, match="octets"):
        credentials_of("PLAIN", b"\0a\0" + b"x" * (RESPONSE_OCTETS_MAX - 2))
    for ask in (lambda: credentials_of("GSSAPI", b""), lambda: initial_response("GSSAPI", "a", "b")):
        with pytest.raises(AccessDenied, match="GSSAPI"):
            ask()


# -- SCRAM -------------------------------------------------------------------------------------------------------------

NONCE = b64decode("NDFhYjkwM2I0YmE5")


def test_the_example_of_the_standard() -> None:
    """RFC 7677, chapter 3, but for the nonce of the server, which is not base64 of octets there."""
    first = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    prover = Prover("SHA-256", first, NONCE)
    prover.nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    keys = keys_of("SHA-256", "pencil", b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
    assert prover.challenge(keys) == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert prover.answer(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("digest", ["SHA-256", "SHA-512"])
def test_both_sides_prove_that_they_know_the_password(digest: str) -> None:
    client = Proof(digest, "änn=a,b", "ge heim", NONCE)
    server = Prover(digest, client.first(), NONCE)
    assert server.name == "änn=a,b"
    client.check(server.answer(client.answer(server.challenge(keys_of(digest, "ge heim", b"salt", 5)))))
    other = Prover(digest, client.first(), NONCE)
    with pytest.raises(AccessDenied, match="invalid"):
        other.answer(client.answer(other.challenge(keys_of(digest, "geheim", b"salt", 5))))
    with pytest.raises(AccessDenied, match="did not prove"):
        client.check(b"v=AAAA")


@pytest.mark.parametrize(
    "first",
    [
        b"", b"n,,", b"p=tls-unique,,n=a,r=b", b"n,a=root,n=a,r=b", b"n,,n=,r=b", b"n,,n=a", b"n,,r=b,n=a",
        b"n,,n=a=b,r=c", b"n,,m=x,n=a,r=b", b"\xff", b"n,,n=a,r=" + b"x" * RESPONSE_OCTETS_MAX,
    ],
)  # fmt: skip
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    with pytest.raises(AccessDenied):
        Prover("SHA-256", first, NONCE)


@pytest.mark.parametrize(
    "change",
    [
        lambda said: b"", lambda said: said.replace(b"biws", b"eSws"), lambda said: said.replace(b"r=", b"r=x"),
        lambda said: said[:-4], lambda said: said + b"AAAA", lambda said: said.partition(b",p=")[0], lambda _: b"\xff",
    ],
)  # fmt: skip
def test_a_proof_of_something_else_is_refused(change: Callable[[bytes], bytes]) -> None:
    client = Proof("SHA-256", "ann", "secret", NONCE)
    server = Prover("SHA-256", client.first(), NONCE)
    good = client.answer(server.challenge(keys_of("SHA-256", "secret", b"salt", 5)))
    with pytest.raises(AccessDenied):
        server.answer(change(good))


@pytest.mark.parametrize(
    "challenge",
    [b"", b"r=other,s=AAAA,i=5", b"r=NDFh,s=AAAA,i=5", b"R,s=AAAA,i=0", b"R,s=AAAA,i=9999999", b"R,s=!,i=5", b"R,i=5"],
)
def test_a_challenge_that_is_none_is_refused(challenge: bytes) -> None:
    client = Proof("SHA-256", "ann", "secret", NONCE)
    with pytest.raises(AccessDenied):
        client.answer(challenge.replace(b"R", b"r=" + client.nonce.encode() + b"more", 1))
