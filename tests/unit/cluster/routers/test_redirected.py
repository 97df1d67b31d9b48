"""What a client is told that another broker serves, in its own language, and that it may have to wait for that."""

from __future__ import annotations

from entrepot.base.environment import MILLISECOND
from entrepot.core.guiding import HERE, LATER, REFUSED, THERE, UNREADY, Guidance, Guides, Visitor
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.packets import (
    CheckForFailover,
    CheckForFailoverReply,
    CreateSession,
    CreateSessionReply,
    Disconnect,
    ExceptionReply,
)
from unit.protocols.artemis.wired import Client, Hub


class Fixed(Guides):
    """Says what it was told to say."""

    def __init__(self, *verdicts: int) -> None:
        self.verdicts = list(verdicts)
        self.asked: list[tuple[str, Visitor]] = []
        self.now = 0

    def ask(self, name: str, visitor: Visitor) -> Guidance:
        self.asked.append((name, visitor))
        found = Guidance(self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0], "go away")
        found.node, found.host, found.port, found.options = "there", "h9", 61619, {"sslEnabled": "true"}
        found.again = self.now + 50 * MILLISECOND
        return found


def hub(*verdicts: int) -> tuple[Hub, Fixed]:
    options = CoreOptions()
    options.router = "r"
    made = Hub(options=options)
    guides = Fixed(*verdicts)
    guides.now = made.rig.now
    made.rig.broker.guides = guides
    return made, guides


def create(client: Client, **fields: object) -> None:
    given: dict[str, object] = {"name": "s", "session_channel": 10, "version": 136, "min_large": 102_400, "window": -1}
    client.say(CreateSession(**{**given, **fields}), 1)  # type: ignore[arg-type]


def test_a_client_of_core_is_sent_away() -> None:
    made, guides = hub(THERE)
    client = Client(made)
    create(client, user="ann", client_id="c1")
    (farewell,) = client.take(Disconnect)
    assert (farewell.reason, farewell.target_node) == (0, "there")
    assert farewell.target is not None
    assert [farewell.target.value(one) for one in ("host", "port", "sslEnabled")] == ["h9", "61619", "true"]
    (refusal,) = client.take(ExceptionReply)
    assert refusal.code == 222
    assert [(name, one.client_id, one.user) for name, one in guides.asked] == [("r", "c1", "ann")]
    assert not client.take(CreateSessionReply)


def test_an_old_client_cannot_be_sent_away() -> None:
    made, _ = hub(THERE)
    client = Client(made, version=130)
    create(client, version=130)
    assert client.take(ExceptionReply)[0].code == 108
    assert not client.take(Disconnect)


def test_who_is_refused_hears_why() -> None:
    for verdict, code in ((REFUSED, 119), (UNREADY, 222)):
        made, _ = hub(verdict)
        client = Client(made)
        create(client)
        (refusal,) = client.take(ExceptionReply)
        assert (refusal.code, refusal.text) == (code, "go away")


def test_the_router_is_asked_once_of_a_connection() -> None:
    made, guides = hub(HERE)
    client = Client(made)
    client.open(10)
    client.open(11)
    assert len(guides.asked) == 1


def test_a_client_waits_until_it_is_known_who_serves_it() -> None:
    made, guides = hub(LATER, LATER, HERE)
    client = Client(made)
    create(client)
    assert not client.take(CreateSessionReply)
    guides.now = made.rig.now + 100 * MILLISECOND
    made.rig.wait(60)
    made.turn()
    assert len(guides.asked) == 2
    assert guides.asked[0][1].since == guides.asked[1][1].since
    assert not client.take(CreateSessionReply)
    made.rig.wait(200)
    made.turn()
    assert client.take(CreateSessionReply)


def test_one_that_leaves_while_it_waits_is_forgotten() -> None:
    made, guides = hub(LATER)
    client = Client(made)
    create(client)
    client.cut()
    made.rig.wait(200)
    made.turn()
    assert len(guides.asked) == 1


def test_a_client_of_another_broker_may_go_on_here_unless_it_takes_over_others() -> None:
    made = Hub()
    client = Client(made)

    def stands(node: str | None) -> bool:
        return client.ask(CheckForFailover(node=node), CheckForFailoverReply, 1).ok

    own = made.acceptor.membership.node
    assert [stands(node) for node in (None, own, "another")] == [True, True, True]
    made.acceptor.membership.awaits = True
    assert [stands(node) for node in (None, own, "another")] == [True, True, False]
    made.acceptor.membership.taken_over["another"] = True
    assert stands("another")
