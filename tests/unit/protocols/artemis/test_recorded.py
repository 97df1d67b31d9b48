"""What Artemis' own client said to a real Artemis gets the same answers here."""

from __future__ import annotations

import pytest

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
