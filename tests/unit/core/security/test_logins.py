"""Who waits while passwords are looked at: who guesses, and nobody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.base.errors import AccessDenied, UserUnknown
from entrepot.core.security.access import Access
from entrepot.core.security.directory import Directory, User
from entrepot.core.security.logins import DEBTS_MAX, GUESSES_A_SECOND, WAITING_MAX, Hasher, Knock, Logins
from entrepot.core.security.passwords import Kept, hashed
from kit import Rig, knock

HASHED = hashed("secret", b"0123456789abcdef")


class Thread(Hasher):
    """Looks at one when it is told to; ``looked`` are all of them."""

    def __init__(self) -> None:
        self.under_way: list[tuple[Kept, str, Callable[[bool], None]]] = []
        self.looked: list[str] = []

    def look(self, kept: Kept, password: str, done: Callable[[bool], None]) -> None:
        assert not self.under_way, "one at a time"
        self.under_way.append((kept, password, done))

    def go_on(self) -> None:
        _, password, done = self.under_way.pop()
        self.looked.append(password)
        done(password == "secret")


class House:
    """A broker with a user whose password is hashed."""

    def __init__(self) -> None:
        self.rig = Rig(disk=False)
        users = [User("app", HASHED, ["shop"]), User("other", HASHED), User("plain", "plain:word")]
        self.access: Access = self.rig.broker.access
        self.access.protect(Directory(users))
        assert self.access.logins is not None
        self.logins: Logins = self.access.logins
        self.thread = self.logins.hasher = Thread()

    def guess(self, name: str = "app", peer: str = "198.51.100.7:5", password: str = "guess") -> Knock:
        return knock(self.access, name, password, None, peer)

    def work(self, most: int = 1000) -> int:
        """Let the thread look at what it is given, without a moment passing; return how many those were."""
        count = 0
        while self.thread.under_way and count < most:
            self.thread.go_on()
            count += 1
        return count


def test_who_knows_his_password_is_looked_at_before_those_who_guess() -> None:
    house = House()
    for peer in range(30):
        for _ in range(3):
            house.guess(peer=f"198.51.100.{peer}:1")
    house.work(60)
    right = house.guess(password="secret", peer="192.0.2.9:77")
    assert not right.answered
    house.rig.wait(1000)
    house.work(2)  # what was under way, and he
    assert right.subject().name == "app"


def test_he_need_not_wait_at_all_once_he_was_in() -> None:
    house = House()
    house.guess(password="secret")
    house.work()
    for peer in range(30):
        house.guess(peer=f"198.51.100.{peer}:1")
    assert house.guess(password="secret", peer="192.0.2.9:77").subject().name == "app"
    assert house.guess("plain", password="word").subject().name == "plain"


def test_guesses_are_looked_at_ten_times_a_second_and_others_at_once() -> None:
    house = House()
    for _ in range(5):
        for peer in range(30):
            house.guess(peer=f"198.51.100.{peer}:1")
    assert house.work() == 30 + GUESSES_A_SECOND  # the first of each is none yet
    assert house.guess("other", password="secret", peer="192.0.2.9:1").answered is False
    assert house.work() == 1
    house.rig.wait(1000)
    assert house.work() == GUESSES_A_SECOND


def test_guesses_at_one_name_do_not_slow_down_another_from_the_same_address() -> None:
    """Many come over one balancer, and are one address."""
    house = House()
    for _ in range(GUESSES_A_SECOND + 1):
        house.guess()
    house.work()
    right = house.guess("other", password="secret")
    house.work()
    assert right.subject().name == "other"


def test_a_connection_that_goes_is_not_looked_at() -> None:
    house = House()
    first, second = house.guess(), house.guess(password="secret", peer="192.0.2.9:1")
    second.gone = True
    house.work()
    assert first.answered
    assert not second.answered
    assert house.thread.looked == ["guess"]
    assert house.logins.waiting == []


def test_what_was_learned_meanwhile_needs_no_look() -> None:
    """A broker starts, and a hundred connections of one program come at once."""
    house = House()
    knocks = [house.guess(password="secret", peer=f"192.0.2.9:{port}") for port in range(100)]
    assert house.work() == 1
    assert [each.subject().name for each in knocks] == ["app"] * 100


def test_one_address_does_not_fill_the_room() -> None:
    house = House()
    for _ in range(100):
        house.guess()
        house.work()
    for _ in range(WAITING_MAX + 1):
        last = house.guess()
    with pytest.raises(AccessDenied, match="too many wrong passwords came from this address"):
        last.subject()
    assert len(house.logins.waiting) <= WAITING_MAX
    assert not house.guess(peer="192.0.2.9:1").answered


def test_debts_are_forgotten_and_bounded() -> None:
    house = House()
    for number in range(DEBTS_MAX):
        house.guess(f"name-{number}", peer=f"10.{number >> 8}.{number & 255}.1:1")
        house.work()
        assert len(house.logins._debts) <= DEBTS_MAX
    for _ in range(3):
        house.guess()
        house.work()
    house.rig.wait(301_000)
    assert house.logins._debt(house.guess(), "app") == 0.0


def test_a_wrong_password_is_told_as_before() -> None:
    house = House()
    wrong = house.guess("nobody")
    house.work()
    with pytest.raises(UserUnknown, match=r"User name \[nobody\] or password is invalid\."):
        wrong.subject()
