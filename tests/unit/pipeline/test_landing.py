"""The supervisor of queries: what its file may say, when a flow is started again, what its pages tell."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import InvalidOption
from entrepot.pipeline.landing import configuration
from entrepot.pipeline.landing.configuration import Supervision, read
from entrepot.pipeline.landing.supervising import State, Supervisor

FILE = """
checkpoints = "state"
metrics = "127.0.0.1:0"
[source]
url = "stomp://127.0.0.1:61613"
maxMessagesPerTrigger = 500
[spark]
"spark.sql.shuffle.partitions" = 2
[[land]]
name = "orders"
path = "data/orders"
parse = "json"
schema = "order int"
[land.source]
queue = "orders"
[[land]]
name = "prices"
path = "data/prices"
every = "1 minute"
[land.source]
topic = "prices"
subscription = "lander"
maxMessagesPerTrigger = 9
"""


def test_what_it_says_of_all_flows_each_may_say_otherwise() -> None:
    landing = read(FILE)
    orders, prices = landing.land
    common = {"url": "stomp://127.0.0.1:61613", "maxMessagesPerTrigger": "500"}
    assert orders.options == {**common, "queue": "orders", "subscription": "orders"}
    assert prices.options == {**common, "topic": "prices", "subscription": "lander", "maxMessagesPerTrigger": "9"}
    assert configuration.settings(landing) == {"spark__sql__shuffle__partitions": "2"}


@pytest.mark.parametrize(
    ("old", "new", "said", "remedy"),
    [
        ("parse =", "pares =", "pares", "did you mean 'parse'"),
        ('name = "prices"', 'name = "orders"', "the same name", "its own"),
        (
            'topic = "prices"\nsubscription = "lander"',
            'queue = "orders"\nsubscription = "orders"',
            "subscription",
            "its own",
        ),
        ('every = "1 minute"', 'every = "soon"', "every is 'soon'", "10 seconds"),
        ('schema = "order int"', "", "go together", "schema ="),
        ('queue = "orders"', 'queue = "orders,,bills"', "an empty name", "write each once"),
        ('queue = "orders"', 'quee = "orders"', "no option 'quee'", "queue"),
        ('metrics = "127.0.0.1:0"', 'metrics = "here"', "metrics 'here' is not HOST:PORT", "9464"),
        ('path = "data/orders"', 'path = "data/orders"\nformat = "orc"', "'orc'", "parquet"),
        ('name = "orders"', 'name = "../orders"', "no name", "letters"),
        ('queue = "orders"', 'queue = "orders"\ncolumns = "message_id,text"', "could be parsed", "add body"),
        ('parse = "json"', 'parse = "avro"', "no record of Avro", "schema = '{"),
        ('parse = "json"', 'parse = "xml"', "'xml'", '"avro"'),
        ("[spark]", '[lineage]\nurls = "http://catalog"\n[spark]', "urls", "did you mean 'url'"),
        ("[spark]", "[lineage]\nevery = 0\n[spark]", "lineage", "above 0"),
        ("[spark]", "[restart]\nfirst = 0\n[spark]", "restart", "above 0"),
        ("checkpoints", "checkpoint", "checkpoint", "checkpoints"),
        ("[source]", "[source", "no TOML", "docs/landing.md"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place_and_a_remedy(
    old: str, new: str, said: str, remedy: str
) -> None:
    assert old in FILE
    with pytest.raises(InvalidOption) as refused:
        read(FILE.replace(old, new, 1))
    assert said in refused.value.message
    assert remedy in (refused.value.remedy or "")


def test_a_schema_of_avro_is_a_record() -> None:
    record = '{"type": "record", "name": "O", "fields": [{"name": "order", "type": "int"}]}'
    text = FILE.replace('parse = "json"', 'parse = "avro"').replace('"order int"', f"'{record}'")
    made = configuration.settings(read(text.replace("[spark]", '[spark]\n"spark.driver.extraJavaOptions" = "-Da=b"')))
    assert made["spark__driver__extraJavaOptions"] == f"{configuration.LIMITS} -Da=b"
    assert made["spark__executor__extraJavaOptions"] == configuration.LIMITS


def test_csv_holds_no_octets_so_text_is_parsed() -> None:
    text = FILE.replace('queue = "orders"', 'queue = "orders"\ncolumns = "text"')
    read(text.replace("parse", 'format = "csv"\nparse'))


def test_passwords_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    text = FILE.replace("maxMessagesPerTrigger = 500", 'passcode = "${LAND_PASSCODE}"')
    with pytest.raises(InvalidOption, match="LAND_PASSCODE"):
        read(text)
    monkeypatch.setenv("LAND_PASSCODE", "secret")
    assert read(text).land[0].options["passcode"] == "secret"


def test_the_file_of_the_page_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAND_PASSCODE", "secret")
    page = (Path(__file__).parents[3] / "docs" / "landing.md").read_text()
    assert [flow.name for flow in read(page.split("```toml\n")[1].split("```")[0]).land] == ["orders", "prices"]


def test_a_second_process_is_refused_while_the_first_has_the_checkpoints(tmp_path: Path) -> None:
    landing = read(FILE.replace('"state"', f'"{tmp_path}/state"'))
    with configuration.alone(landing), pytest.raises(InvalidOption, match="another process"):
        configuration.alone(landing).__enter__()
    with configuration.alone(landing):
        pass


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="cannot be read"):
        configuration.load(tmp_path / "none.toml")


# -- when ------------------------------------------------------------------------------------------------------------


def test_waits_double_up_to_the_longest_and_calm_forgets() -> None:
    supervisor = Supervisor(["a"], Supervision(first=1, longest=8, calm=100))
    now, waits = 0.0, []
    for _ in range(6):
        assert supervisor.due(now) == ["a"]
        supervisor.started("a", now)
        assert supervisor.due(now) == []
        waits.append(supervisor.ended("a", now, "gone"))
        assert supervisor.due(now + waits[-1] - 0.01) == []
        now += waits[-1]
    assert waits == [1, 2, 4, 8, 8, 8]
    supervisor.started("a", now)
    assert supervisor.ended("a", now + 100, "gone") == 1


def test_what_lasts_is_tried_seldom_until_it_lands_again() -> None:
    supervisor = Supervisor(["a"], Supervision(first=1, longest=60))
    assert supervisor.ended("a", 0, "no such column", lasting=True) == 60
    supervisor.started("a", 60)
    supervisor.progressed("a", 61, 10, 0)
    assert supervisor.lives["a"].lasting is False
    assert supervisor.ended("a", 62, "gone") == 2


def test_one_that_fails_does_not_hold_up_the_others() -> None:
    supervisor = Supervisor(["a", "b"], Supervision())
    supervisor.started("a", 0)
    supervisor.started("b", 0)
    assert supervisor.ready()
    supervisor.ended("a", 1, "gone")
    assert not supervisor.ready()
    assert supervisor.lives["b"].state is State.RUNNING
    assert supervisor.stop() == ["b"]
    assert supervisor.due(1e9) == []
    assert supervisor.ended("b", 2, "stopped") == 0.0


@given(st.lists(st.tuples(st.sampled_from(["start", "end", "lasting", "land"]), st.floats(0, 1000))))
def test_nobody_is_started_twice_and_every_wait_is_bounded(steps: list[tuple[str, float]]) -> None:
    supervision = Supervision(first=0.5, longest=30, calm=200)
    supervisor = Supervisor(["a"], supervision)
    now = 0.0
    running = False
    for step, pause in steps:
        now += pause
        if step == "start" and supervisor.due(now):
            assert not running
            supervisor.started("a", now)
            running = True
        elif step in ("end", "lasting") and running:
            wait = supervisor.ended("a", now, "why", lasting=step == "lasting")
            assert supervision.first <= wait <= supervision.longest
            running = False
        elif step == "land" and running:
            supervisor.progressed("a", now, 5, -1)
        assert supervisor.next_due(now) <= supervision.longest
        assert (supervisor.lives["a"].state is State.RUNNING) == running
    if not running:
        assert supervisor.due(now + supervision.longest) == ["a"]


# -- what it tells ---------------------------------------------------------------------------------------------------


def test_pages_tell_each_flow() -> None:
    prometheus = pytest.importorskip("prometheus_client")
    from entrepot.pipeline.landing.health import Figures, answer

    supervisor = Supervisor(["a", "b"], Supervision())
    registry = prometheus.CollectorRegistry()
    registry.register(Figures(supervisor))
    supervisor.started("a", 0)
    supervisor.progressed("a", 1, 7, 3)
    supervisor.ended("b", 0, "no broker answers")
    status, _, body = answer(supervisor, registry, "/health/ready")
    assert (status, body) == (503, b"a: running\nb: waiting (no broker answers)\n")
    text = answer(supervisor, registry, "/metrics")[2].decode()
    assert 'entrepot_land_rows_total{flow="a"} 7.0' in text
    assert 'entrepot_land_lag_messages{flow="a"} 3.0' in text
    assert 'entrepot_land_lag_messages{flow="b"}' not in text
    assert 'entrepot_land_running{flow="b"} 0.0' in text
    supervisor.started("b", 2)
    assert answer(supervisor, registry, "/health/ready")[0] == 200
    assert answer(supervisor, registry, "/health/live")[0] == 200
    assert answer(supervisor, registry, "/else")[0] == 404


BESIDE = (
    FILE.replace('url = "stomp://127.0.0.1:61613"\n', "")
    + """
