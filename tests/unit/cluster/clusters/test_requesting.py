"""A node that looks for a host of its backup: whom it asks, when it goes on to the next, and when it gives up."""

from __future__ import annotations

from clustered import Cluster, Node, joined
from entrepot.base.environment import MILLISECOND
from entrepot.cluster.clusters.hosted import Backups, Hosted
from entrepot.cluster.clusters.requesting import PATIENCE, Connected, Requester
from entrepot.protocols.artemis.membership import Onlooker
from entrepot.protocols.artemis.packets import BackupRequest

INTERVAL_MS = 500


class House:
    """What hosts backups at one node. ``works``: they start; None: nobody says whether they do."""

    def __init__(self, node: Node, most: int = 1, works: bool | None = True) -> None:
        self.works = works
        self.begun: list[Hosted] = []
        self.backups = Backups(most, self, lambda: node.rig.now, node.said.append)
        node.connection.members.backups = self.backups

    def start(self, hosted: Hosted) -> None:
        self.begun.append(hosted)
        if self.works:
            self.backups.started(hosted)
        elif self.works is not None:
            self.backups.ended(hosted, "it cannot", refused=True)


def requester(node: Node, retries: int = -1) -> Requester:
    """Return one that has begun to ask."""
    made = Requester(
        Connected(node.connection),
        f"/store/{node.name}",
        retries=retries,
        interval=INTERVAL_MS * MILLISECOND,
        say=node.said.append,
    )
    made.start()
    return made


def behind(nodes: list[Node]) -> list[Node]:
    """Return the others in the order in which the first of ``nodes`` asks them."""
    own = nodes[0].uuid
    return sorted(nodes[1:], key=lambda one: (one.uuid < own, one.uuid))


def test_the_first_that_says_yes_is_the_host_and_is_asked_again() -> None:
    world, nodes = joined(3)
    first, second = behind(nodes)
    no, yes = House(first, most=0), House(second)
    made = requester(nodes[0])
    world.wait(3 * INTERVAL_MS)
    assert made.host == second.uuid
    world.wait(10 * INTERVAL_MS)
    assert (no.begun, len(yes.begun)) == ([], 1), "it is asked whether it still has it, and starts none"
    assert yes.begun[0].directory == "/store/n0"
    assert yes.begun[0].node == nodes[0].uuid


def test_backups_of_all_nodes_spread() -> None:
    world, nodes = joined(4)
    houses = [House(node) for node in nodes]
    made = [requester(node) for node in nodes]
    world.wait(4 * INTERVAL_MS)
    assert all(one.host for one in made)
    assert [len(house.begun) for house in houses] == [1, 1, 1, 1]


def test_a_host_that_lost_the_backup_starts_it_again_or_another_does() -> None:
    world, nodes = joined(3)
    first, second = behind(nodes)
    house, other = House(first), House(second)
    made = requester(nodes[0])
    world.wait(2 * INTERVAL_MS)
    house.backups.ended(house.begun[0], "it ended", refused=False)
    world.wait(2 * INTERVAL_MS)
    assert (made.host, len(house.begun)) == (first.uuid, 2)
    house.backups.ended(house.begun[1], "given up", refused=True)
    world.wait(3 * INTERVAL_MS)
    assert made.host == second.uuid
    assert len(other.begun) == 1


def test_a_host_that_dies_is_not_waited_for() -> None:
    world, nodes = joined(3)
    first, second = behind(nodes)
    House(first)
    House(second)
    made = requester(nodes[0])
    world.wait(2 * INTERVAL_MS)
    assert made.host == first.uuid
    first.leave(orderly=False)
    world.wait(4 * INTERVAL_MS)
    assert made.host == second.uuid


def test_rounds_are_counted_and_an_end_is_said() -> None:
    world, nodes = joined(2)
    House(nodes[1], most=0)
    made = requester(nodes[0], retries=2)
    world.wait(10 * INTERVAL_MS)
    assert made.given_up
    assert made.facts() == {"host": "", "state": "given up"}
    assert [one for one in nodes[0].said if "given up" in one] == [
        "none of 1 nodes hosts its backup: given up after 3 rounds (backup-request-retries)"
    ]
    House(nodes[1])
    world.wait(10 * INTERVAL_MS)
    assert made.host == ""


def test_an_answer_that_does_not_come_is_a_no_in_the_end_and_comes_late_without_harm() -> None:
    world, nodes = joined(3)
    first, second = behind(nodes)
    silent, other = House(first, works=None), House(second)
    made = requester(nodes[0])
    world.wait(6 * INTERVAL_MS)
    assert made.host == "", "a host has time to look at the store"
    assert other.begun == []
    world.wait(PATIENCE // MILLISECOND)
    assert made.host == second.uuid
    first.act(lambda: silent.backups.started(silent.begun[0]))
    world.wait(2 * INTERVAL_MS)
    assert made.host == second.uuid


class Stranger(Onlooker):
    """Somebody that was not let in, as far as the membership is asked."""

    def __init__(self) -> None:
        self.answers: list[bool] = []

    def hosted(self, started: bool) -> None:
        self.answers.append(started)


def test_a_node_that_hosts_nothing_says_no() -> None:
    world = Cluster()
    node = world.node(0, [])
    stranger = Stranger()
    node.connection.members.host(stranger, BackupRequest(journal_dir="/a"))
    assert stranger.answers == [False]


def test_who_did_not_show_the_credentials_of_the_cluster_is_not_heard() -> None:
    world, nodes = joined(2)
    house = House(nodes[1])
    contact = next(iter(nodes[0].connection.contacts.values()))
    server = next(one.server for one in world.cables if one.owner is contact)
    server.admitted = False
    made = requester(nodes[0])
    world.wait(4 * INTERVAL_MS)
    assert (made.host, house.begun) == ("", [])
