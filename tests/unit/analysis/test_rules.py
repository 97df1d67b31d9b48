"""What is found in a network: each trap once as it should be found, and once as it must not be."""

from __future__ import annotations

import pytest

from entrepot.config.findings import Severity

from .networks import Files, chain, connector, listed

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
SOUND = (
    'duplex="true" networkTTL="{}" decreaseNetworkConsumerPriority="true" suppressDuplicateQueueSubscriptions="true"'
)
ANNOUNCED = '<transportConnector discoveryUri="multicast://default" '
STORE = '<persistenceAdapter><kahaDB directory="{}"/></persistenceAdapter>'
USERS = (
    '<plugins><simpleAuthenticationPlugin{}><users><authenticationUser username="net" password="{}" groups="g"/>'
    "</users></simpleAuthenticationPlugin></plugins>"
)


def found(files: Files, text: str, severity: Severity, file: str = "") -> None:
    """Expect exactly one issue with ``text``, of this severity, with a place and a remedy."""
    hits = [one for one in files.issues() if text in one.what]
    assert len(hits) == 1, files.said()
    assert hits[0].severity is severity
    assert hits[0].spot.line > 0
    assert hits[0].spot.path.startswith("broker")
    assert hits[0].remedy
    if file:
        assert hits[0].spot.file == file


def absent(files: Files, *texts: str) -> None:
    assert not [what for what in files.said() if any(text in what for text in texts)]


def test_a_sound_pair_has_no_error_and_no_warning() -> None:
    files = chain("a", "b")
    assert files.said(ERROR) + files.said(WARNING) == []


def test_a_single_file_is_not_blamed_for_the_others_missing() -> None:
    files = Files().add("a", connector("b:61616", 'decreaseNetworkConsumerPriority="false"'))
    assert files.said() == []


# -- brokers -----------------------------------------------------------------------------------------------------------


def test_two_brokers_of_one_name() -> None:
    files = Files(x="h").add("x", connector("y:61616")).add("y").add("x", listen="tcp://0.0.0.0:61617")
    found(files, "two brokers 'x'", ERROR, "x2.xml")


def test_a_pair_has_one_name_and_one_store_and_is_one_node() -> None:
    files = Files().add("m", body=STORE.format("/mq/m"), listen="tcp://one:61616")
    files.add("m", body=STORE.format("/mq/m"), listen="tcp://two:61616")
    files.add("far", connector("masterslave:(tcp://one:61616,tcp://two:61616)", name="pair"))
    network = files.network()
    assert [node.name for node in network.nodes] == ["m", "far"]
    assert [(link.source, link.target) for link in network.links] == [(1, 0)]
    absent(files, "two brokers", "no pair")
    found(files, "are a pair", NOTE, "m2.xml")


def test_a_pair_may_have_two_names_where_both_files_choose_the_directory() -> None:
    """Finding U5."""
    files = Files().add("broker1", body=STORE.format("/mnt/shared/kahadb"), listen="tcp://one:61616")
    files.add("broker2", body=STORE.format("/mnt/shared/kahadb"), listen="tcp://two:61616")
    assert [node.name for node in files.network().nodes] == ["broker1 / broker2"]
    found(files, "are a pair", NOTE, "broker2.xml")
    assert files.said(WARNING) + files.said(ERROR) == []


def test_brokers_that_dial_one_another_are_no_pair_whatever_directory_they_choose() -> None:
    files = Files().add("a", connector("b:61616"), body=STORE.format("/data")).add("b", body=STORE.format("/data"))
    assert len(files.network().nodes) == 2


def test_brokers_with_one_path_on_two_machines_are_two() -> None:
    files = Files().add("a", connector("b:61616"), body=STORE.format("data")).add("b", body=STORE.format("data"))
    assert len(files.network().nodes) == 2
    absent(files, "its store", "a pair")