[beside]
data = "beside"
connect = ["activemq:(tcp://me:61616)?userName=me&password=secret", "artemis:(tcp://b:1,tcp://c:2)"]
"""
)


def test_a_broker_beside_is_the_source_of_each_flow_that_names_no_other() -> None:
    landing = read(BESIDE.replace('topic = "prices"', 'topic = "prices"\nurl = "stomp://elsewhere:61613"'))
    assert landing.beside is not None
    assert (landing.beside.data, landing.beside.listen, landing.beside.name) == ("beside", "127.0.0.1:0", "land")
    assert landing.beside.where() == "tcp://me:61616, tcp://b:1, tcp://c:2"
    orders, prices = landing.at("stomp://127.0.0.1:4711").land
    assert (orders.options["url"], orders.options["demand"]) == ("stomp://127.0.0.1:4711", "true")
    assert prices.options["url"] == "stomp://elsewhere:61613"
    assert "demand" not in prices.options


@pytest.mark.parametrize(
    ("old", "new", "said", "remedy"),
    [
        ('"beside"', '""', "keeps nothing", "directory"),
        ("activemq:(tcp://me:61616)?", "static:(tcp://me:61616)?", "draws from static", "activemq:("),
        ("userName=", "user=", "user", "userName"),
        ("connect = [", 'listen = "nowhere"\nconnect = [', "listen", ""),
        ("connect = [", "conect = [", "conect", "did you mean 'connect'"),
    ],
)
def test_a_broker_beside_that_cannot_be(old: str, new: str, said: str, remedy: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        read(BESIDE.replace(old, new))
    assert said in caught.value.message
    assert remedy in str(caught.value.remedy)
    assert "secret" not in str(caught.value)


def test_without_any_broker_a_flow_reads_nothing() -> None:
    with pytest.raises(InvalidOption, match="url"):
        read(BESIDE[: BESIDE.index("[beside]")])
