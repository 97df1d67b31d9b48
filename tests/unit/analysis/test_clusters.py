"""Clusters of Artemis in `entrepot check`: who reaches whom, and each trap as it is found, and as it must not be."""

from __future__ import annotations

import pytest

from entrepot.analysis.graph import served
from entrepot.analysis.model import Issue
from entrepot.analysis.picture import picture
from entrepot.analysis.text import draw
from entrepot.config.findings import Severity

from .networks import Files

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
LOGIN = "<cluster-user>c</cluster-user><cluster-password>{}</cluster-password>"
MOVES = (
    '<address-settings><address-setting match="{}"><redistribution-delay>{}</redistribution-delay></address-setting>'
)
MOVES += "</address-settings>"
GROUP = "<group-address>231.7.7.7</group-address><group-port>{}</group-port>"


def static(*names: str, direct: bool = False) -> str:
    only = ' allow-direct-connections-only="true"' if direct else ""
    inner = "".join(f"<connector-ref>{name}</connector-ref>" for name in names)
    return f"<static-connectors{only}>{inner}</static-connectors>"


def joined(how: str = "", options: str = "", *, own: str = "own", name: str = "c") -> str:
    return (
        f'<cluster-connections><cluster-connection name="{name}"><connector-ref>{own}</connector-ref>{options}{how}'
        "</cluster-connection></cluster-connections>"
    )


def deciding(kind: str, forgets: int = -1) -> str:
    timeout = f"<group-timeout>{forgets}</group-timeout>"
    return f'<grouping-handler name="g"><type>{kind}</type>{timeout}</grouping-handler>'


class Cluster(Files):
    """Brokers by name, each on a machine of that name; every one has a connector for every other."""

    def node(
        self,
        name: str,
        cluster: str = "",
        *others: str,
        password: str = "secret",
        more: str = "",
        settings: str | None = None,
        acceptor: str = "tcp://0.0.0.0:61616",
        own: str = "",
        login: str | None = None,
    ) -> Cluster:
        connectors = "".join(f'<connector name="{other}">tcp://{other}:61616</connector>' for other in others)
        connectors += f'<connector name="own">{own or f"tcp://{name}:61616"}</connector>'
        self.texts[f"{name}.xml"] = (
            f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>\n'
            "<persistence-enabled>false</persistence-enabled><security-enabled>false</security-enabled>\n"
            + (LOGIN.format(password) if login is None else login)
            + f'\n<acceptors><acceptor name="a">{acceptor}</acceptor></acceptors>\n'
            f"<connectors>{connectors}</connectors>\n{more}\n{cluster}\n"
            + (MOVES.format("#", 0) if settings is None else settings)
            + "\n</core></configuration>"
        )
        return self

    def hits(self, text: str) -> list[Issue]:
        return [one for one in self.issues() if text in one.what]


def found(files: Cluster, text: str, severity: Severity, file: str) -> None:
    """Expect exactly one issue with ``text``, of this severity, with a place and a remedy."""
    hits = files.hits(text)
    assert len(hits) == 1, files.said()
    (hit,) = hits
    assert (hit.severity, hit.spot.file) == (severity, file)
    assert hit.spot.line > 0
    assert hit.spot.path.startswith("configuration/core")
    assert hit.remedy


def mesh() -> Cluster:
    return Cluster().node("a", joined(static("b")), "b").node("b", joined(static("a")), "a")


# -- who reaches whom --------------------------------------------------------------------------------------------------


def test_a_sound_cluster_has_no_error_and_no_warning() -> None:
    assert mesh().said(ERROR) + mesh().said(WARNING) == []


def test_a_static_list_is_a_seed_so_all_are_linked() -> None:
    files = Cluster().node("a", joined(static("b")), "b").node("b", joined(static("c")), "c")
    files.node("c", joined(static("a")), "a")
    network = files.network()
    assert {(link.source, link.target) for link in network.links} == {(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)}
    assert files.said(ERROR) + files.said(WARNING) == []


