"""Queues as operators describe them: Artemis' words, and nothing that is left out silently."""

from __future__ import annotations

import pytest

from entrepot.base.errors import Refused
from entrepot.core.addressing.configuration import FIELDS, WITHOUT_EFFECT, configured, described
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.model.address import ANYCAST, MULTICAST
from kit import Rig


def test_a_configuration_of_artemis_becomes_a_definition():
    said = {"name": "q", "address": "a", "routing-type": "anycast", "filter-string": " n > 1 ", "durable": False}
    assert configured(said) == QueueDefinition(name="q", address="a", routing=ANYCAST, selector="n > 1", durable=False)
    assert configured({"name": "q"}) == QueueDefinition(name="q", address="q", routing=MULTICAST)
    assert configured({"address": "q", "durable": "true"}).durable is True


def test_what_says_nothing_changes_nothing():
    said = {**dict.fromkeys(WITHOUT_EFFECT, None), "name": "q", "id": 7, "auto-delete-delay": 0, "temporary": False}
    assert configured(said) == configured({"name": "q"})


@pytest.mark.parametrize("word", [word for word in FIELDS if word != "durable"])
def test_what_queues_do_not_obey_makes_no_queue(word):
    default = getattr(QueueDefinition(name="q", address="q"), FIELDS[word])
    other = not default if isinstance(default, bool) else 7 if isinstance(default, int) else "x"
    rig = Rig()
    with pytest.raises(Refused, match="do not obey it yet"):
        rig.broker.queues.create(configured({"name": "q", word: other}))
    assert rig.broker.table.queues == {}
    rig.broker.queues.create(configured({"name": "q", word: default}))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"name": "q", "colour": "red"}, "no 'colour'"),
        ({"name": "q", "temporary": True}, "no 'temporary'"),
        ({"name": "q", "ring-size": "many"}, "is wrong"),
        ({"name": "q", "routing-type": "BOTH"}, "routing type"),
    ],
)
def test_what_cannot_be_is_refused(said, why):
    with pytest.raises(Refused, match=why):
        configured(said)


def test_one_name_stands_for_both():
    assert described("", "q", "ANYCAST") == described("q", "", "anycast") == QueueDefinition(name="q", address="q")
