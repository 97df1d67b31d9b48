"""`entrepot explain` and `entrepot where`: why a queue does not move, and where a message is, over a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from entrepot.cli.dialogue import url_option
from entrepot.cli.errors import Failure
from entrepot.cli.fate import LINES_MOST, fates, told
from entrepot.cli.network import Survey, alone_option, also_option, patience_option, survey
from entrepot.cli.output import output_option, to_json
from entrepot.cli.trace import row_of
from entrepot.cluster.networks.outlook import across
from entrepot.io import runtime

CONSUMERS_SHOWN: Final = 5
STORE_PREFIX: Final = "$.artemis.internal.sf."  # of queues for other nodes of a cluster


@click.command()
@click.argument("destination")
@url_option
@patience_option
@also_option
@alone_option
@output_option
def explain(*, destination: str, url: str, patience: float, also: tuple[str, ...], alone: bool, output: str) -> None:
    """Say why DESTINATION does not move, on each broker of the network, and what would change that.

    DESTINATION is a queue, /topic/T or topic://T, or the queue of one subscription. The reasons come from what each
    broker's dispatch itself looks at; docs/stuck.md explains them. A broker that did not answer is named.
    """
    found = runtime.run(survey(url, "explain", destination, patience=patience, also=also, alone=alone))
    wide = across(found.told, [_silent(one.broker, one.why) for one in found.silent])
    if output == "json":
        for answer in found.told:
            click.echo(to_json(answer))
        click.echo(to_json({"network": wide, "silent": found.silent}))
        return
    names = _names(found)
    for answer in found.told:
        _broker(answer, names)
        _elsewhere(answer, names)
        _federation(answer)
    if wide:
        click.secho("the network", bold=True)
        for reason in wide:
            _reason(f"{reason['broker']}: {reason['text']}", str(reason["code"]), str(reason["remedy"]))
    _missing(found)


@click.command()
@click.argument("message_id")
@url_option
@patience_option
@also_option
@alone_option
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    metavar="DIR",
    help="Where traces of brokers on other machines can be read, to say when a message was settled and by whom; those "
    "of brokers on this machine are found. Repeatable.",
)
@output_option
def where(
    *,
    message_id: str,
    url: str,
    patience: float,
    also: tuple[str, ...],
    alone: bool,
    traces: tuple[Path, ...],
    output: str,
) -> None:
    """Say which broker holds the message MESSAGE-ID, in what state, and which way it came.

    MESSAGE-ID is the id that clients see (JMSMessageID, the message-id header), or a broker's own number for it. What
    became of it is found too: a dead letter, an expired message, the copy of a divert. When and by whom a message was
    settled is read from the traces of brokers that run with --trace; a broker without one does not remember it.
    """
    identity: str | int = int(message_id) if message_id.isdigit() else message_id.replace("\\c", ":")  # as STOMP writes
    found = runtime.run(survey(url, "where", identity, patience=patience, also=also, alone=alone))
    gone = any(answer["had"] for answer in found.told) or not any(answer["places"] for answer in found.told)
    rows, unable = fates(found.told, identity, traces) if gone or traces else ([], {})
    if output == "json":
        for answer in found.told:
            click.echo(to_json(answer))
        click.echo(to_json({"story": [row_of(row) for row in rows], "without_story": unable, "silent": found.silent}))
    else:
        names = _names(found)
        for answer in found.told:
            for place in answer["places"]:
                _place(answer["broker"], place, names)
            for one in answer.get("repeated", ()):
                _repeated(answer["broker"], one)
            if answer["had"]:
                click.echo(
                    f"{answer['broker']}: it was here and is no more: settled, sent on to another broker, or expired"
                )
                if answer["broker"] in unable:
                    click.echo(f"  it cannot say when: {unable[answer['broker']]}")
        _story(rows)
        _missing(found)
    known = ("places", "had", "repeated")
    if not rows and not any(answer.get(name) for answer in found.told for name in known):
        asked = ", ".join(answer["broker"] for answer in found.told)
        raise Failure(
            f"no broker that answered knows the message {message_id!r} (asked: {asked})",
            remedy="is it the id that the sender printed? A broker that did not answer may have it",
        )


def _repeated(broker: str, one: Mapping[str, Any]) -> None:
    times = "" if one["times"] == 1 else f", {one['times']} times"
    ago = one["age_ms"] // 1000
    click.echo(
        f"{broker}: a repetition of it was dropped at {one['address']}{times}, {ago} s ago at last: {one['why']}"
    )


# -- as text ----------------------------------------------------------------------------------------------------------


def _broker(answer: dict[str, Any], names: dict[str, str]) -> None:
    head = click.style(answer["broker"], bold=True)
    if answer.get("program"):
        _foreign(f"{head} ({answer['program']})", answer)
        return
    if not answer["queues"]:
        kind = "topic" if answer["topic"] else "queue"
        click.echo(f"{head}: has no {kind} {answer['destination']}" + (" subscription" if answer["topic"] else ""))
        if answer.get("near"):
            click.echo(f"    → did you mean {' or '.join(answer['near'])}?")
    for queue in answer["queues"]:
        counts = [f"{queue['waiting']:,} waiting", f"{queue['in_flight']:,} in flight"]
        counts += [f"{queue[name]:,} {name}" for name in ("delayed", "leased", "scheduled") if queue[name]]
        readers = len(queue["consumers"])
        click.echo(f"{head}: {queue['queue']}: {', '.join(counts)}, {readers} consumer{'' if readers == 1 else 's'}")
        for reason in queue["reasons"]:
            some = ""
            if reason["messages"]:
                more = "+" if queue["waiting"] > queue["looked_at"] >= reason["messages"] > 0 else ""
                some = f"{reason['messages']:,}{more}: "
            _reason(some + _named(reason["text"], names), reason["code"], reason["remedy"])
        if queue["head_path"]:
            way = " → ".join(names.get(node, node) for node in queue["head_path"])
            click.echo(f"  the first that waits ({queue['head']}) came from {way}")
        click.echo(f"  next: {_next(queue)}")
        for consumer in queue["consumers"][:CONSUMERS_SHOWN]:
            click.echo(f"  · {_consumer(consumer)}")
        if readers > CONSUMERS_SHOWN:
            click.echo(f"  · and {readers - CONSUMERS_SHOWN} more consumers")


def _names(found: Survey) -> dict[str, str]:
    """Return broker by each id that it has: in a network, and in a cluster."""
    return {**found.called, **{answer["uuid"]: answer["broker"] for answer in found.told if answer.get("uuid")}}


def _elsewhere(answer: dict[str, Any], names: dict[str, str]) -> None:
    """Show what other nodes of the broker's clusters have, and why messages do not get there."""
    known = answer.get("elsewhere") or {}
    for row in known.get("rows", ())[:CONSUMERS_SHOWN]:
        who = names.get(row["node"], row["place"] or row["node"])
        far = "" if row["distance"] == 1 else f", {row['distance']} nodes away"
        parts = [f"{row['consumers']:,} consumer{'' if row['consumers'] == 1 else 's'} there"]
        if row["selectors"]:
            parts.append(f"selectors {'; '.join(row['selectors'])}")
        if not row["connected"]:
            parts.append("not connected")
        if row["store_waiting"]:
            parts.append(f"{row['store_waiting']:,} here on the way to it")
        click.echo(f"  ⇢ {row['queue']} on {who}{far} ({row['cluster']}, {row['balancing']}): {', '.join(parts)}")
    more = len(known.get("rows", ())) - CONSUMERS_SHOWN
    if more > 0:
        click.echo(f"  ⇢ and {more} more queues of other nodes")
    for reason in known.get("reasons", ()):
        name = names.get(reason["node"], "")
        _reason(f"{name + ': ' if name else ''}{reason['text']}", reason["code"], reason["remedy"])