def test_direct_connections_only_make_a_chain_which_needs_max_hops() -> None:
    files = Cluster().node("a", joined(static("b", direct=True)), "b").node("b", joined(static("c", direct=True)), "c")
    files.node("c", joined())
    assert {(link.source, link.target) for link in files.network().links} == {(0, 1), (1, 2)}
    found(
        files,
        "messages do not get from a to c: that takes 2 hops, and cluster-connection 'c' has max-hops 1",
        WARNING,
        "a.xml",
    )
    assert files.hits("do not get from")[0].remedy == "max-hops 2 on every node of the way"
    files.node("a", joined(static("b", direct=True), "<max-hops>2</max-hops>"), "b")
    assert files.hits("do not get from") == []
    network = files.network()
    assert served(len(network.nodes), network.links)[0][2] == 2
    found(files, "'c' names no other node: messages come to c, and none leaves it", NOTE, "c.xml")


def test_more_hops_than_one_in_a_mesh_bring_messages_twice() -> None:
    files = Cluster().node("a", joined(static("b"), "<max-hops>2</max-hops>"), "b").node("b", joined(static("c")), "c")
    files.node("c", joined(static("a")), "a")
    found(files, "max-hops is 2, and some nodes are reached both directly and over another one", WARNING, "a.xml")


def test_max_hops_that_let_nothing_through() -> None:
    files = Cluster().node("a", joined(static("b"), "<max-hops>0</max-hops>"), "b").node("b", joined(static("a")), "a")
    found(files, "max-hops 0: this node learns nothing", ERROR, "a.xml")


@pytest.mark.parametrize("separator", ["&amp;", ";"])
def test_the_uri_form_is_read_as_well(separator: str) -> None:
    uri = (
        '<cluster-connections><cluster-connection-uri name="c" address="static://(tcp://b:61616)?connectorName=own;'
        'maxHops=3;messageLoadBalancingType=STRICT"/></cluster-connections>'
    ).replace(";", separator)
    files = Cluster().node("a", uri).node("b", joined(static("a")), "a")
    (channel,) = files.network().members[0].channels
    assert (channel.consumer_ttl, channel.balancing, channel.targets[0][0].text) == (3, "STRICT", "b:61616")


def test_discovery_finds_who_announces_himself_there() -> None:
    heard = '<discovery-group-ref discovery-group-name="d"/>'

    def groups(port: int, refresh: int = 10_000, *, speaks: bool = True) -> str:
        spoken = f'<broadcast-groups><broadcast-group name="b">{GROUP.format(port)}<connector-ref>own</connector-ref>'
        spoken += "</broadcast-group></broadcast-groups>"
        return (spoken if speaks else "") + (
            f'<discovery-groups><discovery-group name="d">{GROUP.format(port)}<refresh-timeout>{refresh}'
            "</refresh-timeout></discovery-group></discovery-groups>"
        )

    files = Cluster().node("a", joined(heard), more=groups(9876)).node("b", joined(heard), more=groups(9876))
    assert len(files.network().links) == 2
    assert files.said(ERROR) + files.said(WARNING) == []
    files.node("b", joined(heard), more=groups(9877))
    assert len(files.hits("no other node of these files announces itself at udp://231.7.7.7:987")) == 2
    files.node("b", joined(heard), more=groups(9876, speaks=False))
    found(files, "b listens at udp://231.7.7.7:9876 and does not announce itself there", WARNING, "b.xml")
    files.node("b", joined(heard), more=groups(9876, 1000))
    found(files, "a node is forgotten after 1000 ms, and announces itself every 2000 ms", WARNING, "b.xml")


# -- names -------------------------------------------------------------------------------------------------------------


