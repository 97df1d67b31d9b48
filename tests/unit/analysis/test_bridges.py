"""Core bridges of Artemis in `entrepot check`: where they lead, and each trap as it is found, and as it must not be."""

from __future__ import annotations

import pytest

from entrepot.analysis.hops import Grade, way
from entrepot.analysis.picture import picture
from entrepot.analysis.text import draw
from entrepot.config.findings import Severity

from .test_clusters import GROUP, Cluster, found, joined, policy, static

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
USER = "<user>u</user><password>p</password>"


def queues(*pairs: str) -> str:
    """Return addresses; each like ``address/queue`` or a name that is both."""
    inner = ""
    for pair in pairs:
        address, _, queue = pair.partition("/")
        inner += f'<address name="{address}"><anycast><queue name="{queue or address}"/></anycast></address>'
    return f"<addresses>{inner}</addresses>"


def bridge(
    to: str = "b", options: str = "", *, name: str = "x", queue: str = "out", forwards: str = "in", user: str = USER
) -> str:
    where = f"<forwarding-address>{forwards}</forwarding-address>" if forwards else ""
    return (
        f'<bridge name="{name}"><queue-name>{queue}</queue-name>{where}{options}{static(*to.split()) if to else ""}'
        f"{user}</bridge>"
    )


def bridges(*each: str) -> str:
    return f"<bridges>{''.join(each)}</bridges>"


def two(*each: str, here: str = "", there: str = "") -> Cluster:
    """Return ``a``, which has bridges, and ``b``, where they lead."""
    files = Cluster().node("a", bridges(*(each or (bridge(),))), "b", more=here or queues("out"))
    return files.node("b", more=there or queues("in"))


# -- where they lead ---------------------------------------------------------------------------------------------------


def test_a_sound_bridge_is_one_link_one_way_and_says_what_it_carries() -> None:
    files = two(bridge(options='<filter string="n > 3"/>'))
    network = files.network()
    assert [(link.source, link.target) for link in network.links] == [(0, 1)]
    assert files.said(ERROR) + files.said(WARNING) == []
    found(files, "messages go one way only: there is no way from b to a", NOTE, "a.xml")
    assert files.hits("one way only")[0].remedy == "a bridge of that broker brings them back"
    assert "--> b  bridge x, out to in, where n > 3" in draw(network)
    drawn = picture(network)
    assert "bridge x, a.xml:" in drawn
    assert "out to in" in drawn


def test_without_a_forwarding_address_it_is_that_of_the_queue() -> None:
    files = two(bridge(forwards=""), here=queues("orders/out"), there=queues("orders"))
    assert files.said(WARNING) == []
    assert "out to orders" in draw(files.network())


def test_a_bridge_is_no_limit_on_hops_and_no_second_cluster_connection() -> None:
    files = Cluster().node("a", joined(static("b")) + bridges(bridge(user="")), "b", more=queues("out"))
    files.node("b", joined(static("a")), "a", more=queues("in"))
    assert files.said(ERROR) + files.said(WARNING) == []


def test_the_way_over_a_bridge_says_what_crosses() -> None:
    network = two(bridge(options='<filter string="n > 3"/><use-duplicate-detection>false</use-duplicate-detection>'))
    (hop,) = way(network.network(), 0, 1)
    assert [risk.grade for risk in hop.risks][:1] == [Grade.LOSES]  # neither of the two keeps anything on disk
    said = [risk.what for risk in hop.risks]
    assert "only messages of out cross, those where n > 3; the rest waits there, wanted at b or not" in said
    assert any("comes again" in one for one in said)


