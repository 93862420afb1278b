"""An explanation tells each token's origin, and adds up."""

from __future__ import annotations

import tiny_engine  # isort: skip (an optimised BLAS, before mlx is imported)

import html
import io
import re
from collections import Counter

import pytest
from rich.console import Console

from fillengine.errors import FillError
from fillengine.generation.explain.colours import _COLOURS
from fillengine.generation.explanation import page
from fillengine.templates import Thinking, compile

FORM = compile(
    {
        "type": "object",
        "properties": {
            "kind": {"enum": ["on", "off", "once"]},
            "name": {"type": "string", "maxLength": 6},
            "again": {"type": "string", "maxLength": 6, "default": "na"},
            "items": {"type": "array", "items": {"type": "integer", "maximum": 99, "minimum": 10}, "maxItems": 3},
        },
        "required": ["kind", "name", "again", "items"],
    }
)


@pytest.fixture(scope="module")
def engine():
    return tiny_engine.tiny_engine(context_length=2000)


@pytest.fixture(scope="module")
def results(engine):
    def one(seed, fill):
        options = {"max_tokens": 120, "temperature": 1.0, "seed": seed, "logprobs": 0, "fill": fill}
        return engine.generate("some text", FORM, **options)

    return [one(seed, fill) for seed in range(4) for fill in ("auto", "assert", "off")]


def test_tokens_and_origins_add_up_to_the_accounts(results):
    for result in results:
        explanation = result.explain()
        assert "".join(token.text for token in explanation.tokens) == result.text
        kept = Counter(token.origin for token in explanation.tokens)
        assert kept["asserted"] == result.stats.asserted
        assert kept["sampled"] + kept["end"] == result.stats.sampled
        assert {name: number for name, number in kept.items() if name in result.stats.accepted_by} == {
            name: number for name, number in result.stats.accepted_by.items() if number
        }
        proposed = Counter(result.stats.accepted_by)
        proposed.update(source for token in explanation.tokens for _, source in token.rejected)
        assert proposed == Counter(result.stats.proposed_by)
        assert sum(token.is_first for token in explanation.tokens) <= result.stats.forwards
        assert explanation.num_without - explanation.num_forwards >= 0
        assert sum(origin.num_tokens for origin in explanation.origins) == len(result.token_ids)


def test_spans_off_save_nothing_and_every_token_has_its_pass(results):
    for result in results[2::3]:
        explanation = result.explain()
        assert explanation.num_forwards == explanation.num_without
        assert {token.origin for token in explanation.tokens} <= {"sampled", "end"}
        assert sum(token.is_first for token in explanation.tokens) == result.stats.forwards


def test_fields_have_the_probabilities_of_their_open_tokens(results, engine):
    for result in results:
        fields = {field.pointer: field for field in result.explain().fields}
        assert {"/kind", "/name", "/again"} <= set(fields)
        for field in fields.values():
            assert 0 <= field.probability <= field.least <= 1
            assert field.num_open <= field.num_tokens
        assert fields["/name"].text == json_text(result.value["name"])
    assert engine.generate("some text", FORM, max_tokens=120).explain().fields == []


def json_text(value):
    import json

    return json.dumps(value, ensure_ascii=False)


def test_the_page_shows_the_text_and_stands_alone(results, tmp_path):
    for result in results[:3]:
        shown = result.explain().html()
        inside = re.sub(r"<del.*?</del>", "", shown[shown.index("<pre>") : shown.index("</pre>")], flags=re.DOTALL)
        assert html.unescape(re.sub(r"<[^>]+>", "", inside)) == result.text.replace("\n", "⏎\n")
        assert "http" not in shown
        assert "<script" not in shown
        assert "prefers-color-scheme: dark" in shown
    path = tmp_path / "page.html"
    results[0].explain().save(path)
    assert path.read_text(encoding="utf-8") == results[0].explain().html()
    assert results[0].explain()._repr_html_().startswith("<iframe")
    with pytest.raises(FillError, match="cannot be written"):
        results[0].explain().save(tmp_path / "no" / "page.html")


def test_what_a_text_holds_is_never_markup(engine):
    form = compile({"const": "</pre><script>alert(1)</script>"})
    shown = page([("<b>.txt", engine.generate("x", form, max_tokens=60).explain())])
    assert "<script" not in shown
    assert "<b>" not in shown.replace("<b>", "", 2)  # the two numbers of the headline


def test_the_terminal_shows_the_text(results):
    for result in results:
        console = Console(file=io.StringIO(), width=2000)
        result.explain().print(console)
        shown = console.file.getvalue()
        assert f"{result.stats.forwards} forward passes for {len(result.token_ids)} tokens" in shown
        if not any(token.rejected for token in result.explain().tokens):
            assert result.text in shown.replace("▏", "")


def test_a_forms_own_places_name_the_fields(engine):
    form = compile(Thinking({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}, end="!"))
    result = engine.generate("x", form, max_tokens=60, logprobs=0)
    assert [field.pointer for field in result.explain().fields] == ["/a"]
    assert result.thinking is not None
    assert result.text.startswith(result.thinking + "!")


def test_colours_are_legible():
    for name, colours in _COLOURS.items():
        for ink, paper in colours:
            assert contrast(ink, paper) >= 7, name


def contrast(one, other):
    """WCAG 2.2, contrast ratio."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    parts = [int(colour[begin : begin + 2], 16) / 255 for begin in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