def test_names_that_lead_nowhere() -> None:
    files = Cluster().node("a", joined(static("nobody"), own="else")).node("b", joined(static("a")), "a")
    found(files, "there is no connector 'nobody': 'c' does not dial it", ERROR, "a.xml")
    found(files, "there is no connector 'else': the cluster connection 'c' is not deployed", ERROR, "a.xml")
    assert files.hits("'else'")[0].remedy == "known: own"
    files.node("a", joined('<discovery-group-ref discovery-group-name="d"/>'))
    found(files, "there is no discovery group 'd': 'c' is not deployed", ERROR, "a.xml")
    groups = f'<broadcast-groups><broadcast-group name="b">{GROUP.format(1)}<connector-ref>x</connector-ref>'
    files.node("a", joined(static("b")), "b", more=groups + "</broadcast-group></broadcast-groups>")
    found(files, "there is no connector 'x': the broadcast group 'b' is not deployed", ERROR, "a.xml")


def test_names_that_are_given_twice() -> None:
    files = Cluster().node("a", joined(static("b")), "b", "b").node("b", joined(static("a")), "a")
    found(files, "there is a connector 'b' already, in line 5: Artemis ignores this one", ERROR, "a.xml")
    twice = joined(static("b")).replace("</cluster-connections>", "") + joined(static("b")).replace(
        "<cluster-connections>", ""
    )
    files.node("a", twice, "b")
    found(files, "there is a cluster-connection 'c' already", ERROR, "a.xml")
    same = Cluster().node("a", joined(static("b")), "b").node("b", joined(static("a")), "a")
    same.texts["b.xml"] = same.texts["b.xml"].replace("<name>b<", "<name>a<")
    found(same, "there are two brokers 'a'", WARNING, "b.xml")


# -- joining -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [("", "", True), ("eu", "", True), ("eu", "eu.uk", True), ("eu,!eu.uk", "eu.uk", False), ("eu", "us", False)],
)
def test_connections_of_one_node_about_the_same_addresses(one: str, other: str, meet: bool) -> None:
    both = "".join(
        joined(static(to), f"<address>{what}</address>" if what else "", name=name)
        for name, to, what in (("c", "b", one), ("d", "x", other))
    ).replace("</cluster-connections><cluster-connections>", "")
    files = Cluster().node("a", both, "b", "x").node("b", joined(static("a")), "a").node("x", joined(static("a")), "a")
    if meet:
        found(files, "cluster-connections 'c' and 'd' of a are about the same addresses", WARNING, "a.xml")
    else:
        assert files.hits("about the same addresses") == []


def test_users_and_passwords_that_differ_are_found_and_not_quoted() -> None:
    files = mesh().node("b", joined(static("a")), "a", password="swordfish")
    found(files, "its cluster-password is not that of a", ERROR, "b.xml")
    assert not any("swordfish" in one.what + one.remedy for one in files.issues())
    files.node("b", joined(static("a")), "a", login=LOGIN.format("secret").replace(">c<", ">d<"))
    found(files, "its cluster-user is 'd', that of a is 'c'", ERROR, "b.xml")
    files.node("b", joined(static("a")), "a", password="ENC(7f)")
    found(files, "are encrypted differently", NOTE, "b.xml")
    files.node("b", joined(static("a")), "a", login="").node("a", joined(static("b")), "b", login="")
    found(files, "a, b leave cluster-user or cluster-password at its default", WARNING, "a.xml")


def test_places_that_others_cannot_reach() -> None:
    found(
        mesh().node("b", joined(static("a")), "a", own="tcp://0.0.0.0:61616"),
        "tells the others to reach b at 0.0.0.0:61616, which is no machine",
        ERROR,
        "b.xml",
    )
    found(
        mesh().node("b", joined(static("a")), "a", own="tcp://localhost:61616"),
        "tells the others to reach b at localhost:61616: there they find themselves",
        WARNING,
        "b.xml",
    )
    found(
        mesh().node("b", joined(static("a")), "a", own="tcp://b:6"),
        "to reach b at port 6, no acceptor",
        WARNING,
        "b.xml",
    )


