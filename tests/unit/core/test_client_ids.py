"""A client id belongs to one connection at a time."""

from __future__ import annotations

from entrepot.core.client_ids import ClientIds
from entrepot.core.ports import ClientHolder


class Holder(ClientHolder):
    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self.lost_to: list[str] = []

    def give_way(self, peer: str) -> None:
        self.lost_to.append(peer)


def test_the_second_is_refused_until_the_first_has_gone() -> None:
    ids, first, second = ClientIds(), Holder("a"), Holder("b")
    assert ids.claim("me", first, False)
    assert not ids.claim("me", second, False)
    assert first.lost_to == []
    ids.disclaim("me", first)
    assert ids.claim("me", second, False)


def test_who_steals_it_keeps_it_when_the_first_ends() -> None:
    ids, first, second = ClientIds(), Holder("a"), Holder("b")
    ids.claim("me", first, False)
    assert ids.claim("me", second, True)
    assert first.lost_to == ["b"]
    ids.disclaim("me", first)
    assert ids.held == {"me": second}


def test_no_client_id_is_nobodys() -> None:
    ids = ClientIds()
    assert ids.claim("", Holder("a"), False)
    assert ids.claim("", Holder("b"), False)
    assert ids.held == {}
