from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import EntrepotError, InvalidOption, InvalidURI
from entrepot.pipeline.options import OF_KAFKA, READ, SETTINGS, STREAM, WRITE, read

BY_NAME_AS_WRITTEN = [setting.name for setting in SETTINGS]
OTHERS_OF_THE_PAGE = ["pipeline.claim", "pipeline.lag", "properties", "destination", "broker", "position", "limit"]
STREAMED = {"url": "stomp://h:1", "queue": "q", "subscription": "s"}


def test_names_are_compared_without_case_and_defaults_fill_in() -> None:
    options = read({"URL": "h:1", "QUEUE": "q", "Subscription": "s", "maxmessagespertrigger": "7"}, STREAM)
    assert options.number("maxMessagesPerTrigger") == 7
    assert options.number("minPartitions") == 0
    assert options.seconds("connectTimeout") == 5.0
    assert options.destination == "/queue/q"


@pytest.mark.parametrize(
    ("url", "groups"),
    [
        ("h:1", [["stomp://h:1"]]),
        ("a:1,b:2", [["stomp://a:1"], ["stomp://b:2"]]),
        ("failover:(stomp://a:1,stomp://b:2)", [["stomp://a:1", "stomp://b:2"]]),
        ("failover:(stomp://a:1,stomp://b:2),stomp+ssl://c:3", [["stomp://a:1", "stomp://b:2"], ["stomp+ssl://c:3"]]),
    ],
)
def test_a_url_is_a_list_of_brokers_each_with_its_places(url: str, groups: list[list[str]]) -> None:
    options = read({**STREAMED, "url": url}, STREAM)
    assert [[place.format() for place in group] for group in options.places] == groups


def test_tls_options_go_to_every_place_and_do_not_replace_its_own() -> None:
    options = read(
        {**STREAMED, "url": "stomp+ssl://a:1?trustStorePath=own,stomp+ssl://b:1", "tls.trustStorePath": "all"}, STREAM
    )
    assert [place.options["trustStorePath"] for group in options.places for place in group] == ["own", "all"]