def _federation(answer: dict[str, Any]) -> None:
    """Show what the upstreams of its federations, and brokers that it draws from, do for the destination."""
    known = answer.get("elsewhere") or {}
    for row in [*(known.get("upstreams") or ()), *(known.get("draws") or ())][:CONSUMERS_SHOWN]:
        if row["code"] == "reading" and not row["remedy"]:
            click.echo(f"  ⇠ {row['text']}")
        else:
            _reason(row["text"], row["code"], row["remedy"])


def _foreign(head: str, answer: dict[str, Any]) -> None:
    """Show what can be seen of a broker of ActiveMQ from outside."""
    if not answer["queues"]:
        click.echo(f"{head}: has no queue {answer['destination']}")
    for queue in answer["queues"]:
        bridges = sum(1 for consumer in queue["consumers"] if consumer["peer"])
        readers = len(queue["consumers"]) - bridges
        click.echo(
            f"{head}: {queue['queue']}: {queue['waiting']:,} waiting or in flight, as far as it shows them, "
            f"{readers} consumer{'' if readers == 1 else 's'}, {bridges} bridge{'' if bridges == 1 else 's'}"
        )
        if queue["waiting"] and not readers:
            remedy = "what came over the network goes back only with replayWhenNoConsumers in that broker's policyEntry"
            _reason("no client reads it there", "no-consumer", f"start a consumer; {remedy}")


