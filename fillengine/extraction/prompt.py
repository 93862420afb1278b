"""The prompt of an extraction: chat messages from a schema and a document.

What is said to the model is data: `prompts/system.jinja` and `prompts/document.jinja`, rendered in jinja2's
sandbox, and the worked examples of `prompts/examples.json`, which show the task on forms of other kinds. What is
the same for every document (task, examples, the fields of the form) comes first and the document last, so that many
documents share one prefix, which is prefilled once.

The wording, the number of examples and their order were chosen by field accuracy (`docs/benchmarks.md`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined, Template
from jinja2.sandbox import ImmutableSandboxedEnvironment

from fillengine.extraction.schema_reading import options, properties, resolved

Messages = list[dict[str, str]]

# What a field of a shipped example is, unless the file says otherwise.
_PLAIN: dict[str, Any] = {"members": (), "is_nullable": False, "is_required": True, "depth": 0}
_PROMPTS = Path(__file__).parent / "prompts"
# An enum longer than this is shown by its first members: the mask holds the rest, the prompt need not.
MAX_MEMBERS_SHOWN = 24
# How deep nested objects are listed. Deeper, and at recursion, the kind alone is named.
MAX_DEPTH = 4

FORMAT_WORDS = {
    "date": "date as YYYY-MM-DD",
    "date-time": "date and time as YYYY-MM-DDThh:mm:ssZ",
    "time": "time as hh:mm:ssZ",
    "duration": "duration as P1DT2H",
    "email": "e-mail address",
    "uri": "address starting with its scheme, like https://",
    "uuid": "UUID",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One line of the field list. `depth` is 0 for the properties of the object itself."""

    name: str
    type: str
    description: str
    members: tuple[str, ...]
    is_nullable: bool
    is_required: bool
    depth: int


@dataclass(frozen=True, slots=True)
class Example:
    """A worked example for the form at hand: a document and the JSON text of its right answer."""

    document: str
    answer: str


@dataclass(frozen=True, slots=True)
class PromptContext:
    """What `document.jinja` may use of a form."""

    title: str
    description: str
    fields: tuple[Field, ...]


def build_messages(
    schema: Any, document: str, *, instructions: str | None = None, example: Example | None = None
) -> Messages:
    """Chat messages that ask for what `schema` describes, from `document`.

    [system: task] [user: fields and document, assistant: answer]… [user: fields and document]

    The shipped examples come first, then `example`.
    """
    form = context(schema)
    messages = [{"role": "system", "content": _template("system").render(instructions=instructions or "")}]
    messages += _shipped_examples()
    if example is not None:
        messages += _turns(form, example)
    messages.append(_question(form, document))
    return messages


def build_text_messages(
    description: str, document: str, *, instructions: str | None = None, example: Example | None = None
) -> Messages:
    """Chat messages that ask for a text which is no JSON: `description` says what it is. No examples are shipped."""
    system = {"role": "system", "content": _template("text-system").render(instructions=instructions or "")}

    def question(text: str) -> dict[str, str]:
        content = _template("text-document").render(description=description, document=text)
        return {"role": "user", "content": content}

    shown = [question(example.document), {"role": "assistant", "content": example.answer}] if example else []
    return [system, *shown, question(document)]


def _turns(form: PromptContext, example: Example) -> Messages:
    return [_question(form, example.document), {"role": "assistant", "content": example.answer}]


def _question(form: PromptContext, document: str) -> dict[str, str]:
    return {"role": "user", "content": _template("document").render(asdict(form), document=document)}


@lru_cache(maxsize=1)
def _shipped_examples() -> Messages:
    messages: Messages = []
    for example in json.loads((_PROMPTS / "examples.json").read_text(encoding="utf-8")):
        fields = tuple(Field(**{**_PLAIN, **field}) for field in example["fields"])
        form = PromptContext(example["title"], "", fields)
        messages += _turns(form, Example(example["document"], json.dumps(example["answer"], ensure_ascii=False)))
    return messages


