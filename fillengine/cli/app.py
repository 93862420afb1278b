"""The command line as a whole: its commands, and how every error ends."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import fillengine
from fillengine.bench.app import app as bench
from fillengine.cli import check, doctor, extract, grammars, inspect, models
from fillengine.cli.exits import BAD_INPUT, DONE, OWN_FAULT
from fillengine.cli.render import say
from fillengine.errors import FillError

# Commands import what they need when they run, so that `--help` and a bad schema answer at once.

DEBUG_VARIABLE = "FILLENGINE_DEBUG"

# typer exports no base of its usage errors, and keeps a copy of click of its own in newer releases.
USAGE_ERROR: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


class Commands(TyperGroup):
    """A command group that ends every error in one line on standard error, never in a traceback."""

    def main(self, *args: Any, **options: Any) -> Any:
        options["standalone_mode"] = False
        try:
            code = super().main(*args, **options)
        except FillError as error:
            code = self._failed(BAD_INPUT, str(error), error)
        except USAGE_ERROR as error:
            message = error.format_message()  # type: ignore[attr-defined]
            code = self._failed(BAD_INPUT, f"{message.rstrip('.')}; see --help", error)
        except Exception as error:
            code = self._failed(
                OWN_FAULT,
                f"unexpected {type(error).__name__}: {error}; this is a fault of fillengine, please report "
                f"it with the traceback that {DEBUG_VARIABLE}=1 shows",
                error,
            )
        sys.exit(code if isinstance(code, int) else DONE)

    def _failed(self, code: int, message: str, error: Exception) -> int:
        if os.environ.get(DEBUG_VARIABLE, "0") not in ("", "0"):
            raise error
        say(f"error: {message}")
        return code


app = typer.Typer(
    name="fillengine",
    cls=Commands,
    help="Make a local language model answer in a given form: always valid, in fewer forward passes.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("extract")(extract.extract)
app.command("inspect")(inspect.inspect)
app.add_typer(grammars.app, name="grammars")
app.add_typer(models.app, name="models")
app.command("check")(check.check)
app.command("doctor")(doctor.doctor)
app.add_typer(bench, name="bench")


@app.callback(invoke_without_command=True)
def root(
    *,
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"fillengine {fillengine.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