def test_one_store_for_two_brokers_of_one_machine() -> None:
    files = Files().add("a", connector("localhost:61617"), body=STORE.format("data"))
    files.add("b", body=STORE.format("data"), listen="tcp://0.0.0.0:61617")
    found(files, "its store", ERROR, "b.xml")


@pytest.mark.parametrize(
    ("mine", "theirs", "clashes"),
    [
        ("tcp://0.0.0.0:61616 tcp://0.0.0.0:61619", "tcp://0.0.0.0:61617 stomp://0.0.0.0:61619", True),
        ("tcp://0.0.0.0:61616 tcp://127.0.0.1:61619", "tcp://0.0.0.0:61617 stomp://0.0.0.0:61619", True),
        ("tcp://0.0.0.0:61616 tcp://10.0.0.1:61619", "tcp://0.0.0.0:61617 stomp://10.0.0.2:61619", False),
        ("tcp://0.0.0.0:61616 tcp://0.0.0.0:0", "tcp://0.0.0.0:61617 tcp://0.0.0.0:0", False),
    ],
)
def test_one_port_for_two_brokers_of_one_machine(mine: str, theirs: str, clashes: bool) -> None:
    files = Files().add("a", connector("localhost:61617"), listen=mine).add("b", listen=theirs)
    assert any("is taken by" in what for what in files.said(ERROR)) == clashes


def test_one_port_on_two_machines_is_usual() -> None:
    absent(chain("a", "b", "c"), "is taken by")


# -- who is meant ------------------------------------------------------------------------------------------------------


def test_nobody_listens_there() -> None:
    files = Files().add("a", connector("b:61617")).add("b")
    found(files, "nobody in these files listens at b:61617", WARNING, "a.xml")
    assert files.network().nodes[2].outside == "b:61617"


def test_an_address_that_may_be_several() -> None:
    files = Files().add("a", connector("10.0.0.9:61616")).add("b").add("c")
    found(files, "10.0.0.9:61616 may be any of b, c", WARNING, "a.xml")
    told = (
        Files(b="10.0.0.9", c="10.0.0.8").add("a", connector("10.0.0.9:61616")).add("b").add("c", connector("a:61616"))
    )
    absent(told, "may be any of")
    assert [(link.source, link.target) for link in told.network().links] == [(0, 1), (2, 0)]


@pytest.mark.parametrize(
    ("dialled", "listen", "text"),
    [
        ("b:61613", "stomp://0.0.0.0:61613", "speaks stomp"),
        ("b:80", "http://0.0.0.0:80", "b:80 is dialled by a socket, and 0.0.0.0:80 of b speaks http"),
        ("static:(http://b:1)", "tcp://0.0.0.0:1", "b:1 is dialled by HTTP, and 0.0.0.0:1 of b speaks tcp"),
        ("static:(https://b:1)", "http://0.0.0.0:1", "b:1 is dialled with TLS"),
        ("static:(ssl://b:61616)", "tcp://0.0.0.0:61616", "has no TLS"),
        ("b:61616", "ssl://0.0.0.0:61616", "has TLS"),
        ("b:61616", "tcp://127.0.0.1:61616", "from its own machine"),
    ],
)
def test_a_place_that_cannot_be_talked_to(dialled: str, listen: str, text: str) -> None:
    files = Files(b="b").add("a", connector(dialled, name="n")).add("b", listen=listen)
    found(files, text, ERROR, "a.xml")


def test_auto_takes_either() -> None:
    assert Files().add("a", connector("b:61616")).add("b", listen="auto://0.0.0.0:61616").said(ERROR) == []


@pytest.mark.parametrize(("dialled", "listen"), [("http://b", "http://0.0.0.0:80"), ("http://b:1", "auto://0.0.0.0:1")])
def test_a_bridge_may_go_over_http(dialled: str, listen: str) -> None:
    files = Files().add("a", connector(f"static:({dialled})")).add("b", listen=listen)
    assert [(link.source, link.target) for link in files.network().links] == [(0, 1)]
    assert files.said(ERROR) + files.said(WARNING) == []


