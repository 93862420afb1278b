"""Write the generated pages of the documentation: `make docs`.

    docs/cli.md             from the commands of fillengine.cli.app
    docs/json-schema.md     from fillengine.templates.support, the grammars of the formats, and what the JSON Schema
                            Test Suite came to (json-schema-suite.json, json-schema-exceptions.json)
    docs/benchmarks.md      from docs/benchmarks: about.md, the results (*.json), notes.md
    docs/benchmarks/*.svg   from the results, where matplotlib is installed

The pages are committed; a test holds them to the code.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import typer

FOLDER = Path(__file__).parent
NOTICE = "<!-- Written by docs/generate.py (`make docs`). Do not edit. -->"


def pages() -> dict[str, str]:
    """File name in docs/ to its text."""
    from fillengine.bench.page import page

    benchmarks = page(FOLDER / "benchmarks", notice=NOTICE)
    return {"cli.md": cli_page(), "json-schema.md": json_schema_page(), "benchmarks.md": benchmarks}


def json_schema_page() -> str:
    from fillengine.templates.formats import notes
    from fillengine.templates.references import drafts
    from fillengine.templates.support import SUPPORT

    text = (FOLDER / "json-schema.template.md").read_text(encoding="utf-8")
    keywords = ["| Keyword | How | Refused |", "|---|---|---|"]
    keywords += [f"| `{key}` | {_escaped(how)} | {_escaped(refused)} |" for key, (how, refused) in SUPPORT.items()]
    formats = ["| Format | Grammar |", "|---|---|"]
    formats += [f"| `{name}` | {_escaped(note)} |" for name, note in notes().items()]
    return (
        NOTICE
        + "\n"
        + text.format(
            keywords="\n".join(keywords),
            formats="\n".join(formats),
            drafts=", ".join(drafts()),
            suite="\n".join(_suite_table()),
            exceptions="\n".join(_exceptions()),
        )
    )


def _suite_table() -> Iterator[str]:
    """A row for each file of the suite that tests a keyword, in both drafts."""
    counts = json.loads((FOLDER / "json-schema-suite.json").read_text(encoding="utf-8"))
    drafts = list(counts)
    outcomes = ("passed", "refused", "wrong")
    yield f"| | {' | '.join(f'{draft}: {outcome}' for draft in drafts for outcome in outcomes)} |"
    yield "|---|" + "---:|" * len(drafts) * len(outcomes)
    totals = dict.fromkeys(((draft, outcome) for draft in drafts for outcome in outcomes), 0)
    for file in dict.fromkeys(file for draft in drafts for file in counts[draft]):
        cells = []
        for draft, outcome in totals:
            number = counts[draft].get(file, {}).get(outcome)
            totals[draft, outcome] += number or 0
            cells.append("" if number is None else str(number))
        yield f"| {file} | {' | '.join(cells)} |"
    yield f"| **all** | {' | '.join(f'**{total}**' for total in totals.values())} |"


def _exceptions() -> Iterator[str]:
    """The reasons for verdicts other than the suite's, with the tests that they are about."""
    for exception in json.loads((FOLDER / "json-schema-exceptions.json").read_text(encoding="utf-8")):
        files = dict.fromkeys(tests.partition(":")[0].rstrip("*/") for tests in exception["tests"])
        yield f"- {', '.join(files)}: {exception['reason']}"


def cli_page() -> str:
    from fillengine.cli.app import app
    from fillengine.cli.exits import EXIT_CODES

    root = typer.main.get_command(app)
    parts = [NOTICE, "", "# Command line", "", root.help or "", ""]
    parts += [
        "| Exit code | Meaning |",
        "|---|---|",
        *(f"| {code} | {why} |" for code, why in EXIT_CODES.items()),
    ]
    for name, command in _commands("fillengine", root):
        parts += ["", f"## {name}", "", *_paragraphs(command.help or "")]
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option"]
        usage = " ".join([name, "[OPTIONS]" if options else "", *(_argument_name(a) for a in arguments)])
        parts += ["", f"    {' '.join(usage.split())}"]
        parts += _table("Argument", [(_escaped(_argument_name(a)), a) for a in arguments])
        parts += _table("Option", [(_escaped(_option_name(o)), o) for o in options])
    return "\n".join(parts) + "\n"


def _commands(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        yield f"{prefix} {name}", command
        if hasattr(command, "commands"):
            yield from _commands(f"{prefix} {name}", command)


def _paragraphs(text: str) -> list[str]:
    return inspect.cleandoc(text).splitlines()


def _table(kind: str, rows: list[tuple[str, Any]]) -> list[str]:
    rows = [(name, parameter) for name, parameter in rows if name != "`--help`"]
    if not rows:
        return []
    lines = ["", f"| {kind} | Meaning |", "|---|---|"]
    for name, parameter in rows:
        lines.append(f"| {name} | {_escaped(_meaning(parameter))} |")
    return lines


def _argument_name(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    name = name if argument.required else f"[{name}]"
    return name if argument.nargs == 1 else f"{name}..."


def _option_name(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in sorted(option.opts, key=len, reverse=True))
    value = _value_name(option)
    return f"{names} {value}".strip()


def _value_name(option: Any) -> str:
    if isinstance(option.default, bool):
        return ""
    if isinstance(option.default, Enum):
        return "|".join(str(member.value) for member in type(option.default))
    return str(option.metavar or "")


def _meaning(parameter: Any) -> str:
    notes = []
    if parameter.required:
        notes.append("required")
    default = parameter.default
    if default is not None and not isinstance(default, bool) and not parameter.required:
        notes.append(f"default: {default.value if isinstance(default, Enum) else default}")
    meaning = str(parameter.help or "")
    return f"{meaning} ({', '.join(notes)})" if notes else meaning


def _escaped(text: str) -> str:
    """For a cell of a table."""
    return text.replace("|", "\\|")


def main() -> None:
    if find_spec("matplotlib") is not None:
        from fillengine.bench.plots import draw_all

        draw_all(FOLDER / "benchmarks")
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
