"""`fillengine check`: the engine's laws for one form."""

from __future__ import annotations

from typing import Annotated

import typer

from fillengine.cli.exits import DONE, OWN_FAULT
from fillengine.cli.forms import ChoiceOption, GrammarOption, RegexOption, load_form
from fillengine.cli.inspect import Style
from fillengine.cli.render import waiting
from fillengine.errors import FillError


def check(
    *,
    schema: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|MODULE:NAME", help="A JSON Schema file, or a form in Python: a model, a Template."
        ),
    ] = None,
    regex: RegexOption = None,
    choice: ChoiceOption = None,
    grammar: GrammarOption = None,
    examples: Annotated[int, typer.Option(min=1, metavar="N", help="How many examples, of several texts each.")] = 100,
    seed: Annotated[int, typer.Option(metavar="N", help="What all examples are drawn from.")] = 0,
    example: Annotated[int | None, typer.Option(min=0, metavar="N", help="This example only, to see it again.")] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Use the vocabulary of this model folder. (default: a small one)"),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="NAME|FOLDER", help="Use this model. (default: one that says anything)"),
    ] = None,
    style: Annotated[Style, typer.Option(help="White space of the JSON text.")] = Style.SPACED,
) -> int:
    """Check that whatever a form permits is written whole, valid, and the same in every batch.

    A model that says anything writes texts in the form, in batches, with drafts that are wrong on purpose, beside
    rows that are cancelled or fail. The first violated law is shown with the numbers that find it again.
    """
    from fillengine.testing.check import check_form
    from fillengine.testing.laws import LawViolation

    if tokenizer is not None and model is not None:
        raise FillError("--tokenizer goes without --model, which has its own; leave one of them out")
    form = load_form(schema, regex, choice, grammar, named="FILE", style=style.value)
    try:
        with waiting("checking the form"):
            report = check_form(
                form, tokenizer=tokenizer, model=model or "random", examples=examples, seed=seed, example=example
            )
    except LawViolation as violation:
        typer.echo(str(violation), err=True)
        return OWN_FAULT
    typer.echo(str(report))
    return DONE
