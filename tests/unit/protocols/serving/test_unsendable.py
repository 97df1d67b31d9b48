"""Messages without a form in the protocol of their consumer: dead letters with that reason."""

from __future__ import annotations

from entrepot.protocols.serving.unsendable import Unsendables
from kit import Rig


def test_each_becomes_a_dead_letter_with_its_reason() -> None:
    rig = Rig()
    reader = rig.reader("queue://Q")
    rig.send_all("queue://Q", ["a", "b", "c"])
    unsendable = Unsendables()
    for delivery in reader.open[:2]:
        unsendable.add(delivery.consumer, delivery.number, f"{delivery.body} has no form")
    unsendable.bury()
    rig.turn()
    dead = rig.reader("queue://ActiveMQ.DLQ")
    causes = [one.annotations["dlqDeliveryFailureCause"] for one in dead.deliveries]
    assert dead.bodies == ["a", "b"]
    assert all(f"{body} has no form" in cause for body, cause in zip(dead.bodies, causes, strict=True))


def test_a_consumer_that_has_gone_meanwhile_has_given_it_back() -> None:
    rig = Rig()
    reader = rig.reader("queue://Q")
    rig.send("queue://Q", "a")
    (delivery,) = reader.open
    unsendable = Unsendables()
    unsendable.add(delivery.consumer, delivery.number, "it has no form")
    reader.close()
    unsendable.bury()
    rig.turn()
    assert rig.reader("queue://Q").bodies == ["a"]
