"""Every element and attribute that is declared does what its declaration says, found by walking the declarations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from entrepot.base.errors import Fault
from entrepot.base.settings import Unit
from entrepot.config.classic.policy_elements import ELSEWHERE, KINDS
from entrepot.config.findings import Severity
from entrepot.config.vocabulary import SEVERITY, Attribute, Does, Kind, Slot, no_effect, obeyed, registry

from .broker_xml import LISTEN, broker, read

SAMPLES = {
    "uri": "static:(tcp://a:1)",
    "transportConnectorURIs": "stomp://127.0.0.1:0",
    "networkConnectorURIs": "static:(tcp://a:1),multicast://default",
    "selector": "a = 1",
    "messageGroupMapFactoryType": "cached",
    "sendFailIfNoSpace": "true",
    "name": "a.name",
    "persistent": "true",
    "percentOfJvmHeap": "50",
    "prefetchSize": "10",
    "journalMaxFileLength": "1mb",
    "collisionAvoidancePercent": "15",
    "maxSlowDuration": "1000",
    "maxTimeSinceLastAck": "1000",
    "limit": "4mb",
    "physicalName": "a.b",
    "dataSource": "#ds",
    "lockDataSource": "#ds",
}
BY_UNIT = {
    Unit.TEXT: "text",
    Unit.FLAG: "true",
    Unit.CHOICE: "true",
    Unit.COUNT: "5",
    Unit.FACTOR: "0.5",
    Unit.OCTETS: "1mb",
    Unit.MILLISECONDS: "1000",
    Unit.DURATION: "1000",
}
ONE_OF = {"policyEntry": ("queue",), "redeliveryPolicy": ("queue",), "filteredDestination": ("queue", "selector")}
DATA_SOURCE = '<bean id="ds" class="x.DataSource"><property name="url" value="jdbc:sqlite:l.db"/></bean>'
PLACES = ("queue", "topic", "tempQueue", "tempTopic")


def sample(attribute: Attribute) -> str:
    if attribute.name == "limit" and attribute.unit is Unit.COUNT:
        return "7"
    return SAMPLES.get(attribute.name, BY_UNIT[attribute.unit])


def attributes(kind: Kind) -> str:
    """Return every obeyed attribute of a kind, with a value that may stand beside the others."""
    taken = [one for one in kind.attributes.values() if one.does is Does.OBEYED]
    if kind.name in ONE_OF:
        taken = [one for one in taken if one.name not in PLACES or one.name in ONE_OF[kind.name]]
    if kind.name == "transportConnector":
        return 'name="t" uri="stomp://127.0.0.1:0" autoStart="true"'
    if kind.name == "networkConnector":
        taken = [one for one in taken if one.name != "staticBridge"]
    return " ".join(f'{one.name}="{sample(one)}"' for one in taken)


def chains() -> dict[str, list[tuple[Slot, Kind]]]:
    """Return a way from the broker to every kind: slots and the kinds within."""
    found: dict[str, list[tuple[Slot, Kind]]] = {"broker": []}
    pending = ["broker"]
    while pending:
        name = pending.pop(0)
        for slot in KINDS[name].slots.values():
            for inner in slot.kinds:
                if inner not in found:
                    found[inner] = [*found[name], (slot, KINDS[inner])]
                    pending.append(inner)
    return found


CHAINS = chains()


def document(name: str, given: str, content: str = "") -> str:
    """Return a broker with one element of kind ``name`` in it, however deep."""
    text = ""
    for slot, kind in reversed(CHAINS[name]):
        own = given if kind.name == name else _needed(kind)
        inside = content if kind.name == name else text
        text = f"<{slot.name}><{kind.name} {own}>{inside}</{kind.name}></{slot.name}>"
    listen = "" if "<transportConnectors>" in text else LISTEN
    around = DATA_SOURCE if "#ds" in text else ""
    given = given if name == "broker" else ""
    return broker(content if name == "broker" else text, given, listen=listen, around=around)


def _needed(kind: Kind) -> str:
    """Return what an element must say to be right, beside what is tested in it."""
    return {
        "policyEntry": 'queue="a"',
        "networkConnector": 'uri="static:(tcp://a:1)"',
        "transportConnector": 'uri="stomp://127.0.0.1:0"',
        "compositeQueue": 'name="c"',
        "compositeTopic": 'name="c"',
        "redeliveryPolicy": 'queue="a"',
        "lease-database-locker": 'dataSource="#ds"',
    }.get(kind.name, "")


def unobeyed() -> Iterator[tuple[str, Attribute]]:
    for kind in KINDS.values():
        if kind.does is Does.OBEYED:
            for attribute in kind.attributes.values():
                if attribute.does is not Does.OBEYED:
                    yield kind.name, attribute


OBEYED_KINDS = [name for name, kind in KINDS.items() if kind.does is Does.OBEYED]
OTHER_KINDS = [name for name, kind in KINDS.items() if kind.does is not Does.OBEYED]


def test_every_kind_can_be_reached_from_the_broker() -> None:
    assert set(CHAINS) == set(KINDS)
    assert not ELSEWHERE & set(KINDS)


@pytest.mark.parametrize("name", OBEYED_KINDS)
def test_somebody_hears_every_attribute_that_is_said_to_be_obeyed(name: str) -> None:
    needs_content = {"filteredDestination": ""}.get(name, "")
    reading = read(document(name, attributes(KINDS[name]), needs_content))
    assert reading.bean is not None
    assert [path for bean in reading.bean.walk() for path in bean.unheard()] == []
    found = [bean for bean in reading.bean.walk() if bean.kind.name == name]
    assert found
    # these need a file beside this one, or a word of a list
    if name not in ("tempQueue", "tempTopic", "publishedAddressPolicy") and not name.startswith("jaas"):
        assert [finding.describe() for finding in reading.findings.errors] == []


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_an_element_that_is_not_obeyed_is_a_finding_with_a_reason(name: str) -> None:
    reading = read(document(name, 'any="thing"', "<below/>"))
    kind = KINDS[name]
    mine = [finding for finding in reading.findings if finding.path.endswith(name)]
    assert [finding.severity for finding in mine] == [SEVERITY[kind.does]]
    assert kind.why in mine[0].what
    assert (reading.config is None) == (kind.does is Does.REFUSED)


@pytest.mark.parametrize(
    ("name", "attribute"), list(unobeyed()), ids=lambda one: one if isinstance(one, str) else one.name
)
def test_an_attribute_that_is_not_obeyed_is_a_finding_unless_it_asks_for_the_same(
    name: str, attribute: Attribute
) -> None:
    other = sample(attribute)
    if attribute.same is not None and attribute.parse(other) == attribute.parse(attribute.same):
        other = {"true": "false", "false": "true"}.get(other, "3")
    given = f'{_needed(KINDS[name])} {attribute.name}="{other}"'
    reading = read(document(name, given))
    mine = [finding for finding in reading.findings if finding.path.endswith(f"/@{attribute.name}")]
    assert [finding.severity for finding in mine] == [SEVERITY[attribute.does]]
    assert attribute.why in mine[0].what
    assert mine[0].line == 1
    if attribute.same is not None:
        quiet = read(document(name, f'{_needed(KINDS[name])} {attribute.name}="{attribute.same}"'))
        assert not [finding for finding in quiet.findings if finding.path.endswith(f"/@{attribute.name}")]


@pytest.mark.parametrize(
    ("name", "slot"),
    [(kind.name, slot) for kind in KINDS.values() for slot in kind.slots.values() if slot.does is not Does.OBEYED],
    ids=lambda one: one if isinstance(one, str) else one.name,
)
def test_a_property_that_is_not_read_is_a_finding_whatever_it_holds(name: str, slot: Slot) -> None:
    inside = f'<{slot.name}><bean xmlns="http://www.springframework.org/schema/beans" class="x.Y"/></{slot.name}>'
    reading = read(document(name, _needed(KINDS[name]), inside))
    mine = [finding for finding in reading.findings if finding.path.endswith(f"/{slot.name}")]
    assert [finding.severity for finding in mine] == [SEVERITY[slot.does]]


def test_nothing_is_declared_twice_without_a_reason_or_about_nobody() -> None:
    with pytest.raises(Fault, match="declared twice"):
        Kind("a", obeyed("x:text"), no_effect("why", "x:text"))
    with pytest.raises(Fault, match="nobody says why"):
        registry([Kind("a", no_effect("", "x:text"))])
    with pytest.raises(Fault, match="nobody declares"):
        registry([Kind("a", Slot("s", ("b",)))])
    with pytest.raises(Fault, match="no declaration"):
        obeyed("x:colour")
    with pytest.raises(Fault, match="declared twice"):
        registry([Kind("a"), Kind("a")])
    assert Severity.ERROR is SEVERITY[Does.REFUSED]
