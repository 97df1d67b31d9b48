"""`entrepot cluster`: the clusters that a running broker is in, and what waits for their other nodes."""

from __future__ import annotations

from typing import Any, Final

import click

from entrepot.cli.dialogue import url_option
from entrepot.cli.managing import at_desk, tell
from entrepot.cli.output import listing_option, output_option, show

COLUMNS: Final = (
    "cluster",
    "node",
    "place",
    "state",
    "way",
    "queues",
    "consumers",
    "waiting",
    "sent",
    "why",
)
ROUTER_COLUMNS: Final = ("router", "key", "policy", "place", "node", "ready", "connections", "clients", "why")
STORE_COLUMNS: Final = ("queue", "cluster", "node", "messages", "octets", "in_flight", "orphaned")


@click.group(
    epilog="""Examples:

    \b
    entrepot cluster list
    entrepot cluster list -o json | jq '.members[] | select(.state != "met")'
    entrepot cluster stores --orphaned
    entrepot cluster stop my-cluster
    entrepot cluster clean '$.artemis.internal.sf.my-cluster.b1f0...'
    """
)
def cluster() -> None:
    """See and switch the clusters of a running broker, and empty queues for nodes that are gone.

    docs/clusters.md explains what is shown.
    """


@cluster.command("list")
@url_option
@listing_option
def list_(*, url: str, output: str) -> None:
    """List all members of the broker's clusters, itself included.

    state: here, met (it tells what it has), or where the attempt to meet it stands. way: the state of the bridge that
    carries messages there. queues and consumers: those that it told of. waiting: messages here that are for it.
    """
    found = at_desk(url, lambda desk: desk.ask("broker", "describeClusters"))
    if output == "json":
        show(found, (), output)
        return
    rows = [{**member, "cluster": one["name"]} for one in found for member in one["members"]]
    show(rows, COLUMNS, output, empty="this broker is in no cluster")
    for one in found:
        for contact in one["contacts"]:
            if not contact["node"] and contact["state"] not in ("met", "closed"):
                why = f": {contact['why']}" if contact["why"] else ""
                click.echo(f"{one['name']}: nobody was met at {contact['place']}: {contact['state']}{why}", err=True)


@cluster.command("show")
@click.argument("name")
@url_option
@output_option
def show_(*, name: str, url: str, output: str) -> None:
    """Show all there is to know about one cluster connection."""
    found = at_desk(url, lambda desk: desk.ask("broker", "describeClusters"))
    chosen = [one for one in found if one["name"] == name]
    if output == "json":
        show(chosen, (), output)
        return
    fields: list[dict[str, Any]] = []
    for one in chosen:
        fields += [{"field": key, "value": value} for key, value in one.items() if not isinstance(value, list)]
        for number, member in enumerate(one["members"], 1):
            fields += [{"field": f"member {number} {key}", "value": value} for key, value in member.items()]
        for number, contact in enumerate(one["contacts"], 1):
            fields += [{"field": f"contact {number} {key}", "value": value} for key, value in contact.items()]
    show(fields, ("field", "value"), output, empty=f"no cluster connection {name!r}")


@cluster.command()
@click.argument("name")
@url_option
@output_option
def stop(*, name: str, url: str, output: str) -> None:
    """Stop the cluster connection NAME, until `cluster start` or the next start of the broker.

    This node then knows no queue of another node: what is sent to it stays with its own queues. What waits for other
    nodes is kept, and goes on its way again afterwards; what they send to this one still comes.
    """
    at_desk(url, lambda desk: desk.ask(f"clusterconnection.{name}", "stop"))
    tell(f"stopped {name}", {"cluster": name, "started": False}, output)


@cluster.command()
@click.argument("name")
@url_option
@output_option
def start(*, name: str, url: str, output: str) -> None:
    """Start the cluster connection NAME, which was stopped."""
    at_desk(url, lambda desk: desk.ask(f"clusterconnection.{name}", "start"))
    tell(f"started {name}", {"cluster": name, "started": True}, output)


@cluster.command()
@click.option("--orphaned", is_flag=True, help="Only those that nothing empties: their node is not known.")
@url_option
@listing_option
def stores(*, orphaned: bool, url: str, output: str) -> None:
    """List the store-and-forward queues: what waits to be sent to other nodes.

    One is orphaned when this broker knows no node of its id. After a restart that is so until the node is met: only
    you know whether it comes back.
    """
    rows = at_desk(url, lambda desk: desk.ask("broker", "describeStores"))
    show([row for row in rows if row["orphaned"] or not orphaned], STORE_COLUMNS, output, empty="no such queues")


@cluster.command()
@url_option
@listing_option
def routers(*, url: str, output: str) -> None:
    """List the connection routers, and the brokers to which each may send clients.

    clients: how many it sent there since it started; the row without a place counts who was served here by the filter,
    refused, or came when too few brokers were ready.
    """
    found = at_desk(url, lambda desk: desk.ask("broker", "describeRouters"))
    if output == "json":
        show(found, (), output)
        return
    rows: list[dict[str, Any]] = []
    for one in found:
        head = {"router": one["name"], "key": one["key"], "policy": one["policy"]}
        rows += [{**head, **target} for target in one["targets"]]
        known = [target["node"] if target["place"] != "here" else "here" for target in one["targets"]]
        rows += [{**head, "node": name, "clients": count} for name, count in one["served"].items() if name not in known]
    show(rows, ROUTER_COLUMNS, output, empty="no connection routers")


@cluster.command()
@click.argument("queue")
@click.option("--discard", is_flag=True, help="Let copies of topics go; they become dead letters otherwise.")
@url_option
@output_option
def clean(*, queue: str, discard: bool, url: str, output: str) -> None:
    """Empty the store-and-forward QUEUE of a node that never comes back, and delete it.

    Messages of queues are sent anew to their address on this broker, and shared out as if they had come now. Copies of
    topics were for subscriptions of that node alone: they become dead letters. Refused while the node is known.
    """
    done = at_desk(url, lambda desk: desk.ask("broker", "cleanStore", queue, discard, patience=None))
    said = f"{done['resent']:,} sent anew, {done['dead_letters']:,} dead letters, {done['discarded']:,} discarded"
    if done["left"]:
        said += f"; {done['left']:,} stayed"
        said += f": {done['why']}" if done["why"] else ""
    tell(f"{said}; {queue} is {'deleted' if done['deleted'] else 'still there'}", done, output)