def _reason(text: str, code: str, remedy: str) -> None:
    click.echo(f"  {click.style('✗', fg='red')} {text} [{code}]")
    if remedy:
        click.echo(f"    → {remedy}")


def _named(text: str, names: dict[str, str]) -> str:
    """Return ``text`` with the names of brokers where a broker could only give identities."""
    for node, name in names.items():
        text = text.replace(node, name)
    return text


def _next(queue: dict[str, Any]) -> str:
    coming = queue["next"]
    which = "a message without properties" if coming["sample"] else "the next message"
    if not coming["who"]:
        return f"{which} would wait"
    over = f", to the broker {coming['peer']}" if coming["peer"] else ""
    return f"{which} goes to {coming['who']}{over}"


def _consumer(consumer: dict[str, Any]) -> str:
    prefetch = "without limit" if consumer["prefetch"] < 0 else f"of {consumer['prefetch']:,}"
    parts = [f"{consumer['who']}: {consumer['in_flight']:,} {prefetch} unsettled"]
    if consumer["selector"]:
        parts.append(f"selector {consumer['selector']!r}")
    if consumer["exclusive"]:
        parts.append("exclusive")
    if consumer["groups"]:
        parts.append(f"owns {consumer['groups']:,} groups")
    if not consumer["takes"]:
        parts.append("takes no more")
    return ", ".join(parts)


def _place(broker: str, place: dict[str, Any], names: dict[str, str]) -> None:
    where_ = f" in {place['queue']}" if place["queue"] else ""
    node = next((one for one in names if place["queue"].endswith(f".{one}")), "")
    if node and place["queue"].startswith(STORE_PREFIX):
        where_ = f" for {names[node]}{where_}"
    if "position" in place and place["state"] != "leased":
        where_ += f" behind {place['position']:,} others" if place["position"] else " as the next one"
    holder = f", {place['holder']}" if place.get("holder") else ""
    click.echo(f"{click.style(broker, bold=True)}: {place['state']}{where_}{holder}")
    way = [names.get(node, node) for node in place["path"]]
    if way:
        click.echo(f"  it came {' → '.join([*way, broker])}")
    if place["original"] and place["original"] != place["queue"]:
        click.echo(f"  it was sent to {place['original']}")
    if place["cause"]:
        click.echo(f"  because: {place['cause']}")
    facts = [f"number {place['number']}", f"{place['size']:,} octets", "persistent" if place["durable"] else "not kept"]
    if place["age_ms"] >= 0:
        facts.append(f"sent {place['age_ms'] / 1000:,.1f} s ago")
    if place.get("deliveries"):
        facts.append(f"delivered {place['deliveries']} times before")
    if "due_ms" in place:
        facts.append(f"its time comes in {place['due_ms'] / 1000:,.1f} s")
    if place["expires_in_ms"] >= 0:
        facts.append(f"expires in {place['expires_in_ms'] / 1000:,.1f} s")
    click.echo(f"  {', '.join(facts)}")


def _story(rows: list[dict[str, Any]]) -> None:
    for row in rows[:LINES_MOST]:
        click.echo(told(row))
    if len(rows) > LINES_MOST:
        click.echo(f"and {len(rows) - LINES_MOST} more records; entrepot trace show has them all")


def _missing(found: Survey) -> None:
    for one in found.silent:
        click.echo(f"{click.style('no answer', fg='yellow')} from {_silent(one.broker, one.why)}", err=True)


def _silent(broker: str, why: str) -> str:
    return f"{broker} ({why})"
