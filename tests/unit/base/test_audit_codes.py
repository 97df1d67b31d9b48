"""What Artemis' audit log calls what people do here."""

from __future__ import annotations

import re
from typing import Final

import msgspec
import pytest

from entrepot.base.audit_codes import DEEDS, EXEC, deed_of
from entrepot.console import jolokia
from entrepot.console.acts import VERBS
from entrepot.core.operators.together.whole import LOOKS

ARTEMIS: Final = 'org.apache.activemq.artemis:broker="b",component=addresses,address="a"'
QUEUE: Final = ARTEMIS + ',subcomponent=queues,routing-type="anycast",queue="a"'
CLASSIC: Final = "org.apache.activemq:type=Broker,brokerName=b,destinationType=Queue,destinationName=a"

WITHOUT: Final = {  # their audit log says nothing of these
    "replay",  # of an address, a queue
    "reloadConfigurationFile",
}


@pytest.mark.parametrize(
    ("action", "mbean", "operation", "done", "failed"),
    [
        ("log in", "", "", "AMQ601715", "AMQ601716"),
        ("purge", "", "", "AMQ601196 AMQ601713", "AMQ601196 AMQ601714"),
        ("move", "", "", "AMQ601202", "AMQ601202"),
        ("message GET", "", "", "AMQ601501", ""),
        (EXEC, QUEUE, "pause()", "AMQ601212 AMQ601719", "AMQ601212 AMQ601720"),
        (EXEC, ARTEMIS, "pause(boolean)", "AMQ601212 AMQ601731", "AMQ601212 AMQ601732"),
        (EXEC, CLASSIC, "purge", "AMQ601196 AMQ601713", "AMQ601196 AMQ601714"),
        (EXEC, ARTEMIS, "purge", "AMQ601750 AMQ601751", "AMQ601750 AMQ601752"),
        (EXEC, CLASSIC, "moveMatchingMessagesTo(java.lang.String,java.lang.String)", "AMQ601202", "AMQ601202"),
        (EXEC, 'org.apache.activemq.artemis:broker="b",component=bridges,name="x"', "stop", "AMQ601240", "AMQ601240"),
    ],
)
def test_the_deed_has_the_codes(action: str, mbean: str, operation: str, done: str, failed: str) -> None:
    deed = deed_of(action, mbean, operation)
    assert deed is not None
    assert (deed.codes(well=True), deed.codes(well=False)) == (done, failed)


def test_a_page_is_no_operation_and_no_operation_a_page() -> None:
    assert deed_of("removeMessages") is None
    assert deed_of(EXEC, QUEUE, "remove-one") is None
    assert deed_of(EXEC, QUEUE, "start") is None


def test_each_row_says_something() -> None:
    for deed in DEEDS:
        codes = [code for code in (deed.doing, deed.done, deed.failed) if code]
        assert codes, deed
        assert all(re.fullmatch(r"AMQ601\d{3}", code) for code in codes), deed
        assert deed.says.startswith("User {} "), deed
        assert deed.pages or deed.calls, deed


def _names(family: str) -> dict[str, list[str]]:
    kinds = msgspec.json.decode(jolokia.__spec__.loader.get_data(f"{jolokia.__path__[0]}/{family}.json"))  # type: ignore[union-attr]
    return {kind: [each for each in told["op"] if not LOOKS.match(each)] for kind, told in kinds.items()}


BEANS: Final = {
    "artemis": {
        "queue": QUEUE,
        "address": ARTEMIS,
        "acceptor": "component=acceptors",
        "bridge": "component=bridges",
        "clusterconnection": "component=cluster-connections",
        "brokerconnection": "component=broker-connections",
        "broker": "",
    },
    "classic": {
        "queue": CLASSIC,
        "topic": CLASSIC.replace("=Queue", "=Topic"),
        "connection": "connector=clientConnectors,connectionViewType=clientId,connectionName=x",
        "broker": "",
    },
}


@pytest.mark.parametrize("family", BEANS)
def test_whatever_changes_something_has_a_row_or_is_known_to_have_none(family: str) -> None:
    lacking = {
        operation
        for kind, operations in _names(family).items()
        for operation in operations
        if deed_of(EXEC, BEANS[family].get(kind, ""), operation) is None
    }
    assert lacking <= WITHOUT


def test_each_action_of_a_page_has_a_row_but_what_artemis_cannot() -> None:
    assert {action for action in VERBS if deed_of(action) is None} == {"cancel"}
