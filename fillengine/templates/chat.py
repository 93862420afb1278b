"""A model's chat template: what turns messages into the text that the model reads.

Chat templates come with the weights and are not trusted: they run in jinja2's sandbox, with the helpers that
transformers gives them (`raise_exception`, `strftime_now`, `tojson`, loop controls, `{% generation %}`).
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from fillengine.automata.control import control
from fillengine.errors import InvalidForm
from fillengine.templates.text_form import TextForm

# Supplementary private use area A: no text of a template or of a tool stands there.
_FIRST_FOLD = 0xF0000


class ChatForm(TextForm):
    """A form that depends on the model's chat template."""

    @abstractmethod
    def bound(self, tokenizer: Any) -> ChatForm:
        """The form for the model of this tokenizer. Raises InvalidForm where it has no chat template."""


class TemplateRefused(Exception):
    """The template cannot render these messages: it says so itself, or it fails."""


@dataclass(frozen=True, eq=False)
class ChatTemplate:
    """text       the template, in jinja
    tokens     what it may call by name: `bos_token`, `eos_token`, …
    controls   the names of all control tokens (added tokens) of the vocabulary

    Raises InvalidForm where the text is no jinja template.
    """

    text: str = field(repr=False)
    tokens: Mapping[str, str] = field(default_factory=dict)
    controls: frozenset[str] = field(default=frozenset(), repr=False)

    def __post_init__(self) -> None:
        try:
            _ = self._compiled
        except jinja2.TemplateSyntaxError as error:
            raise InvalidForm(
                f"the chat template is no jinja template: line {error.lineno}: {error.message}",
                remedy="give the text of the model's chat_template",
            ) from error

    @classmethod
    def of(cls, tokenizer: Any, *, text: str | None = None) -> ChatTemplate:
        """The template of a Hugging Face tokenizer or a wrapper of it, or `text` with that tokenizer's tokens.

        Where a model has several, the one for tools. Raises InvalidForm where it has none.
        """
        found = text if text is not None else getattr(tokenizer, "chat_template", None)
        if isinstance(found, Mapping):
            found = found.get("tool_use") or found.get("default")
        if not isinstance(found, str):
            raise InvalidForm(
                "the tokenizer has no chat template, so nothing says how this model writes calls",
                remedy="give one: Tools(..., chat_template=TEXT)",
            )
        named = getattr(tokenizer, "special_tokens_map", None) or {}
        tokens = {name: str(token) for name, token in named.items() if isinstance(name, str) and not _is_list(token)}
        added = getattr(tokenizer, "added_tokens_decoder", None) or {}
        return cls(found, tokens, frozenset(str(token) for token in added.values()))

    def render(self, messages: Sequence[Mapping[str, Any]], **names: Any) -> str:
        """The text of a conversation. names: `tools`, `add_generation_prompt`, … Raises TemplateRefused."""
        try:
            return self._compiled.render(messages=messages, **self.tokens, **names)
        except Exception as error:  # whatever somebody's template raises
            raise TemplateRefused(f"{type(error).__name__}: {error}") from error

    def folded(self, text: str) -> str:
        """A rendered text with one character for each control token, so that no cut goes through one."""
        if self._control_names is None:
            return text
        return self._control_names.sub(lambda match: self._folds[match[0]], text)

    def marked(self, folded: str) -> bytes:
        """A folded text as bytes of a template: control tokens are marked (see `automata.control`)."""
        unfolded = {fold: name for name, fold in self._folds.items()}
        return b"".join(
            control(unfolded[character]) if character in unfolded else character.encode() for character in folded
        )

    @cached_property
    def _compiled(self) -> jinja2.Template:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        return environment.from_string(self.text)

    @cached_property
    def _folds(self) -> dict[str, str]:
        return {name: chr(_FIRST_FOLD + number) for number, name in enumerate(sorted(self.controls))}

    @cached_property
    def _control_names(self) -> re.Pattern[str] | None:
        # The longest first: one name may begin another.
        choices = "|".join(map(re.escape, sorted(self.controls, key=len, reverse=True)))
        return re.compile(choices) if choices else None


def _is_list(token: Any) -> bool:
    return isinstance(token, list | tuple)


class _Generation(Extension):
    """`{% generation %}` marks what the assistant writes, for training; what stands inside is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 (jinja2's own interface)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 (transformers' own signature)
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """JSON as transformers writes it for templates: jinja2's own filter escapes signs of HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)
