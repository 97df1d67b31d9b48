"""Which nodes get a backup hosted here, and that nobody gets two."""

from __future__ import annotations

from entrepot.base.environment import SECOND
from entrepot.cluster.clusters.copied import Copy, read_copy
from entrepot.cluster.clusters.hosted import PATH_MAX, REFUSED_FOR, REFUSED_MAX, WAITING_MAX, Backups, Hosted
from entrepot.protocols.artemis.membership import Onlooker
from entrepot.protocols.artemis.packets import BackupRequest


class Asking(Onlooker):
    """A node that asks."""

    def __init__(self) -> None:
        self.answers: list[bool] = []

    def called(self) -> str:
        return "10.0.0.9:4711"

    def hosted(self, started: bool) -> None:
        self.answers.append(started)


class House:
    """Backups whose keeper only notes what it is to start."""

    def __init__(self, most: int = 2, closed: str = "", *, copies: bool = False) -> None:
        self.now = 0
        self.said: list[str] = []
        self.begun: list[Hosted] = []
        self.backups = Backups(most, self, lambda: self.now, self.said.append, closed, copies=copies)

    def start(self, hosted: Hosted) -> None:
        self.begun.append(hosted)

    def ask(self, directory: str | None, asking: Asking | None = None) -> list[bool]:
        asking = asking or Asking()
        self.backups.asked(asking, BackupRequest(journal_dir=directory, node="n1"))
        return asking.answers


def test_an_answer_comes_when_the_backup_runs_and_a_repetition_starts_none() -> None:
    house = House()
    first = house.ask("/a")
    again = house.ask("/a")
    assert (first, again, len(house.begun)) == ([], [], 1)
    house.backups.started(house.begun[0])
    assert (first, again) == ([True], [True])
    assert house.ask("/a") == [True]
    assert len(house.begun) == 1
    assert house.said == ["hosts backup 1, of the store in /a of the node n1"]


def test_no_more_than_max_backups_and_a_place_that_is_free_again_keeps_its_number() -> None:
    house = House(most=2)
    house.ask("/a")
    house.ask("/b")
    assert house.ask("/c") == [False], "one that still starts counts"
    assert [one.number for one in house.begun] == [1, 2]
    house.backups.started(house.begun[0])
    house.backups.ended(house.begun[0], "it ended", refused=False)
    house.ask("/c")
    assert [one.number for one in house.begun] == [1, 2, 1]
    house.backups.ended(house.begun[0], "once more", refused=False)
    assert list(house.backups.hosted) == ["/b", "/c"], "what ended long ago ends nothing else"


def test_a_store_that_was_refused_is_not_looked_at_again_at_once() -> None:
    house = House()
    first = house.ask("/a")
    house.backups.ended(house.begun[0], "nobody is master of that store", refused=True)
    assert first == [False]
    for _ in range(100):
        assert house.ask("/a") == [False]
    assert len(house.begun) == 1
    assert len(house.said) == 2, "each reason is said once, however often it is asked"
    house.now += REFUSED_FOR
    assert house.ask("/a") == []
    assert len(house.begun) == 2


def test_what_is_no_store_costs_no_place() -> None:
    house = House()
    for directory in (None, "", "relative/path", "/a\0b", "/" + "x" * PATH_MAX):
        assert house.ask(directory) == [False]
    assert house.begun == []
    assert house.backups.hosted == {}


def test_where_everybody_knows_the_password_nobody_gets_one() -> None:
    house = House(closed="cluster-password is the default")
    assert house.ask("/a") == [False]
    assert house.said == ["10.0.0.9 gets no backup here: cluster-password is the default"]
    assert House(most=0).ask("/a") == [False]


def test_who_asks_on_and_on_fills_no_memory() -> None:
    house = House(most=1)
    asking = Asking()
    for _ in range(WAITING_MAX + 5):
        house.ask("/a", asking)
    assert len(house.begun[0].waiting) == WAITING_MAX
    assert asking.answers == [False] * 5
    for number in range(3 * REFUSED_MAX):
        house.now += SECOND // 100
        house.backups.ended(house.begun[-1], "no", refused=True)
        house.ask(f"/{number}")
    assert len(house.backups._refused) <= REFUSED_MAX
    assert len(house.said) <= REFUSED_MAX


def a_copy(store: str = "a", owner: str = "node-a", place: str = "10.0.0.1:61620") -> str:
    return Copy(store * 32, owner, place).text()


def test_a_copy_is_hosted_for_a_store_that_is_named_once() -> None:
    house = House(copies=True)
    answers = house.ask(a_copy())
    house.backups.started(house.begun[0])
    assert (answers, house.ask(a_copy())) == ([True], [True])
    assert house.said == ["hosts backup 1, of a copy of the store of node-a of the node n1"]
    assert house.ask(a_copy(place="10.0.0.7:61620")) == [False], "two would have one directory"
    assert "Start this node anew" in house.said[-1]
    house.ask(a_copy("b", "node-b"))
    assert [one.number for one in house.begun] == [1, 2]
    assert house.ask(a_copy("c", "node-c")) == [False]
    assert house.backups.facts()[0]["of"] == "node-a"


def test_what_was_hosted_goes_on_under_its_number_and_no_more_than_max_backups_do() -> None:
    house = House(most=2, copies=True)
    house.backups.remember(a_copy("b"), "n1", 2)
    house.backups.remember(a_copy("a"), "n2", 2)
    house.backups.remember(a_copy("c"), "n3", 1)
    assert [(one.node, one.number) for one in house.begun] == [("n1", 2), ("n2", 1)]
    assert house.ask(a_copy("b")) == [], "it is answered when it runs"


def test_who_asks_for_the_other_kind_is_told_so() -> None:
    shared, copied = House(), House(copies=True)
    assert shared.ask(a_copy()) == copied.ask("/a") == copied.ask(None) == [False]
    assert "only backups on a shared one" in shared.said[0]
    assert "let both say <replication>" in copied.said[0]
    assert "in the way of Artemis" in copied.said[1]


def test_what_would_be_the_name_of_a_file_elsewhere_is_not_taken() -> None:
    for store, owner, place in (
        ("g", "node", "a:1"),
        ("a", "../etc", "a:1"),
        ("a", "a/b", "a:1"),
        ("a", "", "a:1"),
        ("a", "x" * 65, "a:1"),
        ("a", "node", "a"),
        ("a", "node", "a b:1"),
        ("a", "node", "a:1\n"),
    ):
        assert read_copy(a_copy(store, owner, place)) is None, (store, owner, place)
        assert House(copies=True).ask(a_copy(store, owner, place)) == [False]
    for text in ("entrepot-copy:", "entrepot-copy:" + "a=b&" * 100, a_copy() + "&store=" + "b" * 32):
        assert read_copy(text) is None
    assert read_copy(a_copy(place="[::1]:61620")) is not None
    assert House(copies=True).ask("entrepot-copy:" + "a" * PATH_MAX) == [False]
