"""The command `entrepot`: finds the subcommand, imports that one alone, and words whatever goes wrong.

`entrepot run` is on the path from exec to the first accepted connection, so nothing here imports more than click.
"""

from __future__ import annotations

from typing import Final

import click

from entrepot import __version__
from entrepot.base.errors import EntrepotError
from entrepot.cli.build import described
from entrepot.cli.errors import explain
from entrepot.cli.lazy import LazyGroup

COMMANDS: Final = {
    "run": "run",
    "check": "check",
    "simulate": "simulate",
    "send": "messages",
    "receive": "messages",
    "browse": "messages",
    "queue": "queue",
    "schedule": "schedule",
    "connection": "connection",
    "bridge": "bridge",
    "cluster": "cluster",
    "drain": "drain",
    "explain": "explain",
    "where": "explain",
    "probe": "probe",
    "top": "top",
    "perf": "perf",
    "data": "data",
    "user": "user",
    "lease": "lease",
    "stage": "stage",
    "ha": "ha",
    "witness": "witness",
    "trace": "trace",
    "lab": "lab",
    "pipeline": "pipeline",
    "console": "console",
    "configuration": "effective",
    "context": "context",
    "completion": "completion",
}
"""Subcommand -> the module of `entrepot.cli` that has a function of this name."""


class Entrepot(LazyGroup):
    """All of them; turns our errors into messages and exit codes."""

    modules = COMMANDS

    def invoke(self, ctx: click.Context) -> object:
        """Run the subcommand. A broken pipe ends it quietly: who read our output has had enough."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            ctx.exit(0)
        except (EntrepotError, OSError) as error:
            failure = explain(error)
            if failure is None:
                raise
            raise failure from error


@click.group(
    cls=Entrepot,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Try it: `entrepot run` in one terminal; `entrepot send /queue/hello 'good morning'` and "
    "`entrepot receive /queue/hello` in another.",
)
@click.version_option(__version__, prog_name="entrepot", message=f"%(prog)s %(version)s, {described()}")
def cli() -> None:
    """A message broker, and what one needs to talk to it.

    Exit codes: 0 done, 1 it failed, 2 it was asked for in a way that cannot be meant.
    """


def main() -> None:
    """Run the command line of this process."""
    cli.main(prog_name="entrepot")


if __name__ == "__main__":
    main()
