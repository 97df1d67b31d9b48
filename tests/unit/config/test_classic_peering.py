"""What an activemq.xml says about other brokers is in the model, obeyed or not, with its place in the file."""

from __future__ import annotations

from entrepot.base.settings import Dialect
from entrepot.config.model import BrokerConfig
from entrepot.config.peering import AccountsEntry, Position

from .broker_xml import broker, read


def draft(text: str) -> BrokerConfig:
    reading = read(text, bridges=True)
    assert reading.draft is not None
    return reading.draft


def test_connectors_stand_there_whether_this_build_opens_them_or_not() -> None:
    listen = (
        '<transportConnectors><transportConnector name="m" uri="mqtt://0.0.0.0:1883" updateClusterClients="true"/>\n'
        '<transportConnector name="o" uri="tcp://0.0.0.0:61616" discoveryUri="multicast://default" '
        'auditNetworkProducers="false"/><transportConnector name="n" uri="tcp://0.0.0.0:1" autoStart="false"/>'
        "</transportConnectors>"
    )
    made = draft(broker(listen=listen, attributes='transportConnectorURIs="stomp://0.0.0.0:2, tcp://0.0.0.0:3"'))
    found = [(one.name, one.uri, one.discovery, one.audits, one.tells_clients) for one in made.peering.listeners]
    assert found == [
        ("m", "mqtt://0.0.0.0:1883", "", True, True),
        ("o", "tcp://0.0.0.0:61616", "multicast://default", False, False),
        ("", "stomp://0.0.0.0:2", "", True, False),
        ("", "tcp://0.0.0.0:3", "", True, False),
    ]
    assert [one.at.line for one in made.peering.listeners] == [1, 2, 1, 1]
    assert made.family is Dialect.CLASSIC


def test_what_this_build_does_not_obey_is_known_all_the_same() -> None:
    assert draft(broker()).peering.advisories
    assert not draft(broker(attributes='advisorySupport="false"')).peering.advisories
    entry = (
        '<destinationPolicy><policyMap><policyEntries><policyEntry queue="a.>" enableAudit="false">'
        "<networkBridgeFilterFactory><conditionalNetworkBridgeFilterFactory "
        'replayWhenNoConsumers="true"/></networkBridgeFilterFactory></policyEntry></policyEntries></policyMap>'
        "</destinationPolicy>"
    )
    (replay,) = draft(broker(entry)).peering.replays
    assert (replay.pattern, replay.audited) == ("a.>", False)


def test_who_may_connect() -> None:
    plugin = (
        '<plugins><simpleAuthenticationPlugin anonymousAccessAllowed="true"><users>'
        '<authenticationUser username="u" password="p" groups="g"/></users></simpleAuthenticationPlugin></plugins>'
    )
    found = draft(broker(plugin)).peering.accounts
    assert found is not None
    assert (found.users, found.anonymous, found.complete) == ({"u": "p"}, True, True)
    jaas = draft(broker('<plugins><jaasAuthenticationPlugin configuration="x"/></plugins>')).peering.accounts
    assert isinstance(jaas, AccountsEntry)
    assert not jaas.complete


def test_the_store_is_chosen_by_an_absolute_path_of_the_file_itself() -> None:
    def chosen(body: str, attributes: str = "") -> bool:
        return draft(broker(body, attributes)).peering.chose_store

    assert chosen('<persistenceAdapter><kahaDB directory="/mnt/shared"/></persistenceAdapter>')
    assert not chosen('<persistenceAdapter><kahaDB directory="${activemq.data}/kahadb"/></persistenceAdapter>')
    assert chosen("", 'dataDirectory="/mnt/shared"')


def test_a_network_connector_knows_its_place_and_what_the_file_gave() -> None:
    body = (
        '\n<networkConnectors><networkConnector name="n" uri="static:(tcp://b:1)" duplex="true"/></networkConnectors>'
    )
    (network,) = draft(broker(body)).networks
    assert network.given == ("name", "uri", "duplex")
    assert network.at == Position(2, network.at.path)
    assert network.at.path.endswith("networkConnector")
