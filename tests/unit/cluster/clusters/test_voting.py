"""What an Artemis is told that asks who is primary: what this node sees, in the words in which it compares."""

from __future__ import annotations

import pytest

from clustered import Cluster
from entrepot.cluster.clusters.contact import Opened
from entrepot.cluster.clusters.sight import Seen
from entrepot.cluster.clusters.voting import as_hashed, text_of, voted
from entrepot.protocols.artemis.packets import BackupRegistration, BackupRegistrationFailed, Packet, QuorumVote
from entrepot.protocols.artemis.primitives import PARAMETER_INT, PARAMETER_TEXT, Connector, Parameter
from entrepot.protocols.artemis.schema import ALREADY_REPLICATING

FACTORY = "org.apache.activemq.artemis.core.remoting.impl.netty.NettyConnectorFactory"
WHERE = Connector(
    "own",
    FACTORY,
    [
        Parameter("scheme", PARAMETER_TEXT, "tcp"),
        Parameter("port", PARAMETER_TEXT, "61616"),
        Parameter("host", PARAMETER_TEXT, "10.0.0.1"),
    ],
)
TEXT = (
    "TransportConfiguration(name=own, factory=org-apache-activemq-artemis-core-remoting-impl-netty-"
    "NettyConnectorFactory)?scheme=tcp&port=61616&host=10-0-0-1"
)


@pytest.mark.parametrize("handler", ["PrimaryFailoverQuorumVote", "LiveFailoverQuorumVote"])
@pytest.mark.parametrize("stay", [False, True])
def test_a_node_that_is_seen_is_no_ground_to_take_over_and_one_to_stay(handler: str, stay: bool) -> None:
    asked = QuorumVote(handler=handler, vote=stay, node="n")
    there, gone = voted(asked, WHERE, Seen.HERE), voted(asked, WHERE, Seen.GONE)
    assert (there.handler, there.vote, there.node, there.connector) == (handler, stay, "n", TEXT)
    assert (gone.handler, gone.vote, gone.node, gone.connector) == (handler, not stay, "n", None)
    sought, unplaced = voted(asked, WHERE, Seen.SOUGHT), voted(asked, None, Seen.HERE)
    assert (sought.vote, sought.connector) == (stay, TEXT), "who may be there is there"
    assert (unplaced.vote, unplaced.connector) == (stay, None)


def test_the_order_is_that_of_a_java_map() -> None:
    """As `new HashMap<>()` of a Java 17 hands these out, beyond its first size too."""
    assert as_hashed(["port", "host", "scheme"]) == ["scheme", "port", "host"]
    words = "port host scheme sslEnabled keyStorePath keyStorePassword trustStorePath localAddress tcpNoDelay useEpoll"
    assert " ".join(as_hashed(words.split())) == (
        "scheme port keyStorePassword localAddress sslEnabled host trustStorePath keyStorePath useEpoll tcpNoDelay"
    )
    grown = as_hashed([f"key{number}" for number in range(20)])
    assert [int(each.removeprefix("key")) for each in grown] == [
        *(1, 2, 0, 5, 6, 3, 4, 9, 7, 8),
        *(11, 10, 15, 14, 13, 12, 19, 18, 17, 16),
    ]


def test_passwords_are_hidden_and_what_artemis_does_not_know_comes_last() -> None:
    made = Connector(
        "c",
        "a.b",
        [
            Parameter("zeta", PARAMETER_TEXT, "1.5", extra=True),
            Parameter("keyStorePassword", PARAMETER_TEXT, "secret"),
            Parameter("port", PARAMETER_INT, 5),
        ],
    )
    text = text_of(made)
    assert text.startswith("TransportConfiguration(name=c, factory=a-b)?")
    assert "keyStorePassword=****" in text
    assert text.endswith("&zeta=1-5")
    assert text_of(Connector("c", "a.b", [])) == "TransportConfiguration(name=c, factory=a-b)"


def test_the_text_is_what_artemis_2_42_writes() -> None:
    """Of ``tcp://10.228.0.2:61616?tcpNoDelay=true&keyStorePassword=x&zeta=1.5&sslEnabled=false``, run beside it."""
    parameters = {"tcpNoDelay": "true", "host": "10.228.0.2", "sslEnabled": "false", "port": "61616"}
    made = Connector("p", FACTORY, [Parameter(name, PARAMETER_TEXT, value) for name, value in parameters.items()])
    made.parameters.append(Parameter("keyStorePassword", PARAMETER_TEXT, "x"))
    made.parameters.append(Parameter("zeta", PARAMETER_TEXT, "1.5", extra=True))
    assert text_of(made) == (
        "TransportConfiguration(name=p, factory=org-apache-activemq-artemis-core-remoting-impl-netty-"
        "NettyConnectorFactory)?port=61616&keyStorePassword=****&sslEnabled=false&host=10-228-0-2&tcpNoDelay=true"
        "&zeta=1-5"
    )


@pytest.mark.parametrize("admitted", [True, False])
def test_a_backup_of_artemis_that_asks_for_the_data_is_sent_elsewhere(
    monkeypatch: pytest.MonkeyPatch, admitted: bool
) -> None:
    """One that gets no answer waits for ever; who did not show the credentials is not heard."""
    world = Cluster()
    asking, asked = world.node(0, [1]), world.node(1, [])
    asking.start()
    asked.start()
    world.wait(1500)
    (contact,) = asking.connection.contacts.values()
    (cable,) = [one for one in world.cables if one.owner is contact]
    cable.server.admitted = admitted
    heard: list[Packet] = []
    monkeypatch.setattr(Opened, "told", lambda opened, client, packet: heard.append(packet))
    opened = contact._opened  # what a real backup says over a connection of its own
    assert opened is not None
    for _ in range(2):
        asking.act(lambda: opened.say(BackupRegistration(user="cluster", password="secret", connector=WHERE)))
        world.wait(100)
    refused = [one.problem for one in heard if isinstance(one, BackupRegistrationFailed)]
    assert refused == ([ALREADY_REPLICATING] * 2 if admitted else [])
    assert len([one for one in asked.said if "its data are asked for" in one]) == int(admitted), "said once"
