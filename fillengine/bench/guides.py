"""The peers' constraint engines behind one interface: what may come next, as bits."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from fillengine.bench.bitmask import Bits, num_words
from fillengine.bench.records import Record
from fillengine.errors import ModelError, UnsupportedForm
from fillengine.fill.tokenizer import read_tokenizer
from fillengine.generation.models import LoadedModel

# What `json.dumps` writes, which is our own style, too.
LLGUIDANCE_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class Guide(Protocol):
    """Where one text is in its form."""

    def consume(self, token_id: int) -> None: ...
    @property
    def is_stopped(self) -> bool:
        """Whether nothing may follow but an end of sequence."""


class Guides(Protocol):
    """An engine over one vocabulary. name: as tables have it."""

    name: str

    def guide(self, record: Record) -> Guide:
        """A new guide at the beginning. What can be kept for the next record of the same form is kept."""

    def fill(self, guides: Sequence[Any], bits: Bits) -> None:
        """Write the mask of each guide into its row of `bits`."""


def peer(name: str, loaded: LoadedModel, num_logits: int) -> Guides:
    """The peer of that name. Raises ModelError for another one, or where its package is missing."""
    kinds: dict[str, Any] = {kind.name: kind for kind in (Llguidance, GroundedLlguidance, Outlines)}
    if name not in kinds:
        raise ModelError(f"there is no peer {name}; the peers are {', '.join(kinds)}")
    try:
        guides: Guides = kinds[name](loaded, num_logits)
    except ImportError as error:
        raise ModelError(f"the peer {name} is not installed ({error}); pip install 'fillengine[bench]'") from None
    return guides


class _Matcher:
    def __init__(self, matcher: Any) -> None:
        self.matcher = matcher

    def consume(self, token_id: int) -> None:
        self.matcher.consume_token(token_id)

    @property
    def is_stopped(self) -> bool:
        return bool(self.matcher.is_stopped())


class Llguidance:
    """llguidance: its grammar of a JSON Schema, compiled once and copied; masks of several rows in parallel."""

    name = "llguidance"

    def __init__(self, loaded: LoadedModel, num_logits: int) -> None:
        import llguidance.hf
        from llguidance import LLExecutor

        tokenizer = getattr(loaded.tokenizer, "_tokenizer", loaded.tokenizer)
        self._inner = llguidance.hf.from_tokenizer(
            tokenizer, n_vocab=num_logits, eos_token=sorted(loaded.eos_ids) or None
        )
        self._executor = LLExecutor()
        self._first: dict[str, Any] = {}

    def guide(self, record: Record) -> Guide:
        from llguidance import LLMatcher

        text = json.dumps(record.schema)
        if text not in self._first:
            self._first[text] = self._checked(
                record, LLMatcher.grammar_from_json_schema(text, overrides=LLGUIDANCE_STYLE)
            )
        return _Matcher(self._first[text].deep_copy())

    def _checked(self, record: Record, grammar: str) -> Any:
        from llguidance import LLMatcher

        matcher = LLMatcher(self._inner, grammar)
        if matcher.is_error():
            why = matcher.get_error()
            raise UnsupportedForm(f"{self.name} refuses the form of record {record.id}: {why}", keyword="")
        return matcher

    def fill(self, guides: Sequence[_Matcher], bits: Bits) -> None:
        import llguidance.numpy

        signed = bits.view(np.int32)
        if len(guides) == 1:
            llguidance.numpy.fill_next_token_bitmask(guides[0].matcher, signed, 0)
            return
        pairs = [(guide.matcher, row) for row, guide in enumerate(guides)]
        llguidance.numpy.fill_next_token_bitmask_par(self._executor, pairs, signed)


class GroundedLlguidance(Llguidance):
    """llguidance with strings held to passages of the document, as our default grounding holds them.

    Its JSON Schema compiler has no keyword for that, but its Lark dialect has `%regex {"substring_chunks": …}`:
    any run of neighbouring chunks. So the object is written out in Lark, strings are passages (whole words of one
    paragraph, JSON-escaped), and what is no string is left to the JSON compiler (`%json`).
    """

    name = "llguidance-grounded"

    def guide(self, record: Record) -> Guide:
        from llguidance import LLMatcher

        return _Matcher(self._checked(record, LLMatcher.grammar_from_lark(grounded_lark(record))))


_FORMATS = {
    "email": r"[a-zA-Z0-9_.+\-]+@[a-zA-Z0-9\-]+(\.[a-zA-Z0-9\-]+)+",
    "uri": r"[a-z][a-z0-9+.\-]*:\/\/[a-zA-Z0-9_.~:\/?#\-]+",
}
_WORD = re.compile(r"[\w.+@/:~-]*\w|[^\w\s]|\s+")


def grounded_lark(record: Record) -> str:
    """A Lark grammar of llguidance's dialect for a record's form, grounded in its document.

    For flat objects: all properties required; strings, what is no string, either or null, and arrays of these.
    Raises UnsupportedForm for other forms.
    """
    schema = record.schema
    properties = schema.get("properties")
    if not isinstance(properties, dict) or set(schema.get("required", ())) != set(properties):
        raise UnsupportedForm(
            f"the form of record {record.id} is no object whose properties are all required, and "
            f"{GroundedLlguidance.name} writes only such",
            keyword="properties",
        )
    parts, rules = [], []
    for number, (name, value) in enumerate(properties.items()):
        parts += [_literal(("{" if number == 0 else ", ") + json.dumps(name) + ": "), f"value_{number}"]
        rules.append(f"value_{number}: {_value(value, record.document)}")
    paragraphs = [paragraph for paragraph in re.split(r"\n\s*\n", record.document) if paragraph.strip()]
    passages = []
    for number, paragraph in enumerate(paragraphs):
        chunks = [json.dumps(chunk, ensure_ascii=False)[1:-1] for chunk in _WORD.findall(paragraph)]
        passages.append(f"SOURCE_{number}: %regex {json.dumps({'substring_chunks': chunks})}")
    sources = " | ".join(f"SOURCE_{number}" for number in range(len(paragraphs)))
    lines = [
        "%llguidance {}",
        f"start: {' '.join(parts)} {_literal('}')}",
        *rules,
        # Neither empty nor with white space at an end, which JSON writes as a space, \n, \r or \t.
        rf"PASSAGE: /[^ \\][^\n]*|\\[^nrt][^\n]*/ & ~/(?s:.*)( |\\[nrt])/ & ({sources})",
        *(f"PASSAGE_{name.upper()}: /{pattern}/ & ({sources})" for name, pattern in _FORMATS.items()),
        *passages,
    ]
    return "\n".join(lines) + "\n"


def _literal(text: str) -> str:
    return json.dumps(text)


def _value(schema: dict[str, Any], document: str) -> str:
    kind = schema.get("type")
    if isinstance(kind, list) and "null" in kind and len(kind) == 2:
        (other,) = (name for name in kind if name != "null")
        return f'"null" | {_value({**schema, "type": other}, document)}'
    if kind == "string" and not schema.keys() & {"enum", "const", "pattern"}:
        form = schema.get("format")
        # What nothing in the document fits stays free.
        if form is None or (form in _FORMATS and re.search(_FORMATS[form], document)):
            terminal = "PASSAGE" if form is None else f"PASSAGE_{form.upper()}"
            return f'"\\"" {terminal} "\\""'
    if kind == "array" and isinstance(schema.get("items"), dict) and not schema.keys() & {"minItems", "maxItems"}:
        item = _value(schema["items"], document)
        return f'"[]" | "[" ({item}) (", " ({item}))* "]"'
    if kind == "object":
        raise UnsupportedForm(f"{GroundedLlguidance.name} writes no nested objects", keyword="type")
    return f"%json {json.dumps(schema)}"


class _Index:
    def __init__(self, guide: Any) -> None:
        self.guide = guide

    def consume(self, token_id: int) -> None:
        self.guide.advance(token_id, return_tokens=False)

    @property
    def is_stopped(self) -> bool:
        # In an accepting state of a JSON object nothing can follow.
        return bool(self.guide.is_finished())


class Outlines:
    """outlines-core, the engine of Outlines: the schema's regular expression, indexed over the vocabulary once."""

    name = "outlines"

    def __init__(self, loaded: LoadedModel, num_logits: int) -> None:
        from outlines_core import Vocabulary

        ids: dict[bytes, list[int]] = {}
        for token_id, text in enumerate(read_tokenizer(loaded.tokenizer).vocabulary.tokens):
            if text:
                ids.setdefault(text, []).append(token_id)
        self._vocabulary = Vocabulary(min(loaded.eos_ids), ids)
        self._num_words = num_words(num_logits)
        self._indexes: dict[str, Any] = {}

    def guide(self, record: Record) -> Guide:
        from outlines_core import Guide as IndexGuide
        from outlines_core import Index
        from outlines_core.json_schema import build_regex_from_schema

        text = json.dumps(record.schema)
        if text not in self._indexes:
            try:
                self._indexes[text] = Index(build_regex_from_schema(text), self._vocabulary)
            except Exception as error:  # ValueError and others of its own
                raise UnsupportedForm(
                    f"{self.name} refuses the form of record {record.id}: {error}", keyword=""
                ) from error
        return _Index(IndexGuide(self._indexes[text]))

    def fill(self, guides: Sequence[_Index], bits: Bits) -> None:
        for row, guide in enumerate(guides):
            guide.guide.write_mask_into(bits[row].ctypes.data, self._num_words, 4)
