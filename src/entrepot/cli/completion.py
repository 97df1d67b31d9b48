"""`entrepot completion`: the script with which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command(epilog='Put it into your profile: eval "$(entrepot completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(entrepot completion bash)"               in ~/.bashrc
    zsh:   eval "$(entrepot completion zsh)"                in ~/.zshrc
    fish:  entrepot completion fish > ~/.config/fish/completions/entrepot.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # click brings all three
    click.echo(kind(ctx.find_root().command, {}, "entrepot", "_ENTREPOT_COMPLETE").source())