def test_what_is_dialled_must_speak_core_and_tls_alike() -> None:
    files = mesh().node("b", joined(static("a")), "a", acceptor="tcp://0.0.0.0:61616?protocols=STOMP,OPENWIRE")
    found(files, "b:61616 is dialled, and *:61616 of b does not speak CORE".replace("*", "0.0.0.0"), ERROR, "a.xml")
    files = mesh().node("b", joined(static("a")), "a", acceptor="tcp://0.0.0.0:61616?sslEnabled=true")
    found(files, "b:61616 is dialled without TLS", ERROR, "a.xml")
    files = mesh().node("b", joined(static("a")), "a", acceptor="tcp://0.0.0.0:61616?protocols=CORE")
    assert files.hits("CORE") == []


def test_a_connection_that_is_given_up_before_anybody_looks() -> None:
    late = "<check-period>60000</check-period><connection-ttl>60000</connection-ttl>"
    files = mesh().node("b", joined(static("a"), late), "a")
    found(files, "connection-ttl is not above check-period", WARNING, "b.xml")


# -- where messages go -------------------------------------------------------------------------------------------------


def test_ways_of_sharing_out_that_differ() -> None:
    files = mesh().node("b", joined(static("a"), "<message-load-balancing>STRICT</message-load-balancing>"), "a")
    found(files, "in different ways (a ON_DEMAND, b STRICT)", WARNING, "a.xml")
    found(files, "STRICT: messages go to every node with the queue", WARNING, "b.xml")
    files = mesh().node("b", joined(static("a"), "<message-load-balancing>OFF</message-load-balancing>"), "a")
    found(files, "OFF: what is sent to a queue of b stays there", NOTE, "b.xml")
    files = mesh().node("b", joined(static("a"), "<message-load-balancing>SOMETIMES</message-load-balancing>"), "a")
    found(files, "message-load-balancing is 'SOMETIMES'", ERROR, "b.xml")


def test_messages_that_nobody_moves_again() -> None:
    files = mesh().node("b", joined(static("a")), "a", settings="")
    found(files, "redistribution-delay is -1: when the consumers of a queue leave b", WARNING, "b.xml")
    files.node("b", joined(static("a")), "a", settings=MOVES.format("eu.#", 5000))
    found(files, "redistribution-delay is -1 (but for eu.#)", WARNING, "b.xml")
    files.node("b", joined(static("a")), "a", settings=MOVES.format("#", -1))
    found(files, "redistribution-delay is -1: when", WARNING, "b.xml")


def test_messages_that_may_come_twice() -> None:
    twice = "<use-duplicate-detection>false</use-duplicate-detection>"
    found(
        mesh().node("b", joined(static("a"), twice), "a"),
        "after a link of b broke, messages may come twice",
        NOTE,
        "b.xml",
    )


# -- pairs -------------------------------------------------------------------------------------------------------------


def policy(role: str, group: str = "", kind: str = "replication") -> str:
    named = f"<group-name>{group}</group-name>" if group else ""
    return f"<ha-policy><{kind}><{role}>{named}</{role}></{kind}></ha-policy>"


def test_replicating_brokers_of_one_group_are_one_node() -> None:
    files = mesh().node("a", joined(static("b")), "b", more=policy("primary", "g"))
    files.node("spare", joined(static("b")), "b", more=policy("backup", "g"))
    assert [node.name for node in files.network().nodes] == ["a / spare", "b"]
    assert files.said(ERROR) == []
    assert "a / spare (a pair)" in draw(files.network())


def test_group_names_that_do_not_match() -> None:
    files = mesh().node("a", joined(static("b")), "b", more=policy("primary", "g"))
    files.node("spare", joined(static("b")), "b", more=policy("backup", "h"))
    found(files, "the backup spare has group-name 'h', and no primary has the same (a g)", ERROR, "spare.xml")
    found(files, "the primary a has group-name 'g', and no backup has the same (spare h)", WARNING, "a.xml")
    files.node("spare", joined(static("b")), "b", more=policy("backup"))
    found(files, "the backup spare has no group-name, and no primary has the same (a g)", ERROR, "spare.xml")
    files.node("spare", joined(static("b")), "b", more=policy("backup", kind="shared-store"))
    found(files, "the backup spare shares a store, and no primary of these files does", ERROR, "spare.xml")
    files.node("spare", more=policy("backup", "g"))
    found(files, "spare replicates, and has no cluster connection", WARNING, "spare.xml")


