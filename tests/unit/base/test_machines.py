"""Which machine a peer is."""

from __future__ import annotations

import pytest

from entrepot.base.machines import is_one_machine, machine_of


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


@pytest.mark.parametrize(
    ("own", "peer", "beside"),
    [
        (("127.0.0.1", 61613), ("127.0.0.1", 50000), True),
        (("10.1.2.3", 61613), ("10.1.2.3", 50000), True),
        (("10.1.2.3", 61613), ("10.1.2.4", 50000), False),
        (("172.17.0.2", 61613), ("172.17.0.1", 50000), False),
        (("::1", 61613, 0, 0), ("::1", 50000, 0, 0), True),
        (("fe80::1", 61613, 0, 2), ("fe80::2", 50000, 0, 2), False),
        ("/run/entrepot.sock", "", True),
        ("", "/run/entrepot.sock", True),
        (("127.0.0.1", 61613), None, False),
        (None, None, False),
    ],
)
def test_ends_of_one_address_or_none_are_on_one_machine(own: object, peer: object, beside: bool) -> None:
    assert is_one_machine(own, peer) == beside
