"""`fillengine models`: the models that have a short name, and where they are."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    help="List, fetch and locate models.",
    rich_markup_mode=None,
    add_completion=False,
    invoke_without_command=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from `fillengine models`, or a folder.")]


@app.callback()
def models(context: typer.Context) -> None:
    """List the models that can be fetched by a short name, and whether they are here already.

    Any folder of an mlx-lm model and any name on the Hugging Face hub (owner/name) works as --model too.
    """
    if context.invoked_subcommand is not None:
        return
    from fillengine.generation.models import known_models

    for model in known_models():
        place = str(model.folder) if model.folder else f"not fetched yet ({model.num_bytes / 1e6:.0f} MB)"
        typer.echo(f"{model.name}\t{model.license}\t{model.description}\t{place}")


@app.command()
def fetch(name: Name) -> None:
    """Fetch a model into the user's cache, with a progress bar. Does nothing when it is there."""
    from fillengine.cli.render import say
    from fillengine.generation.models import model_folder

    say(f"{name} is in {model_folder(name)}")


@app.command()
def path(name: Name) -> None:
    """Print the folder of a model, fetching it first if need be."""
    from fillengine.generation.models import model_folder

    typer.echo(model_folder(name))