def test_a_bridge_may_lead_to_a_broker_of_artemis() -> None:
    files = Files().add("a", connector("art:61617"))
    files.texts["art.xml"] = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>art</name>
<security-enabled>false</security-enabled><acceptors><acceptor name="x">tcp://0.0.0.0:{}</acceptor></acceptors></core>
</configuration>"""
    missed = files.texts["art.xml"]
    files.texts["art.xml"] = missed.format("61617?protocols=STOMP,OPENWIRE")
    assert [(link.source, link.target) for link in files.network().links] == [(0, 1)]
    assert files.said(ERROR) + files.said(WARNING) == []
    files.texts["art.xml"] = missed.format("61617?protocols=STOMP")
    found(files, "speaks stomp", ERROR, "a.xml")


# -- ways --------------------------------------------------------------------------------------------------------------


def test_no_connector_anywhere_and_a_broker_alone_and_two_networks() -> None:
    found(Files().add("a").add("b"), "none of these brokers", WARNING, "a.xml")
    found(chain("a", "b").add("c"), "no link leads from or to c", WARNING, "c.xml")
    files = chain("a", "b").add("c", connector("d:61616")).add("d")
    found(files, "not one network but 2: a, b; c, d", WARNING)
    absent(chain("a", "b", "c"), "not one network", "no link leads")


def test_one_way_is_said_once() -> None:
    found(chain("a", "b", "c", attributes='networkTTL="2"'), "no way from b to a, c to a, c to b", NOTE)
    absent(chain("a", "b"), "one way only")


def test_a_ttl_that_is_shorter_than_the_way() -> None:
    files = chain("a", "b", "c")
    hits = [one for one in files.issues(WARNING) if "takes 2 hops" in one.what]
    assert [(one.spot.file, one.spot.line) for one in hits] == [("a.xml", 3), ("b.xml", 3)]
    assert 'networkTTL="2"' in hits[0].remedy
    absent(chain("a", "b", "c", attributes='duplex="true" networkTTL="2"'), "takes 2 hops")
    absent(chain("a", "b", "c", attributes='duplex="true" networkTTL="-1"'), "takes 2 hops", "longer than")


def test_a_consumer_ttl_alone_is_enough_to_stop_it() -> None:
    files = chain("a", "b", "c", attributes='duplex="true" networkTTL="2" consumerTTL="1"')
    assert any("consumerTTL 1" in what for what in files.said(WARNING))
    found(chain("a", "b", attributes='networkTTL="2" consumerTTL="1"'), "the smaller, consumerTTL", NOTE)


def test_a_ttl_that_is_longer_than_any_way() -> None:
    found(
        chain("a", "b", attributes='duplex="true" networkTTL="4"'),
        "longer than the longest way of this network, 1",
        NOTE,
    )
    absent(chain("a", "b", "c", attributes='duplex="true" networkTTL="2"'), "longer than the longest way")


def test_links_from_both_sides_of_which_one_is_duplex() -> None:
    files = Files().add("a", connector("b:61616", 'duplex="true"')).add("b", connector("a:61616"))
    found(files, "one of them is duplex", WARNING, "b.xml")
    both = Files().add("a", connector("b:61616", 'duplex="true"')).add("b", connector("a:61616", 'duplex="true"'))
    found(both, "both are duplex", WARNING, "b.xml")
    absent(Files().add("a", connector("b:61616")).add("b", connector("a:61616")), "duplex:")


def test_two_connectors_to_one_broker() -> None:
    queues = listed("excludedDestinations", "topic:>")
    topics = listed("excludedDestinations", "queue:>")
    both = Files().add("a", connector("b:61616", name="q"), connector("b:61616", name="t")).add("b")
    found(both, "both lead from a to b", WARNING)
    split = Files().add("a", connector("b:61616", "", queues, name="q"), connector("b:61616", "", topics, name="t"))
    absent(split.add("b"), "both lead from")
    named = [listed("dynamicallyIncludedDestinations", f"queue:{name}.>") for name in ("x", "y")]
    apart = Files().add("a", connector("b:61616", "", named[0], name="x"), connector("b:61616", "", named[1], name="y"))
    absent(apart.add("b"), "both lead from")


def ring(attributes: str) -> Files:
    return (
        chain("a", "b", "c", attributes=attributes)
        .add("d", connector("a:61616", attributes))
        .add("e", connector("c:61616", attributes), connector("d:61616", attributes))
    )


def test_a_circle_wants_priorities_and_no_doubled_subscriptions() -> None:
    files = ring('duplex="true" networkTTL="3" decreaseNetworkConsumerPriority="false"')
    said = files.said(WARNING)
    for once in ("decreaseNetworkConsumerPriority is false", "seen over each way"):
        (what,) = [one for one in said if once in one]  # said once, with all who are meant
        assert "to-c (b.xml:3)" in what
        assert "and 1 more" in what
    assert any("a - d - e - c - b - a" in what or "a - b - c - e - d - a" in what for what in said), said
    found(ring('duplex="true" networkTTL="3"'), "decreaseNetworkConsumerPriority is not said", NOTE)
    said = ring(SOUND.format(3)).said()
    assert all("suppressDuplicateQueueSubscriptions keeps one way" in what for what in said if "a circle" in what)
    unsaid = Files().add("a", connector("b:61616"), connector("c:61616", 'decreaseNetworkConsumerPriority="true"'))
    (what,) = [one for one in unsaid.said(NOTE) if "decreaseNetworkConsumerPriority is not said" in one]
    assert "to-b (a.xml:3): it is false here" in what
    assert "to-c" not in what
    absent(Files().add("a", connector("b:61616", "", listed("excludedDestinations", "queue:>"))), "is not said on")
    doubled = ring(SOUND.format(3) + ' suppressDuplicateTopicSubscriptions="false"')
    assert any("more than once" in what for what in doubled.said(WARNING))


REPLAYING = (
    '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;"><networkBridgeFilterFactory>'
    '<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/></networkBridgeFilterFactory>'
    "</policyEntry></policyEntries></policyMap></destinationPolicy>"
)


def mesh(names: str, attributes: str, *, body: str = "", lists: str = "") -> Files:
    files = Files()
    for name in names:
        others = [connector(f"{other}:61616", attributes, lists) for other in names if other != name]
        files.add(name, *others, body=body)
    return files


def test_consumers_that_move_in_a_circle_want_a_ttl_for_every_broker() -> None:
    """Finding U6."""
    for names, ttl in (("abc", 1), ("abcd", 2)):
        (what,) = [one for one in mesh(names, f'networkTTL="{ttl}"', body=REPLAYING).said(WARNING) if "moved" in one]
        assert f"messageTTL is {ttl} on to-b (a.xml:" in what
        files = mesh(names, f'networkTTL="{ttl}"', body=REPLAYING)
        (issue,) = [one for one in files.issues(WARNING) if "moved" in one.what]
        assert f'messageTTL="{len(names) - 1}" consumerTTL="{ttl}"' in issue.remedy
    absent(mesh("abc", 'messageTTL="2" consumerTTL="1"', body=REPLAYING), "moved")
    absent(mesh("abc", 'messageTTL="2" consumerTTL="1"', body=REPLAYING), "longer than the longest way")
    absent(mesh("abc", 'messageTTL="2" consumerTTL="1"', body=REPLAYING), "decides how far")
    absent(mesh("abc", 'networkTTL="1"'), "moved")
    topics = listed("excludedDestinations", "queue:>")
    absent(mesh("abc", 'networkTTL="1"', body=REPLAYING, lists=topics), "moved")
    found(ring(SOUND.format(2)).with_body(REPLAYING), "moved", WARNING)
    spokes = Files().add("h", body=REPLAYING)
    for name in "abc":
        spokes.add(name, connector("h:61616", 'duplex="true" networkTTL="2"'), body=REPLAYING)
    absent(spokes, "moved")


@pytest.mark.parametrize(
    ("files", "ways"),
    [
        (mesh("abc", 'networkTTL="2"'), "a - b and a - c - b are within messageTTL 2"),
        (mesh("abc", 'networkTTL="1"'), ""),
        (mesh("abc", 'networkTTL="2"', lists=listed("excludedDestinations", "topic:>")), ""),
        (mesh("abc", 'networkTTL="2"', lists=listed("dynamicallyIncludedDestinations", "queue:>")), ""),
        (ring('duplex="true" networkTTL="2"'), ""),
        (ring('duplex="true" networkTTL="3"'), "are within messageTTL 3"),
        (ring('duplex="true" networkTTL="-1"'), "are within messageTTL -1"),
        (chain("a", "b", "c", attributes='duplex="true" networkTTL="2"'), ""),
    ],
)
def test_topic_messages_that_come_over_two_ways(files: Files, ways: str) -> None:
    """Finding U7."""
    said = [what for what in files.said(WARNING) if "more than once, as in ActiveMQ" in what]
    assert len(said) == bool(ways), said
    assert all(ways in what for what in said)


def test_one_way_to_each_consumer_of_a_circle_wants_messages_that_may_go_back() -> None:
    files = ring(SOUND.format(3))
    assert sum("keeps one way to each consumer" in what for what in files.said(WARNING)) == 1
    replay = (
        '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;"><networkBridgeFilterFactory>'
        '<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/></networkBridgeFilterFactory>'
        "</policyEntry></policyEntries></policyMap></destinationPolicy>"
    )
    for name, text in files.texts.items():
        files.texts[name] = text.replace("<transportConnectors>", replay + "<transportConnectors>")
    absent(files, "keeps one way to each consumer")


def test_a_mesh_with_one_hop_has_circles_that_harm_nobody() -> None:
    files = Files()
    names = ("a", "b", "c")
    for name in names:
        files.add(name, *(connector(f"{other}:61616") for other in names if other != name))
    absent(files, "there is a circle")


# -- demand and lists --------------------------------------------------------------------------------------------------


def test_a_broker_without_advisories_is_no_target_of_dynamic_bridges() -> None:
    files = Files().add("a", connector("b:61616")).add("b", attributes='advisorySupport="false"')
    found(files, 'advisorySupport="false"', WARNING, "b.xml")
    static = connector("b:61616", 'staticBridge="true"', listed("staticallyIncludedDestinations", "topic:t"))
    absent(Files().add("a", static).add("b", attributes='advisorySupport="false"'), "advisorySupport")
    own = Files().add("a", connector("b:61616"), attributes='advisorySupport="false"').add("b")
    absent(own, "advisorySupport")


def test_what_is_included_and_excluded() -> None:
    body = listed("excludedDestinations", "queue:a.>") + listed(
        "dynamicallyIncludedDestinations", "queue:a.b", "queue:c"
    )
    found(Files().add("a", connector("b:61616", "", body)), "queue a.b is in dynamicallyIncludedDestinations", ERROR)
    static = listed("excludedDestinations", "queue:*") + listed("staticallyIncludedDestinations", "queue:a")
    found(Files().add("a", connector("b:61616", "", static)), "queue a is in staticallyIncludedDestinations", ERROR)
    for out, into in (("queue:a.b", "queue:a.>"), ("topic:a.>", "queue:a.b"), ("queue:a.*", "queue:a.>")):
        body = listed("excludedDestinations", out) + listed("dynamicallyIncludedDestinations", into)
        absent(Files().add("a", connector("b:61616", "", body)), "excluded")


@pytest.mark.parametrize(
    ("attributes", "body", "text", "severity"),
    [
        ('staticBridge="true"', "dynamic:queue:a static:queue:b", "staticBridge listens to no demand", WARNING),
        ('destinationFilter="Queue.>"', "dynamic:queue:a", "destinationFilter replaces", NOTE),
        ("", "static:queue:a dynamic:queue:a", "both statically and dynamically", NOTE),
        ("", "static:topic:a", "everything else crosses too", NOTE),
        ("", "static:queue:a", "is forwarded even without consumers", NOTE),
        ('duplex="true"', "static:queue:a", "each side draws", WARNING),
        ('syncDurableSubs="true"', "", "syncDurableSubs compares", WARNING),
        ('networkTTL="0"', "", "messageTTL 0", ERROR),
        ('consumerTTL="0"', "", "consumerTTL 0", ERROR),
        ('alwaysSyncSend="false"', "", "alwaysSyncSend", NOTE),
    ],
)
def test_a_connector_by_itself(attributes: str, body: str, text: str, severity: Severity) -> None:
    names = {"dynamic": "dynamicallyIncludedDestinations", "static": "staticallyIncludedDestinations"}
    lists = "".join(listed(names[one.partition(":")[0]], one.partition(":")[2]) for one in body.split())
    found(Files().add("a", connector("b:61616", attributes, lists)), text, severity)


def test_demand_for_virtual_topics_that_nobody_announces() -> None:
    asks = connector("b:61616", 'useVirtualDestSubs="true"')
    found(Files().add("a", asks).add("b"), "useVirtualDestSubs asks b", WARNING, "a.xml")
    absent(Files().add("a", asks).add("b", attributes='useVirtualDestSubs="true"'), "useVirtualDestSubs asks")


def test_selectors_behind_conduit_subscriptions() -> None:
    plugin = "<plugins><virtualSelectorCacheBrokerPlugin/></plugins>"
    found(Files().add("a", connector("b:61616")).add("b"), "conduitSubscriptions", NOTE)
    found(Files().add("a", connector("b:61616")).add("b", body=plugin), "conduitSubscriptions", WARNING)
    absent(Files().add("a", connector("b:61616", 'conduitSubscriptions="false"')).add("b", body=plugin), "conduit")


def test_virtual_topics_that_cross_twice() -> None:
    text = "copied into the queues of both"
    found(chain("a", "b"), text, NOTE)
    body = listed("excludedDestinations", "queue:Consumer.*.VirtualTopic.>")
    absent(Files().add("a", connector("b:61616", "", body)).add("b"), text)


# -- finding brokers ---------------------------------------------------------------------------------------------------


def test_lists_that_say_another_thing_than_they_mean() -> None:
    nested = "static:(failover:(tcp://b:61616,tcp://c:61616))"
    found(Files().add("a", connector(nested, name="n")).add("b").add("c"), "failover: within static:", WARNING)
    told = nested.replace("c:61616)", "c:61616)?maxReconnectAttempts=0")
    absent(Files().add("a", connector(told, name="n")).add("b").add("c"), "within static:")
    bare = Files().add("a", connector("failover:(tcp://b:61616)", name="n")).add("b")
    found(bare, "ActiveMQ has no discovery of this name", WARNING)
    twice = Files().add("a", connector("static:(tcp://b:61616,tcp://B:61616)", name="n")).add("b")
    assert any("names one place twice" in what for what in twice.said(WARNING))


def test_brokers_that_are_no_pair_and_a_pair_that_is_taken_for_two() -> None:
    no_pair = Files().add("a", connector("masterslave:(tcp://b:61616,tcp://c:61616)", name="n")).add("b").add("c")
    found(no_pair, "b and c are no pair", WARNING, "a.xml")
    pair = Files().add("a", connector("static:(tcp://one:61616,tcp://two:61616)", name="n"))
    for host in ("one", "two"):
        pair.add("m", body=STORE.format("/m"), listen=f"tcp://{host}:61616")
    found(pair, "m is a pair", WARNING, "a.xml")


def test_a_group_in_which_nobody_is() -> None:
    alone = Files().add("a", connector("multicast://default", name="n")).add("b")
    found(alone, "announces itself in multicast://default", WARNING, "a.xml")
    files = Files().add("a", connector("multicast://default", name="n")).add("b")
    files.texts["b.xml"] = files.texts["b.xml"].replace("<transportConnector ", ANNOUNCED)
    absent(files, "announces itself")
    assert [(link.source, link.target) for link in files.network().links] == [(0, 1)]


# -- messages that do not return ---------------------------------------------------------------------------------------


def test_messages_that_would_not_return() -> None:
    found(chain("a", "b"), "do not go back", NOTE)
    policy = (
        '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;" {}><networkBridgeFilterFactory>'
        '<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/></networkBridgeFilterFactory>'
        "</policyEntry></policyEntries></policyMap></destinationPolicy>"
    )
    both = (
        Files().add("a", connector("b:61616", 'duplex="true"'), body=policy.format("")).add("b", body=policy.format(""))
    )
    absent(both, "do not go back")
    (what,) = [one for one in both.said(NOTE) if "takes what returns for a duplicate" in one]
    assert "at a.xml:5 and b.xml:2" in what
    off = policy.format('enableAudit="false"')
    quiet = Files().add("a", connector("b:61616", 'duplex="true"'), body=off).add("b", body=off)
    absent(quiet, "duplicate")
    found(Files().add("a", connector("b:61616")).add("b", body=off), "has no way to go", WARNING, "b.xml")


# -- credentials -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ("", "the connector names none"),
        ('userName="other" password="secret"', "no user 'other'"),
        ('userName="net" password="wrong"', "is another one"),
        ('userName="x" password="y" remoteUserName="net" remotePassword="secret"', ""),
        ('userName="net" password="secret"', ""),
    ],
)
def test_the_far_side_lets_the_bridge_in_or_not(attributes: str, text: str) -> None:
    files = Files().add("a", connector("b:61616", attributes)).add("b", body=USERS.format("", "secret"))
    if text:
        found(files, text, ERROR, "a.xml")
        assert all("secret" not in one.what + one.remedy for one in files.issues())
    else:
        absent(files, "does not let this bridge in")


def test_anonymous_access_realms_and_ones_own_broker() -> None:
    opened = USERS.format(' anonymousAccessAllowed="true"', "secret")
    absent(Files().add("a", connector("b:61616")).add("b", body=opened), "let this bridge in")
    realm = '<plugins><jaasAuthenticationPlugin configuration="activemq"/></plugins>'
    found(Files().add("a", connector("b:61616")).add("b", body=realm), "the connector names none", WARNING)
    absent(Files().add("a", connector("b:61616", 'userName="net"')).add("b", body=realm), "let this bridge in")
    own = Files().add("a", connector("b:61616"), body=USERS.format("", "secret")).add("b")
    found(own, "would not let its own bridge in", WARNING, "a.xml")
    found(Files().add("a", connector("b:61616", 'userName="u"')).add("b"), "asks nobody for a password", NOTE)


# -- lists and groups that miss ----------------------------------------------------------------------------------------


def test_a_connector_that_leads_back_to_its_own_broker() -> None:
    found(Files().add("a", connector("localhost:61616")), "leads back to this broker itself", WARNING, "a.xml")
    files = Files().add("a", connector("static:(tcp://a:61616,tcp://b:61616)", name="all")).add("b")
    found(files, "leads back to this broker itself", NOTE, "a.xml")
    absent(chain("a", "b"), "leads back")


def test_a_group_that_nobody_announces_himself_in_is_named_with_its_name() -> None:
    files = Files().add("a", connector("multicast://default?group=x", name="m"))
    files.add("b")
    files.texts["b.xml"] = files.texts["b.xml"].replace("<transportConnector ", ANNOUNCED.replace("lt", "lt?group=y"))
    found(files, "announces itself in multicast://default?group=x", WARNING, "a.xml")


@pytest.mark.parametrize(
    "uri", ["discovery:(multicast:default)", "multicast://239.255.2.3:6155", "fanout:(multicast://default)"]
)
def test_a_group_is_the_same_whatever_way_it_is_written(uri: str) -> None:
    files = Files().add("a", connector(uri, name="m"))
    files.add("b")
    files.texts["b.xml"] = files.texts["b.xml"].replace("<transportConnector ", ANNOUNCED)
    absent(files, "announces itself", "no link leads")


RIGHTS = (
    "<authorizationPlugin><map><authorizationMap><authorizationEntries>"
    '<authorizationEntry queue=">" read="g" write="g" admin="g"/>'
    '<authorizationEntry topic="{}" read="g" write="g" admin="g"/>'
    "</authorizationEntries></authorizationMap></map></authorizationPlugin></plugins>"
)


@pytest.mark.parametrize(("topic", "deaf"), [("news.>", True), ("ActiveMQ.Advisory.>", False), (">", False)])
def test_a_user_who_may_not_hear_of_consumers_is_no_user_for_a_bridge(topic: str, deaf: bool) -> None:
    files = Files().add("a", connector("b:61616", 'userName="net" password="pw12"'))
    files.add("b", body=USERS.format("", "pw12").replace("</plugins>", RIGHTS.format(topic)))
    if deaf:
        found(files, "b lets this bridge hear of no consumers: 'net' may not read advisories", ERROR, "a.xml")
        files.texts["a.xml"] = files.texts["a.xml"].replace('password="pw12"', 'password="pw12" staticBridge="true"')
    absent(files, "hear of no consumers")


# -- sizes, and clients ------------------------------------------------------------------------------------------------

TOLD = '<transportConnector updateClusterClients="true" '


def test_a_receiver_that_takes_smaller_frames_than_the_sender() -> None:
    small = "tcp://0.0.0.0:61616?wireFormat.maxFrameSize=10000"
    files = Files().add("a", connector("b:61616")).add("b", listen=small)
    found(files, "more than 10000 octets do not cross from a to b", WARNING, "b.xml")
    files.texts["a.xml"] = files.texts["a.xml"].replace("tcp://0.0.0.0:61616", small)
    absent(files, "do not cross from")


def test_over_a_duplex_connector_the_smaller_frame_counts_both_ways() -> None:
    small = "tcp://0.0.0.0:61616?wireFormat.maxFrameSize={}"
    files = Files().add("a", connector("b:61616", 'duplex="true"'), listen=small.format(99))
    files.add("b", listen=small.format(50))
    found(files, "more than 50 octets do not cross from a to b", WARNING, "b.xml")
    files = Files().add("a", connector("b:61616", 'duplex="true"'), listen=small.format(50))
    absent(files.add("b", listen=small.format(50)), "do not cross from")


def test_clients_are_told_by_some_brokers_only() -> None:
    files = chain("a", "b")
    files.texts["a.xml"] = files.texts["a.xml"].replace("<transportConnector ", TOLD)
    found(files, "a tells its clients of the other brokers, and b does not", WARNING, "b.xml")
    files.texts["b.xml"] = files.texts["b.xml"].replace("<transportConnector ", TOLD)
    absent(files, "tells its clients")


def test_clients_are_told_of_an_address_that_is_a_wildcard() -> None:
    files = Files()
    for name, other in (("a", "b"), ("b", "a")):
        files.add(name, connector(f"{other}:61616"), listen=f"tcp://{name}:61616")
        files.texts[f"{name}.xml"] = files.texts[f"{name}.xml"].replace("<transportConnector ", TOLD)
    absent(files, "no address for clients")
    files.texts["b.xml"] = files.texts["b.xml"].replace("tcp://b:61616", "tcp://0.0.0.0:61616")
    found(files, "0.0.0.0:61616 is no address for clients", NOTE, "b.xml")
