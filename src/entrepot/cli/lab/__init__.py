"""`entrepot lab`: a network of real broker processes on this machine, to watch, to break and to heal."""

from __future__ import annotations

import click

SHAPES = ("mesh", "chain", "hub", "ring")


@click.command(
    epilog="""Examples:

    \b
    entrepot lab 3
    entrepot lab 5 --shape ring --rate 1000
    entrepot lab 3 --for 20 --load | tee log          # no terminal: plain lines
    """
)
@click.argument("brokers", type=click.IntRange(2, 9), default=3)
@click.option(
    "--shape",
    type=click.Choice(SHAPES),
    default="mesh",
    show_default=True,
    help="Who is joined to whom: everybody, neighbours in a row, all to the first, neighbours in a circle.",
)
@click.option(
    "--rate", type=click.FloatRange(1, 20_000), default=200.0, show_default=True, help="Messages a second of the load."
)
@click.option(
    "--load", "loaded", is_flag=True, help="Start the load at once; at a terminal the space bar does so later."
)
@click.option(
    "--port-base",
    type=click.IntRange(1024, 65_000),
    help="Broker k listens at BASE+2(k-1) for OpenWire and one above for STOMP; links follow.  [default: free ports]",
)
@click.option("--for", "seconds", type=click.FloatRange(min=0.1), help="End after so many seconds.")
def lab(*, brokers: int, shape: str, rate: float, loaded: bool, port_base: int | None, seconds: float | None) -> None:
    """Start a network of BROKERS brokers on loopback, and show it while it lives.

    Every broker is a process of its own, with an activemq.xml and a journal in a temporary directory that is removed at
    the end. Every link runs through a relay of the lab, so that it can be cut. Keys:

    \b
    1-9      kill -9 this broker, or start it again
    letters  cut this link, or heal it
    space    start or stop the load: a producer and a consumer for each broker, with failover
    q        end, and say whether anything was lost

    Without a terminal it writes a line a second, and the load runs only with --load. Exit code 1: a message whose
    producer was told that it is safe did not arrive.
    """
    from entrepot.cli.lab.stage import play  # noqa: PLC0415 - brings rich and the client: not for `entrepot --help`

    play(brokers, shape, rate=rate, loaded=loaded, port_base=port_base, seconds=seconds)
