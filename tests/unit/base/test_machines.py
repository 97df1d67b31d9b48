"""Which machine a peer is."""

from __future__ import annotations

import pytest

from entrepot.base.machines import machine_of


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("192.0.2.1:61613", "192.0.2.1"),
        ("[2001:db8:1:2:3::4]:61613", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:3::4:61613", "2001:db8:1:2::/64"),
        ("[::ffff:192.0.2.1]:5", "192.0.2.1"),
        ("/run/broker.sock", "/run/broker.sock"),
        ("unix", "unix"),
        ("", ""),
    ],
)
def test_an_address_is_a_machine(peer: str, address: str) -> None:
    assert machine_of(peer) == address
