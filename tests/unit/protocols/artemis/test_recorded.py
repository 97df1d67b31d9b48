"""What Artemis' own client said to a real Artemis gets the same answers here."""

from __future__ import annotations

import pytest

from entrepot.core.security.access import CONSUME, EVERYTHING, Rule
from entrepot.core.security.directory import Directory, User
from entrepot.model.address import UNTYPED

from .recorded import Player, broker_of_recording, by_channel

SAME = (
    "send-receive",
    "message-types",
    "transacted",
    "xa",
    "durable-subscription",
    "browser",
    "request-reply",
    "large-message",
    "message-groups",
    "selector",
    "redelivery",
    "window-zero",
    "confirm-reattach",
    "reconnect",
)


@pytest.mark.parametrize("name", SAME)
def test_what_artemis_said_is_said_here(name: str) -> None:
    player = Player(name, broker_of_recording())
    player.play()
    assert player.said
    for connection, said in player.said.items():
        assert by_channel(said) == by_channel(player.expected[connection])
    for session in player.sessions.values():
        assert not session.refused
        assert not session.channels


def codes(said: list[str]) -> list[str]:
    """Return the code of each refusal, and of all else the name."""
    found = []
    for text in said:
        name, _, rest = text.partition(" ")
        found.append(rest.split()[0] if name == "ExceptionReply" else name)
    return found


def test_what_artemis_refuses_is_refused_here_with_the_same_code() -> None:
    rig = broker_of_recording()
    rig.policies.add("#", {"auto_create": "false"})
    for address in ("twice", "single"):
        rig.broker.table.address(address).created_by_operator = True
    rules = [Rule("#", UNTYPED, {"r": EVERYTHING}), Rule("denied.#", UNTYPED, {"r": CONSUME})]
    rig.broker.access.protect(Directory([User("u", "plain:p", ["r"])]), rules, narrowest=True)
    player = Player("errors", rig)
    player.play()
    ours, theirs = by_channel(player.said[1])["10"], by_channel(player.expected[1])["10"]
    different = [(one, other) for one, other in zip(codes(ours), codes(theirs), strict=True) if one != other]
    assert different == [
        ("NullReply", "code=0"),  # a queue of another routing type than its address was made for
    ]
    for channel in ("1", "11", "12"):
        assert codes(by_channel(player.said[1])[channel]) == codes(by_channel(player.expected[1])[channel])
    assert codes(by_channel(player.said[0])["1"]) == ["code=105"]
