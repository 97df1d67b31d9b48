"""Chance: readers come and go, links are cut, brokers fall, and in the end every message is there once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.cluster.federation.arrival import Arrivals
from entrepot.cluster.federation.options import AddressPolicy, QueuePolicy
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.simulation.world import Lots

from .federated import ANYCAST, MULTICAST, Pair, made, send

SEEDS = 40
STEPS = 30


class World:
    """One seed of two brokers: a queue of both, or an address of one to which the other has a durable queue."""

    def __init__(self, seed: int) -> None:
        self.lots = Lots(f"{seed}/federated")
        self.topic = self.lots.chance(0.5)
        self.pair = Pair(
            queues=() if self.topic else (QueuePolicy(name="P"),),
            addresses=(AddressPolicy(name="A", auto_delete=False),) if self.topic else (),
            start=False,
        )
        near = self.pair.near.broker
        if self.topic:
            near.queues.create(QueueDefinition(name="S", address="A", routing=MULTICAST))
        else:
            made(self.pair.far, "Q")
            made(self.pair.near, "Q")
        self.pair.near.turn()
        self.pair.far.turn()
        self.pair.start()
        self.settle(2_000)
        self.sent: list[str] = []

    def settle(self, ms: int) -> None:
        self.pair.reachable = True
        self.pair.pass_ms(ms)

    def send(self) -> None:
        for _ in range(self.lots.between(1, 5)):
            self.sent.append(f"{len(self.sent)}")
            where, routing = ("A", MULTICAST) if self.topic else ("Q", ANYCAST)
            send(self.pair.far, where, self.sent[-1], routing=routing)
        self.pair.far.turn()

    def read(self) -> None:
        """Somebody comes and takes nothing, or goes."""
        near = self.pair.near
        if near.readers and self.lots.chance(0.4):
            near.readers.pop().close()
        else:
            near.reader("A::S" if self.topic else "Q", prefetch=1, routing=MULTICAST if self.topic else ANYCAST)

    def cut(self) -> None:
        self.pair.reachable = self.lots.chance(0.7)
        self.pair.cut()

    def fall(self) -> None:
        rig = self.pair.near if self.lots.chance(0.6) else self.pair.far
        self.pair.fell(rig, self.lots.one_of(("kill", "crash")))

    def run(self) -> list[str]:
        """Return what is wrong in the end."""
        pair = self.pair
        acts: list[Callable[[], object]] = [self.send, self.send, self.read, pair.flow, pair.flow, pair.flow, pair.step]
        acts += [pair.run, lambda: pair.pass_ms(500), pair.mute, self.cut, self.fall]
        for _ in range(STEPS):
            self.lots.one_of(acts)()
        pair.cut()
        if not pair.near.readers:
            self.read()
        self.settle(5_000)
        self.settle(60_000)
        for reader in list(pair.near.readers):
            reader.close()
        pair.run()
        pair.connector.leave(pair.near.now)
        pair.run()
        left = pair.far.broker.table.queues.get("federated.F.U.A.MULTICAST" if self.topic else "Q")
        came = [str(one.message.common().body) for one in pair.near.drain("A::S" if self.topic else "Q")]
        assert left is not None
        wrong = [f"lost {one}" for one in self.sent if one not in came]
        wrong += [f"{one} came twice" for one in dict.fromkeys(came) if came.count(one) > 1]
        return wrong + ([f"{left.count} are left there"] if left.count else [])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_message_is_there_once(seed: int) -> None:
    assert World(seed).run() == []


def found(patch: pytest.MonkeyPatch, name: str, bug: Callable[..., object], wanted: str) -> None:
    patch.setattr(Arrivals, name, bug)
    for seed in range(SEEDS):
        if any(wanted in one for one in World(seed).run()):
            return
    raise AssertionError(f"{SEEDS} seeds did not find it")


def test_a_planted_bug_that_does_not_wait_for_the_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def confirm(self: Arrivals, number: int, octets: int, *, durable: bool) -> None:
        self.settled(number, octets)

    found(monkeypatch, "confirm", confirm, "lost")


def test_a_planted_bug_that_knows_nothing_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def identity(self: Arrivals, number: int, message: object, body: bytes) -> bytes:
        return self.broker.entropy.token(16)

    found(monkeypatch, "_identity", identity, "twice")
