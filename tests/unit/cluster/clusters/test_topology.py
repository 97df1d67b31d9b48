"""What a node believes of the members of its cluster (artemis.md 1.22)."""

from __future__ import annotations

import pytest

from clustered import connector
from entrepot.cluster.clusters.topology import GONE_MAX, MEMBERS_MAX, Member, Overseer, Topology, Verdict, same_place
from entrepot.protocols.artemis.primitives import PARAMETER_INT, PARAMETER_TEXT, Connector, Parameter

OWN = Member("me", 100, connector(0))


class Watching(Overseer):
    def __init__(self, topology: Topology) -> None:
        self.told: list[str] = []
        topology.overseers.append(self)

    def member_up(self, member: Member) -> None:
        self.told.append(f"+{member.node}")

    def member_down(self, node: str) -> None:
        self.told.append(f"-{node}")


def test_the_newest_word_counts_whatever_the_order() -> None:
    topology = Topology(OWN)
    watching = Watching(topology)
    assert topology.update(Member("a", 50, connector(1))) is Verdict.TAKEN
    assert topology.update(Member("a", 40, connector(2))) is Verdict.STALE
    assert topology.update(Member("a", 60, connector(3))) is Verdict.TAKEN
    assert topology.members["a"].primary == connector(3)
    assert topology.update(Member("a", 60, connector(3))) is Verdict.STALE
    assert watching.told == ["+a", "+a"]


def test_primary_and_backup_are_two_parts_of_one_member() -> None:
    topology = Topology(OWN)
    topology.update(Member("a", 50, None, connector(2)))
    assert topology.update(Member("a", 40, connector(1))) is Verdict.TAKEN, "a primary where none was known"
    assert (topology.members["a"].primary, topology.members["a"].backup) == (connector(1), connector(2))
    topology.update_backup(Member("a", 1, None, connector(3), "g"), 45)
    member = topology.members["a"]
    assert (member.primary, member.backup, member.backup_group, member.event) == (connector(1), connector(3), "g", 45)
    topology.update(Member("b", 70, connector(4)))
    assert topology.update(Member("b", 60, None, connector(5))) is Verdict.TAKEN, "older, and the only word of a backup"
    assert (topology.members["b"].backup, topology.members["b"].event) == (connector(5), 70)


def test_who_stands_in_for_this_node_is_told_and_that_nobody_does() -> None:
    topology = Topology(OWN)
    watching = Watching(topology)
    topology.stands_in(connector(2), 90)
    own = topology.own
    assert (own.primary, own.backup, own.event) == (connector(0), connector(2), 101), "later than ever before"
    topology.stands_in(None, 200)
    assert (topology.own.primary, topology.own.backup, topology.own.event) == (connector(0), None, 200)
    assert watching.told == ["+me", "+me"]


def test_who_left_is_not_brought_back_by_old_news() -> None:
    topology = Topology(OWN)
    watching = Watching(topology)
    topology.update(Member("a", 50, connector(1)))
    assert not topology.remove("a", 49), "it was announced after that"
    assert topology.remove("a", 60)
    assert not topology.remove("a", 61)
    assert topology.update(Member("a", 60, connector(1))) is Verdict.GONE
    assert topology.update(Member("a", 62, connector(1))) is Verdict.TAKEN
    assert watching.told == ["+a", "-a", "+a"]


def test_nobody_else_says_where_this_node_is_or_that_it_left() -> None:
    topology = Topology(OWN)
    assert topology.update(Member("me", 999, connector(7))) is Verdict.IMPOSTOR
    assert not topology.remove("me", 500)
    assert topology.own.primary == connector(0)
    assert topology.announce(90).event == 501, "later than the word that it left"
    assert topology.update(Member("me", 600, connector(0))) is Verdict.TAKEN


def test_places_are_compared_by_where_they_lead() -> None:
    def place(name: str, *parameters: tuple[str, int, object]) -> Connector:
        return Connector(name, "f", [Parameter(*one) for one in parameters])

    host = ("host", PARAMETER_TEXT, "h")
    one = place("a", host, ("port", PARAMETER_TEXT, "1"), ("localAddress", PARAMETER_TEXT, "x"))
    assert same_place(one, place("b", ("port", PARAMETER_INT, 1), host))
    assert not same_place(one, place("a", host, ("port", PARAMETER_INT, 2)))
    assert not same_place(one, None)
    assert same_place(None, None)


@pytest.mark.parametrize("gone", [False, True])
def test_news_do_not_fill_memory(gone: bool) -> None:
    topology = Topology(OWN)
    for number in range(2 * MEMBERS_MAX):
        topology.update(Member(f"n{number}", 50, connector(1)))
        if gone:
            topology.remove(f"n{number}", 60)
    assert len(topology.members) == (1 if gone else MEMBERS_MAX)
    assert len(topology.gone) == (GONE_MAX if gone else 0)