def test_one_pair_without_groups_needs_none_and_two_do() -> None:
    files = mesh().node("a", joined(static("b")), "b", more=policy("primary"))
    files.node("spare", joined(static("b")), "b", more=policy("backup"))
    assert [node.name for node in files.network().nodes] == ["a / spare", "b"]
    files.node("b", joined(static("a")), "a", more=policy("primary"))
    assert len(files.network().nodes) == 3


def test_two_primaries_of_one_group() -> None:
    files = mesh().node("a", joined(static("b")), "b", more=policy("primary", "g"))
    files.node("b", joined(static("a")), "a", more=policy("primary", "g"))
    found(files, "a and b are both the primary of the group 'g', which has one", ERROR, "b.xml")
    for name, other in ("ab", "ba"):
        peer = policy("primary", "g").replace("<group", "<coordination-id>both</coordination-id><group")
        files.node(name, joined(static(other)), other, more=peer)
    assert files.said(ERROR) == []


def test_votes_that_nobody_can_cast() -> None:
    many = policy("primary", "g").replace("<group", "<quorum-size>3</quorum-size><group")
    files = mesh().node("a", joined(static("b")), "b", more=many)
    found(files, "quorum-size of a is 3, and these files are of 2 nodes: no vote", WARNING, "a.xml")


def test_two_backups_of_one_primary() -> None:
    files = mesh().node("a", joined(static("b")), "b", more=policy("primary", "g"))
    for name in ("s1", "s2"):
        files.node(name, joined(static("b")), "b", more=policy("backup", "g"))
    found(files, "s1, s2 would copy one primary, which has one backup", WARNING, "s2.xml")


def test_the_login_of_a_backup_counts_too() -> None:
    files = mesh().node("a", joined(static("b")), "b", more=policy("primary", "g"))
    files.node("spare", joined(static("b")), "b", more=policy("backup", "g"), password="other")
    found(files, "its cluster-password is not that of a", ERROR, "spare.xml")


# -- as a picture ------------------------------------------------------------------------------------------------------


def test_text_and_picture_say_what_a_cluster_is() -> None:
    network = mesh().network()
    text = draw(network)
    assert "--> b  cluster-connection c, max-hops 1, ON_DEMAND" in text
    drawn = picture(network)
    assert "max-hops 1, each way" in drawn
    assert "cluster-connection c, a.xml:" in drawn
    assert "ON_DEMAND" in drawn


# -- message groups ----------------------------------------------------------------------------------------------------


def grouped(one: str, other: str) -> Cluster:
    files = Cluster().node("a", joined(static("b")), "b", more=one)
    return files.node("b", joined(static("a")), "a", more=other)


def test_one_node_decides_where_groups_go() -> None:
    assert not grouped(deciding("LOCAL"), deciding("REMOTE")).hits("group")
    found(grouped(deciding("REMOTE"), deciding("REMOTE")), "no node has a LOCAL grouping-handler", ERROR, "a.xml")
    found(grouped(deciding("LOCAL"), deciding("LOCAL")), "a, b each decide where groups go", ERROR, "b.xml")
    found(grouped(deciding("LOCAL"), ""), "b has no grouping-handler", WARNING, "a.xml")
    found(grouped(deciding("LOCAL"), deciding("OTHER")), "the grouping-handler is 'OTHER'", ERROR, "b.xml")
    late = grouped(deciding("LOCAL", 1_000), deciding("REMOTE", 600))
    found(late, "group-timeout of b is more than half of that of the LOCAL handler", WARNING, "b.xml")
    assert not grouped(deciding("LOCAL", 1_000), deciding("REMOTE", 500)).hits("group-timeout")
