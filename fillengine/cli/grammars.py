"""`fillengine grammars`: the grammars that are shipped."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    help="List and show the grammars that are shipped.",
    rich_markup_mode=None,
    add_completion=False,
    invoke_without_command=True,
)


@app.callback()
def grammars(context: typer.Context) -> None:
    """List the grammars that are shipped, with a line for each.

    Each is a form: --grammar NAME here, fillengine.Grammar.named("NAME") in Python.
    """
    if context.invoked_subcommand is not None:
        return
    from fillengine.templates.library import shipped

    width = max(map(len, shipped()))
    for grammar in shipped().values():
        typer.echo(f"{grammar.name:<{width}}  {grammar.summary}")


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", help="A name from `fillengine grammars`.")]) -> None:
    """Print a grammar, to be read or to begin one of your own with."""
    from fillengine.templates import Grammar

    typer.echo(Grammar.named(name).text, nl=False)
