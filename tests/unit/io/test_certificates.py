"""The subjects of certificates as Java writes them; Java itself writes them in `tests/interop/test_certificates.py`."""

from __future__ import annotations

import pytest

from entrepot.io.certificates import certified, distinguished_name

Parts = tuple[tuple[tuple[str, str], ...], ...]


@pytest.mark.parametrize(
    ("subject", "written"),
    [
        ((), ""),
        (((("commonName", "client"),),), "CN=client"),
        (
            ((("countryName", "DE"),), (("organizationName", "Acme, Inc."),), (("commonName", "client"),)),
            'CN=client, O="Acme, Inc.", C=DE',
        ),
        (((("commonName", "a"), ("userId", "b")),), "CN=a + UID=b"),
        (((("commonName", ' say "x"'),),), 'CN=" say \\"x\\""'),
    ],
)
def test_the_last_part_comes_first(subject: Parts, written: str) -> None:
    assert distinguished_name({"subject": subject}) == written


def test_without_tls_there_is_no_certificate() -> None:
    assert certified(None) is None