def test_a_discovery_group_finds_who_announces_himself() -> None:
    group = (
        f'<discovery-groups><discovery-group name="d">{GROUP.format(7)}</discovery-group></discovery-groups>'
        f'<broadcast-groups><broadcast-group name="s">{GROUP.format(7)}<connector-ref>own</connector-ref>'
        "</broadcast-group></broadcast-groups>"
    )
    heard = '<discovery-group-ref discovery-group-name="d"/>'
    files = Cluster().node("a", bridges(bridge("", heard)), more=queues("out") + group)
    files.node("b", joined(heard), more=queues("in") + group)
    assert [(link.source, link.target) for link in files.network().links if link.channel.bridge] == [(0, 1)]
    files.node("a", bridges(bridge("", heard.replace('"d"', '"e"'))), more=queues("out") + group)
    found(files, "there is no discovery group 'e': the bridge 'x' is not deployed", ERROR, "a.xml")
    assert files.hits("'e'")[0].remedy == "known: d"


# -- what is not deployed ----------------------------------------------------------------------------------------------


def test_a_bridge_from_nowhere_or_to_nowhere() -> None:
    found(two(bridge(queue="")), "the bridge 'x' takes from no queue", ERROR, "a.xml")
    found(two(bridge("")), "the bridge 'x' leads nowhere", ERROR, "a.xml")
    found(two(bridge("c")), "there is no connector 'c': the bridge 'x' does not dial it", ERROR, "a.xml")
    found(two(bridge(), bridge()), "there is a bridge 'x' already", ERROR, "a.xml")
    found(two(here=queues("other")), "there is no queue 'out' in the addresses of a", WARNING, "a.xml")
    assert two(here=queues("other/out")).hits("no queue 'out'") == []


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ('<filter string="n >"/>', "the filter is none"),
        ("<routing-type>SOME</routing-type>", "routing-type is 'SOME'"),
        ("<retry-interval>soon</retry-interval>", "retry-interval is 'soon', and not a number"),
        ("<retry-interval-multiplier>x</retry-interval-multiplier>", "retry-interval-multiplier is 'x'"),
    ],
)
def test_options_that_say_nothing(option: str, said: str) -> None:
    found(two(bridge(options=option)), said, ERROR, "a.xml")


# -- what happens there ------------------------------------------------------------------------------------------------


def test_an_address_without_a_queue_drops_what_comes() -> None:
    files = two(there=queues("elsewhere"))
    found(files, "no queue in the file of b is bound to 'in'", WARNING, "a.xml")
    divert = '<divert name="d"><address>in</address><forwarding-address>elsewhere</forwarding-address></divert>'
    assert two(there=queues("elsewhere") + f"<diverts>{divert}</diverts>").hits("is bound to") == []


def test_what_is_dialled_must_speak_core_and_tls_alike() -> None:
    files = two().node("b", more=queues("in"), acceptor="tcp://0.0.0.0:61616?protocols=AMQP")
    found(files, "does not speak CORE: a core bridge does", ERROR, "a.xml")
    files.node("b", more=queues("in"), acceptor="tcp://0.0.0.0:61616?sslEnabled=true")
    found(files, "b:61616 is dialled without TLS", ERROR, "a.xml")


def test_a_list_of_places_is_one_bridge() -> None:
    files = Cluster().node("a", bridges(bridge("b c")), "b", "c", more=queues("out"))
    files.node("b", more=queues("in")).node("c", more=queues("in"))
    found(files, "the bridge 'x' leads to one of b, c, whichever answers: they are no pair", WARNING, "a.xml")
    assert len([link for link in files.network().links if link.channel.bridge]) == 1


def test_a_pair_is_followed_only_with_ha() -> None:
    def pair(options: str) -> Cluster:
        files = Cluster().node("a", bridges(bridge("b c", options)), "b", "c", more=queues("out"))
        files.node("b", joined(static("c")), "c", more=queues("in") + policy("primary", "g"))
        return files.node("c", joined(static("b")), "b", more=queues("in") + policy("backup", "g"))

    found(pair(""), "the bridge 'x' does not follow when b / c fails over: \"ha\" is not true", WARNING, "a.xml")
    assert pair("<ha>true</ha>").hits("does not follow") == []
    assert pair("<ha>true</ha>").hits("whichever answers") == []