def context(schema: Any) -> PromptContext:
    """What the prompt may say about a schema (a dict, or True for any JSON)."""
    root = schema if isinstance(schema, Mapping) else {}
    top = resolved(root, root)
    return PromptContext(
        title=str(top.get("title", "")),
        description=str(top.get("description", "")),
        fields=tuple(_fields(top, root, 0, ())),
    )


@lru_cache(maxsize=8)
def _template(name: str) -> Template:
    # A schema's texts and a document are data, never templates; the sandbox is for people who edit the files.
    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(_PROMPTS),
        undefined=StrictUndefined,
        autoescape=False,
    )
    return environment.get_template(f"{name}.jinja")


def _fields(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int, path: tuple[int, ...]) -> Iterator[Field]:
    """The properties of an object, nested ones directly behind their parent."""
    if depth > MAX_DEPTH or id(schema) in path:
        return
    path = (*path, id(schema))
    required = schema.get("required", ())
    for name, declared in properties(schema, root).items():
        found = resolved(declared, root)
        yield Field(
            name=name,
            type=_type(found, root),
            description=_description(name, declared, found),
            members=_members(found),
            is_nullable=_is_nullable(found, root),
            is_required=name in required,
            depth=depth,
        )
        yield from _fields(_inner(found, root), root, depth + 1, path)


def _inner(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object whose properties are listed below a field: itself, its items, its one option beside null."""
    if "properties" in schema or "allOf" in schema:
        return schema
    if isinstance(schema.get("items"), Mapping):
        return _inner(resolved(schema["items"], root), root)
    some = [option for option in options(schema, root) if option.get("type") != "null"]
    return _inner(some[0], root) if len(some) == 1 else {}


def _type(schema: Mapping[str, Any], root: Mapping[str, Any], nesting: int = 0) -> str:
    members = _members(schema)
    if members:
        shown = ", ".join(members[:MAX_MEMBERS_SHOWN])
        return f"one of {shown}, …" if len(members) > MAX_MEMBERS_SHOWN else f"one of {shown}"
    if "const" in schema:
        return f"always {json.dumps(schema['const'], ensure_ascii=False)}"
    if nesting > MAX_DEPTH:
        return "value"
    any_of = options(schema, root)
    if any_of:
        return " or ".join(dict.fromkeys(_type(option, root, nesting + 1) for option in any_of))
    kinds = schema.get("type", "object" if "properties" in schema else "value")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return " or ".join(_kind(kind, schema, root, nesting) for kind in kinds)


def _kind(kind: str, schema: Mapping[str, Any], root: Mapping[str, Any], nesting: int) -> str:
    if kind == "array":
        items = schema.get("items")
        return f"list of {_type(resolved(items, root), root, nesting + 1)}" if isinstance(items, Mapping) else "list"
    if kind == "string":
        return FORMAT_WORDS.get(schema.get("format", ""), "text")
    words = {"boolean": "true or false", "integer": "whole number", "number": "number", "object": "object"}
    return words.get(kind, kind)


def _members(schema: Mapping[str, Any]) -> tuple[str, ...]:
    members = schema.get("enum")
    if not isinstance(members, list):
        return ()
    return tuple(json.dumps(member, ensure_ascii=False) for member in members)


def _is_nullable(schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    kinds = schema.get("type", ())
    if "null" in (kinds if isinstance(kinds, list) else [kinds]) or None in (schema.get("enum") or ()):
        return True
    return any(option.get("type") == "null" for option in options(schema, root))


def _description(name: str, declared: Any, found: Mapping[str, Any]) -> str:
    """What stands beside a reference says more about this field than what stands behind it."""
    places = [place for place in (declared, found) if isinstance(place, Mapping)]
    for keyword in ("description", "title"):
        for place in places:
            said = str(place.get(keyword, ""))
            # pydantic makes titles from names ("Due Date" for due_date): those say nothing new.
            if said and said.replace(" ", "_").lower() != name.lower():
                return said
    return ""
