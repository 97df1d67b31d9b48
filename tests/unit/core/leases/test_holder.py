"""Who holds something by lease, in words."""

from __future__ import annotations

from entrepot.core.leases.holder import release_of, said_of, silence
from entrepot.model.address import parse_one
from kit import Rig


def test_it_is_said_who_holds_what_since_when_and_when_he_was_heard_of_last() -> None:
    rig = Rig()
    for number in range(5):
        rig.send("Q", str(number))
    lease = rig.broker.leases.need(parse_one("Q"), "spark", create=True)
    lease.claim(rig.journal, lease.attach(rig.journal, None), 0, 3)
    rig.wait(7_000)
    assert silence(lease, rig.broker) == 7_000_000_000
    said = said_of(lease, rig.broker)
    assert "'spark' holds the range 0 to 3 by lease, for 7 s" in said
    assert "last heard of 7 s ago" in said
    assert release_of(lease) == "entrepot lease release Q spark"
    lease.read(rig.journal, lease.epoch, 0, 3)
    assert silence(lease, rig.broker) == 0