def test_a_bridge_to_its_own_broker() -> None:
    files = Cluster().node("a", bridges(bridge("own")), more=queues("out", "in")).node("b", more=queues("in"))
    found(files, "the bridge 'x' leads back to a itself", WARNING, "a.xml")


# -- messages ----------------------------------------------------------------------------------------------------------


def test_two_bridges_of_one_queue_share_its_messages() -> None:
    files = two(bridge(), bridge(name="y"))
    found(files, "the bridge 'x' takes from 'out' too: each gets some of its messages", WARNING, "a.xml")
    apart = [bridge(name=name, options=f'<filter string="n {sign} 3"/>') for name, sign in (("x", ">"), ("y", "&lt;="))]
    assert two(*apart).hits("takes from") == []
    found(two(bridge(options="<concurrency>2</concurrency>")), "concurrency 2", NOTE, "a.xml")


def test_messages_that_go_round() -> None:
    def ring(options: str = "", back: str = "orders") -> Cluster:
        files = Cluster().node("a", bridges(bridge("b", options, forwards="")), "b", more=queues("orders/out"))
        other = bridges(bridge("a", name="y", queue="in", forwards=back))
        return files.node("b", other, "a", more=queues("orders/in"))

    round_trip = "messages go round, a: orders - b: orders - a: orders: core bridges know no hop limit, so they"
    found(ring(), f"{round_trip} never end", ERROR, "a.xml")
    found(ring('<filter string="n > 3"/>'), f"{round_trip} end only where a filter stops them", WARNING, "a.xml")
    assert ring(back="answers").hits("go round") == []


def test_messages_that_go_round_by_a_divert() -> None:
    divert = '<diverts><divert name="d"><address>in</address><forwarding-address>back</forwarding-address></divert>'
    there = queues("in", "back") + divert + "</diverts>"
    files = Cluster().node("a", bridges(bridge()), "b", more=queues("out"))
    files.node("b", bridges(bridge("a", name="y", queue="back", forwards="out")), "a", more=there)
    found(files, "messages go round, a: out - b: in - b: back - a: out", ERROR, "a.xml")


def test_messages_that_may_come_twice() -> None:
    twice = bridge(options="<use-duplicate-detection>false</use-duplicate-detection>")
    found(two(twice), "after the bridge 'x' of a broke, messages may come twice", NOTE, "a.xml")


# -- connections -------------------------------------------------------------------------------------------------------


def test_a_bridge_that_gives_up() -> None:
    files = two(bridge(options="<reconnect-attempts>3</reconnect-attempts>"))
    found(files, "reconnect-attempts 3: then the bridge 'x' of a stays down", WARNING, "a.xml")
    files = two(bridge(options="<initial-connect-attempts>0</initial-connect-attempts>"))
    found(files, "initial-connect-attempts 0: then", WARNING, "a.xml")
    assert two().hits("attempts") == []


def test_delays_that_do_not_grow() -> None:
    double = "<retry-interval-multiplier>2</retry-interval-multiplier>"
    found(two(bridge(options=double)), "max-retry-interval is 2000 ms, and retry-interval 2000 ms", NOTE, "a.xml")
    more = double + "<max-retry-interval>60000</max-retry-interval>"
    assert two(bridge(options=more)).hits("has no effect") == []


def test_a_bridge_that_is_given_up_before_anybody_looked() -> None:
    files = two(bridge(options="<check-period>60000</check-period>"))
    found(files, "connection-ttl is not above check-period", WARNING, "a.xml")


def test_a_bridge_without_a_user_is_that_of_the_cluster() -> None:
    files = two(bridge(user=""))
    assert files.hits("names no user") == []  # the cluster has one
    files.node("a", bridges(bridge(user="")), "b", more=queues("out"), login="")
    found(files, "the bridge 'x' names no user, so it signs in as the cluster's", WARNING, "a.xml")
