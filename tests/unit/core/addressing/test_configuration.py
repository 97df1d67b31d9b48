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
    said = {**dict.fromkeys(WITHOUT_EFFECT, None), "name": "q", "id": 7, "temporary": False}
    assert configured(said) == configured({"name": "q"})


def test_what_queues_do_not_obey_makes_no_queue():
    rig = Rig()
    with pytest.raises(Refused, match="do not obey it yet"):
        rig.broker.queues.create(configured({"name": "q", "internal": True}))
    assert rig.broker.table.queues == {}
    rig.broker.queues.create(configured({"name": "q", "internal": False}))


@pytest.mark.parametrize("word", [word for word in FIELDS if word not in ("internal", "user")])
def test_every_word_is_heard(word):
    kind = str(QueueDefinition.__annotations__[FIELDS[word]])
    value: object = True if kind.startswith("bool") else 7 if kind.startswith("int") else "x"
    assert getattr(configured({"name": "q", word: value}), FIELDS[word]) == value
    assert configured({"name": "q", word: None}) == configured({"name": "q"})


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