@pytest.mark.parametrize(
    ("given", "where", "part"),
    [
        ({**STREAMED, "queu": "q"}, STREAM, "did you mean 'queue'?"),
        ({**STREAMED, "nonsense": "1"}, STREAM, "no option 'nonsense'"),
        ({**STREAMED, "commit.mode": "staged"}, STREAM, "no meaning for readStream"),
        ({**STREAMED, "maxMessagesPerTrigger": "0"}, STREAM, "whole number from 1"),
        ({**STREAMED, "maxMessagesPerTrigger": "many"}, STREAM, "whole number"),
        ({**STREAMED, "maxMessagesPerTrigger": "٣"}, STREAM, "whole number"),
        ({**STREAMED, "minMessagesPerTrigger": "100001"}, STREAM, "at least 100001 messages"),
        ({**STREAMED, "minMessagesPerTrigger": "5", "maxMessagesPerTrigger": "4"}, STREAM, "no more than"),
        ({**STREAMED, "minMessagesPerTrigger": "5"}, READ, "no meaning for"),
        ({**STREAMED, "maxTriggerDelay": "5"}, STREAM, "here it waits for none"),
        ({**STREAMED, "maxTriggerDelay": "5", "minMessagesPerTrigger": "00"}, STREAM, "here it waits for none"),
        (
            {**STREAMED, "startingPosition": "2026-11-22T00:00:00Z", "until": "2026-11-21T13:00:00Z"},
            STREAM,
            "startingPosition earlier",
        ),
        ({**STREAMED, "until": "soon"}, STREAM, "is no time after 1970"),
        ({**STREAMED, "until": "{}"}, STREAM, "it names no broker"),
        ({**STREAMED, "until": '{"A": 5', "startingPosition": "latest"}, STREAM, "until is"),
        ({**STREAMED, "until": '{"A": 5}', "startingPosition": '{"A": 6}'}, STREAM, "behind until, 5"),
        ({"url": STREAMED["url"], "queue": "q", "until": '{"A": 5}'}, READ, "a look at a queue has none"),
        ({**STREAMED, "endingOffsets": "latest"}, READ, "use until with positions"),
        ({**STREAMED, "maxOffsetsPerTrigger": "5"}, STREAM, "use maxMessagesPerTrigger"),
        ({**STREAMED, "MINOFFSETSPERTRIGGER": "5"}, STREAM, "use minMessagesPerTrigger"),
        ({**STREAMED, "endingTimestamp": "5"}, READ, "use until"),
        ({**STREAMED, "kafka.bootstrap.servers": "h:9092"}, STREAM, "use url"),
        ({**STREAMED, "kafka.session.timeout.ms": "5"}, STREAM, "is not used here"),
        ({**STREAMED, "topic": "t"}, STREAM, "both a queue and a topic"),
        ({**STREAMED, "queue": "/topic/t"}, STREAM, "use the option 'topic'"),
        ({"url": "h:1", "queue": "a.*.b"}, WRITE, "is a wildcard or a list"),
        ({"url": "h:1", "topic": "a,b"}, WRITE, "is a wildcard or a list"),
        ({**STREAMED, "queue": "a,,b"}, STREAM, "an empty name"),
        ({**STREAMED, "queue": "a,b,a"}, STREAM, "or one twice"),
        ({**STREAMED, "queue": ",".join(f"q{n}.>" for n in range(11))}, STREAM, "11 wildcards"),
        ({**STREAMED, "queue": "a,/topic/b"}, STREAM, "names a topic"),
        ({**STREAMED, "queue": "a,b,c", "maxQueues": "2"}, STREAM, "maxQueues is 2"),
        ({**STREAMED, "queue": "a.>", "until": '{"b": 5}'}, STREAM, "until has positions by broker"),
        ({**STREAMED, "queue": "a,b", "startingPosition": '{"b": 5}'}, STREAM, "startingPosition has positions"),
        ({**STREAMED, "queue": "/queue/"}, STREAM, "holds no name"),
        ({"url": "h:1", "queue": "q"}, STREAM, "needs a subscription"),
        ({"url": "h:1", "subscription": "s"}, STREAM, "nothing to read from"),
        ({"queue": "q", "subscription": "s"}, STREAM, "no broker is named"),
        ({**STREAMED, "url": "amqp://h:1"}, STREAM, "is not spoken here"),
        ({**STREAMED, "url": "multicast://default"}, STREAM, "is not spoken here"),
        ({**STREAMED, "subscription": "s" * 300}, STREAM, "200 printable"),
        (STREAMED, READ, "entrepot.pipeline.claim"),
        ({"url": "h:1", "topic": "t"}, READ, "keeps nothing that could be browsed"),
        ({"url": "h:1", "queue": "q", "commit.mode": "perhaps"}, WRITE, "it can be staged"),
        ({"url": "h:1", "queue": "q", "batch": "1"}, WRITE, "counts within a sink"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_do(given: dict[str, str], where: str, part: str) -> None:
    with pytest.raises((InvalidOption, InvalidURI)) as caught:
        read(given, where)
    assert part in str(caught.value)


def test_the_options_of_spark_itself_pass() -> None:
    assert read({**STREAMED, "path": "x", "checkpointLocation": "y"}, STREAM).destination == "/queue/q"


@pytest.mark.parametrize(
    "given",
    [
        {"startingPosition": "2026-11-21T13:00:00Z", "until": "2026-11-21T13:00:00Z"},
        {"startingPosition": "latest", "until": "2026-11-21T13:00:00Z"},
        {"startingPosition": '{"A": 5}', "until": "2026-11-21T13:00:00Z"},
        {"startingPosition": '{"A": 5, "B": 9}', "until": '{"A": 5}'},
        {"startingPosition": "2026-11-21T13:00:00Z", "until": '{"A": 5}'},
        {"minMessagesPerTrigger": "5", "maxTriggerDelay": "100", "maxOctetsPerTrigger": "7"},
    ],
)
def test_bounds_that_go_together_are_read(given: dict[str, str]) -> None:
    options = read({**STREAMED, **given}, STREAM)
    assert {name: options.text(name) for name in given} == given


def test_the_page_has_every_option_of_kafka_and_names_only_ours_that_exist() -> None:
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
    table = page.partition("## Coming from Kafka")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    theirs = [name for row in rows for name in re.findall(r"`([^`]+)`", row[0])]
    assert {name.lower() for name in theirs if name not in (*BY_NAME_AS_WRITTEN, "kafka.*")} == set(OF_KAFKA)
    ours = {name for row in rows for name in re.findall(r"`([a-zA-Z.]+)`", row[1])}
    assert ours <= {*BY_NAME_AS_WRITTEN, *OTHERS_OF_THE_PAGE}, ours - {*BY_NAME_AS_WRITTEN, *OTHERS_OF_THE_PAGE}
    assert {"maxMessagesPerTrigger", "minMessagesPerTrigger", "maxTriggerDelay", "until"} <= ours


def test_every_setting_says_what_it_means_and_where() -> None:
    for setting in SETTINGS:
        assert setting.meaning
        assert setting.where
        assert (setting.low is None) == (setting.high is None)


@given(st.dictionaries(st.sampled_from([setting.name for setting in SETTINGS]), st.text(max_size=12)))
def test_any_values_are_read_or_refused_in_our_words(given: dict[str, str]) -> None:
    for where in (READ, STREAM, WRITE):
        with contextlib.suppress(EntrepotError):
            read(given, where)


def test_only_staged_batches_are_seen_at_one_moment() -> None:
    given = {"url": "stomp://h:1", "queue": "q", "commit.atomic": "true"}
    assert read(given, WRITE).text("commit.atomic") == "true"
    with pytest.raises(InvalidOption, match="only staged"):
        read({**given, "commit.mode": "at-least-once"}, WRITE)
