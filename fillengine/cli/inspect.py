"""`fillengine inspect`: the template of a form on the terminal."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from fillengine.cli.forms import ChoiceOption, GrammarOption, RegexOption, load_form
from fillengine.errors import FillError

if TYPE_CHECKING:
    from rich.text import Text

    from fillengine.cli.template_view import Counts


class Style(str, Enum):
    SPACED = "spaced"
    COMPACT = "compact"
    INDENTED = "indented"
    ANY = "any"


def inspect(
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
    style: Annotated[Style, typer.Option(help="White space of the JSON text.")] = Style.SPACED,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME|FOLDER",
            help="Count tokens with this model's tokenizer. (default: smollm2)",
        ),
    ] = None,
) -> None:
    """Show what a form becomes: the text that is asserted, and the holes that a model fills."""
    from rich.console import Console

    from fillengine.cli.template_view import legend, view

    form = load_form(schema, regex, choice, grammar, named="FILE", style=style.value)
    trees, counts = view(form.template, form.schema)
    summary = _summary(counts, model)
    console = Console(highlight=False)
    console.print(legend())
    for tree in trees:
        console.print()
        console.print(tree)
    console.print()
    console.print(summary, soft_wrap=True)


def _summary(counts: Counts, model: str | None) -> Text:
    from rich.text import Text

    num_bytes = sum(map(len, counts.literals))
    parts = [f"{num_bytes} bytes of asserted text{_in_tokens(counts.literals, model)}"]
    for number, unit in (
        (counts.num_holes, "hole"),
        (counts.num_choices, "choice"),
        (counts.num_repeats, "repeat"),
    ):
        if number:
            parts.append(f"{number} {unit}" if number == 1 else f"{number} {unit}s")
    return Text(", ".join(parts))


def _in_tokens(literals: list[bytes], model: str | None) -> str:
    """In parentheses, by the tokenizer of `model`; nothing where the default model has not been fetched."""
    from fillengine.generation.models import known_models, model_folder

    if model is None:
        here = [known for known in known_models() if known.folder is not None]
        if not here:
            return ""
        name, folder = here[0].name, here[0].folder
    else:
        name, folder = model, model_folder(model)
    try:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    except Exception as error:
        raise FillError(f"{folder}: its tokenizer cannot be read ({error}); name another --model") from None
    num_tokens = sum(
        len(tokenizer.encode(text.decode("utf-8", "replace"), add_special_tokens=False).ids) for text in literals
    )
    return f" (about {num_tokens} tokens of {name})"
