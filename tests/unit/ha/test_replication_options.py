"""What an operator may ask of replication."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.ha.replication_options import ReplicationOptions


def test_options_that_cannot_be() -> None:
    with pytest.raises(InvalidOption):
        ReplicationOptions(confirm="sometimes")
    with pytest.raises(InvalidOption):
        ReplicationOptions(copies_min=0)


@pytest.mark.parametrize(
    ("certificate", "key", "trust"), [("a.pem", "", ""), ("", "", "b.pem"), ("", "a.key", ""), ("a.pem", "a.key", "")]
)
def test_tls_is_spoken_and_believed_by_both_or_not_at_all(certificate: str, key: str, trust: str) -> None:
    with pytest.raises(InvalidOption, match="needs a certificate to show and one to trust"):
        ReplicationOptions(certificate=certificate, key=key, trust=trust)


def test_tls_with_all_that_it_needs() -> None:
    assert ReplicationOptions(certificate="a.pem", key="a.key", trust="b.pem").verify_host
