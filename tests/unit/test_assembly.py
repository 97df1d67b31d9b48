"""A broker is put together in one place: what a plan refuses, what each step adds, and in which order."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import entrepot
from entrepot.assembly import Assembly, Plan, Ports
from entrepot.base.environment import MIB, SECOND
from entrepot.base.errors import AccessDenied, InvalidOption, UserUnknown
from entrepot.base.settings import Dialect
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.config.model import BrokerConfig, UsageOptions, changes
from entrepot.config.peering import ClusterEntry, Peering, PlaceEntry, Position
from entrepot.config.security import OPEN, RuleEntry, Security, UserEntry
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.events.facts import Hub
from entrepot.core.operators.jobs import ADDRESS as JOBS
from entrepot.core.operators.management import ADDRESS as MANAGEMENT
from entrepot.core.security.access import CONSUME, EVERYTHING
from entrepot.core.security.directory import Subject
from entrepot.core.transactions.carrying import Work
from entrepot.core.transactions.transaction import Transaction
from entrepot.journal.memory import MemoryJournal
from entrepot.model.address import ANYCAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.options import StompOptions
from journals import Lots
from kit import Rig, admitted, knock

SOURCES = Path(entrepot.__file__).parent


def assembly(plan: Plan) -> Assembly:
    return Assembly(plan, Ports(MemoryJournal(), Lots(1), Hub()))


def started(plan: Plan) -> Assembly:
    made = assembly(plan)
    made.recover(SECOND, 1_000_000)
    made.equip()
    made.found(lambda action: (action(), None)[1])
    return made


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        ({"memory_limit": 0}, "0 octets"),
        ({"zone": "a b"}, "zone"),
        ({"client_zones": ["nonsense"]}, "nonsense"),
        ({"policies": {"#": {"no-such-setting": "1"}}}, "no-such-setting"),
    ],
)
def test_a_plan_refuses_what_no_broker_can_be_made_from(refused: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidOption, match=why):
        Plan(**{"name": "b", "memory_limit": 1 << 20, **refused})  # type: ignore[arg-type]


def test_two_connectors_of_one_name_are_refused() -> None:
    one = NetworkConnectorOptions(uri="static:(tcp://a:1)", name="NC")
    with pytest.raises(InvalidOption, match="two network connectors are called 'NC'"):
        Plan("b", 1 << 20, networks=[one, one]).connectors()


def test_each_assembly_of_a_plan_has_connectors_of_its_own() -> None:
    plan = Plan("b", 1 << 20, networks=[NetworkConnectorOptions(uri="static:(tcp://a:1)", name="NC")])
    first, second = assembly(plan), assembly(plan)
    assert [one.options.name for one in first.connectors] == ["NC"]
    assert first.connectors[0] is not second.connectors[0]


def test_what_serves_beside_queues_is_there_once_it_is_equipped() -> None:
    made = assembly(Plan("b", 1 << 20))
    with pytest.raises(InvalidOption, match="not running"):
        _ = made.acceptor
    made.recover(SECOND, 1_000_000)
    made.equip()
    assert made.neighbourhood.acceptor is made.acceptor
    assert {MANAGEMENT, JOBS} <= set(made.broker.addresses.services)


def test_a_scheduler_that_is_off_takes_no_jobs() -> None:
    plan = Plan("b", 1 << 20)
    plan.options.scheduler = False
    assert JOBS not in started(plan).broker.addresses.services


def test_what_the_configuration_says_exists_after_the_start_and_not_before() -> None:
    config = BrokerConfig(queues=(QueueDefinition(name="orders", address="orders", routing=ANYCAST),))
    made = assembly(Plan("b", 1 << 20, config=config))
    made.recover(SECOND, 1_000_000)
    made.equip()
    assert "orders" not in made.broker.table.queues
    made.found(lambda action: (action(), None)[1])
    assert "orders" in made.broker.table.queues


def test_sessions_of_all_languages_are_numbered_together() -> None:
    made = started(Plan("b", 1 << 20))
    made.greet_stomp(Shell(), StompOptions(), "one")
    made.greet_openwire(Shell(), OpenWireOptions(), "two")
    made.greet_amqp(Shell(), AmqpOptions(), "three")
    assert made.connections == 3


def test_who_takes_leave_hands_nothing_out_any_more() -> None:
    made = started(Plan("b", 1 << 20))
    made.take_leave()
    assert made.broker.ceased


def test_no_world_puts_a_broker_together_by_itself() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{node.lineno}"
        for path in sorted(SOURCES.rglob("*.py"))
        if re.search(r"(BrokerCore|Neighbourhood|Acceptor)\(", text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in ("BrokerCore", "Neighbourhood", "Acceptor") and path.name != "assembly.py"
    ]
    assert found == []


@pytest.mark.parametrize(("password", "trusted"), [("own", True), ("", False)])
def test_the_default_password_of_clusters_opens_no_broker_that_asks_who_comes(password: str, trusted: bool) -> None:
    at = Position()
    peering = Peering(
        places=(PlaceEntry(name="me", uri="tcp://h:1", at=at),),
        clusters=(ClusterEntry(name="c", connector="me", at=at),),
        cluster_user="cluster",
        cluster_password=password,
    )
    security = Security(users=(UserEntry("app", "plain:x"),), rules=())
    made = started(Plan("b", 1 << 20, config=BrokerConfig(peering=peering, security=security)))
    assert len(made.clusters) == 1
    answered = knock(made.broker.access, "cluster", password or "CHANGE ME!!")
    if trusted:
        assert answered.subject().peer
    else:
        with pytest.raises(UserUnknown):
            answered.subject()


def test_what_few_brokers_need_is_not_loaded_by_all() -> None:
    """Five megabytes of a broker that rests: CORE, the clusters of Artemis and their bridges; what a pair needs."""
    said = "import sys, entrepot.node; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True).stdout.split()
    light = {"", ".doorbell", ".options", ".uri"}
    parts = ["entrepot.artemis", "entrepot.cluster.clusters.connection", "entrepot.cluster.carrying.connector"]
    parts += ["entrepot.io.standby", "entrepot.io.leases", "entrepot.ha.candidate", "shutil", "tempfile"]
    assert [name for name in parts if name in loaded] == []
    # What answers an operator comes with a question.
    operators = {name.removeprefix("entrepot.core.operators.") for name in loaded if ".core.operators." in name}
    assert operators == {"census", "jobs", "management", "rbac", "said", "service"}
    wire = "entrepot.protocols.artemis"
    assert {name.removeprefix(wire) for name in loaded if name.startswith(wire)} == light
    wire = "entrepot.protocols.amqp"
    assert {name.removeprefix(wire) for name in loaded if name.startswith(wire)} == light - {".doorbell"}


def test_a_message_of_core_is_read_where_nobody_speaks_it() -> None:
    said = (
        "import entrepot.node; from entrepot.model.message import language; "
        "print(language(3).name, language(4).name, language(99).name)"
    )
    read = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True).stdout
    assert read.strip() == "CORE AMQP language 99"


# -- a configuration that is read again --------------------------------------------------------------------------------


def guarded(rights: int, *groups: str, password: str = "plain:p", reloads: bool = True) -> BrokerConfig:
    rule = RuleEntry("#", (("g", rights),))
    user = UserEntry("u", password, groups)
    return BrokerConfig(
        family=Dialect.ARTEMIS, security=Security(users=(user,), rules=(rule,), narrowest=True, reloads=reloads)
    )


def follow(made: Assembly, config: BrokerConfig) -> None:
    made.follow(config, lambda action: (action(), None)[1])


def sender(made: Assembly) -> tuple[Callable[[], int], Subject]:
    """Return how somebody who is in goes on to send to a destination that he keeps, and who he is."""
    broker = made.broker
    subject = admitted(broker.access, "u", "p")
    place = [Destination("q", ANYCAST)]
    broker.access.send(subject, place)
    target = broker.target(place)
    broker.access.keep(target, subject, place)
    return lambda: broker.sending.send(a_message("hello"), target), subject


def test_who_loses_a_right_may_not_go_on_and_who_gets_it_back_may() -> None:
    made = started(Plan("b", 1 << 20, config=guarded(EVERYTHING, "g")))
    send, _ = sender(made)
    send()
    follow(made, guarded(CONSUME, "g"))
    for _ in range(2):
        with pytest.raises(AccessDenied):
            send()
    follow(made, guarded(EVERYTHING, "g"))
    send()
    assert made.broker.table.queues["q"].count == 2


def test_who_is_in_has_the_groups_that_the_file_of_users_gives_him_now() -> None:
    made = started(Plan("b", 1 << 20, config=guarded(EVERYTHING, "g")))
    send, subject = sender(made)
    follow(made, guarded(EVERYTHING, "other"))
    with pytest.raises(AccessDenied):
        send()
    follow(made, guarded(EVERYTHING, "g", password="plain:new"))
    send()
    with pytest.raises(UserUnknown):
        admitted(made.broker.access, "u", "p")
    assert admitted(made.broker.access, "u", "new") is subject


def test_users_stay_where_their_files_do_not_count_anew_and_rights_change_all_the_same() -> None:
    made = started(Plan("b", 1 << 20, config=guarded(EVERYTHING, "g", reloads=False)))
    send, _ = sender(made)
    follow(made, guarded(EVERYTHING, password="plain:new", reloads=False))
    send()
    admitted(made.broker.access, "u", "p")
    follow(made, guarded(CONSUME, "g", reloads=False))
    with pytest.raises(AccessDenied):
        send()


def test_whoever_has_to_say_who_he_is_has_to_until_a_restart() -> None:
    had = guarded(EVERYTHING, "g")
    made = started(Plan("b", 1 << 20, config=had))
    follow(made, BrokerConfig(family=Dialect.ARTEMIS))
    with pytest.raises(UserUnknown):
        admitted(made.broker.access, "u", "wrong")
    assert made.plan.security == had.security
    (change,) = changes(had, BrokerConfig(family=Dialect.ARTEMIS))
    assert not change.live


def test_what_was_said_beside_the_file_has_the_last_word_still() -> None:
    plan = Plan("b", 1 << 20, config=BrokerConfig(), policies={"q": {"max_deliveries": "7"}}, security=OPEN)
    made = started(plan)
    follow(made, guarded(0))
    assert admitted(made.broker.access, "anybody", None).name == "anybody"
    assert made.broker.policies.of("q").max_deliveries == 7


def test_a_configuration_that_cannot_hold_changes_nothing() -> None:
    had = guarded(EVERYTHING, "g")
    made = started(Plan("b", 1 << 20, config=had))
    wrong = guarded(0, password="nonsense")
    with pytest.raises(InvalidOption):
        follow(made, wrong)
    send, _ = sender(made)
    send()
    assert made.plan.config is had


def test_a_commit_that_was_looked_at_is_carried_out_though_rights_changed_since() -> None:
    made = started(Plan("b", 1 << 20, config=guarded(EVERYTHING, "g")))
    broker = made.broker
    sender(made)[0]()
    subject = admitted(broker.access, "u", "p")
    place = [Destination("q", ANYCAST)]
    target = broker.target(place)
    broker.access.keep(target, subject, place)
    transaction = Transaction("t")
    transaction.send(a_message("promised"), target)
    work = Work(broker.sending, broker.letters, transaction)
    work.portion(10)  # all of it is allowed
    follow(made, guarded(CONSUME, "g"))
    assert work.portion(10)
    work.close()
    broker.journal.end()
    assert broker.table.queues["q"].count == 2
    with pytest.raises(AccessDenied):
        broker.sending.send(a_message("refused"), target)


def a_message(body: str) -> Message:
    return Rig(disk=False).message(body, "q")


def test_a_file_that_is_read_again_says_how_much_memory_there_is_unless_somebody_said_it_beside() -> None:
    def of(octets: int) -> BrokerConfig:
        return BrokerConfig(usage=UsageOptions(memory_limit=octets), family=Dialect.ARTEMIS)

    made = started(Plan("a", 50 * MIB, config=of(50 * MIB)))
    follow(made, of(80 * MIB))
    follow(made, of(100 * MIB))
    broker = made.broker
    assert (broker.memory.limit, broker.room.most, broker.stages.ledger.limit) == (100 * MIB, 25 * MIB, 25 * MIB)
    broker.limit_memory(10 * MIB)  # as an operator does: what the file says of something else changes nothing of it
    follow(made, of(100 * MIB))
    assert broker.memory.limit == 10 * MIB
    beside = started(Plan("a", 60 * MIB, config=of(50 * MIB)))
    follow(beside, of(100 * MIB))
    assert beside.broker.memory.limit == 60 * MIB
    assert all(change.live for change in changes(of(50 * MIB), of(100 * MIB)))
