"""Schemas made to hurt: bounded time and memory, and a clear answer. Each in a process with a limit on both."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest

import fillengine
from fillengine.errors import UnsupportedForm
from fillengine.templates.containers import LACKS_LIMIT

MEMORY = 3 * 2**30
SECONDS = 120
"""Of the processor, import of the package included."""

SCRIPT = """
import sys, resource, warnings
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
warnings.simplefilter("ignore")
import fillengine
from fillengine.testing.tokenizer import toy_tokenizer


def nested(wrap, levels=5_000):
    schema = {{"type": "integer"}}
    for _ in range(levels):
        schema = wrap(schema)
    return schema


def chain(link, levels=40):
    definitions = {{f"d{{n}}": link({{"$ref": f"#/$defs/d{{n + 1}}"}}) for n in range(levels)}}
    return {{"$ref": "#/$defs/d0", "$defs": {{**definitions, f"d{{levels}}": {{"type": "integer"}}}}}}


try:
    constraint = fillengine.Constraint(fillengine.compile({schema}), toy_tokenizer())
    session = constraint.session()
    for _ in range(20):
        if not session.is_finished:
            session.advance(int(session.allowed().argmax()))
    print("writable")
except fillengine.FillError as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""

TOO_MANY_WAYS = (
    "the branches combine in more than 4096 ways; use fewer branches, or fewer anyOf/oneOf beside each other"
)
TOO_MANY_STATES = "use smaller bounds, a simpler pattern, or fewer constraints on one value"
TOO_DEEP = "values nest deeper than 400 levels; make the schema recursive ($ref), or flatter"

BOMBS = {
    "allOf that doubles 40 times": (
        'chain(lambda ref: {"allOf": [ref, ref]})',
        "writable",
    ),
    "anyOf that doubles 40 times": (
        'chain(lambda ref: {"anyOf": [ref, ref]})',
        f"UnsupportedForm: at /$defs/d38/anyOf: {TOO_MANY_WAYS}",
    ),
    "oneOf that doubles 40 times": (
        'chain(lambda ref: {"oneOf": [ref, ref]})',
        f"UnsupportedForm: at /$defs/d39/oneOf: {TOO_MANY_WAYS}",
    ),
    "properties that double 40 times": (
        'chain(lambda ref: {"type": "object", "properties": {"a": ref, "b": ref}, "required": ["a", "b"]})',
        "UnsatisfiableForm: no text fits this form, or none of fewer than 10**12 bytes",
    ),
    "choices beside each other": (
        '{"type": "object", "allOf": [{"anyOf": [{"required": [f"p{n}"]}, {"required": [f"q{n}"]}]} '
        "for n in range(25)]}",
        f"UnsupportedForm: at /allOf/0: which properties may stand together leaves more than {LACKS_LIMIT} conditions "
        "open at once in this order; use fewer combinations of required properties",
    ),
    "a pattern that backtracks": ('{"type": "string", "pattern": "^(a+)+$"}', "writable"),
    "a pattern with an exponential automaton": (
        '{"type": "string", "pattern": "^(a|b)*a(a|b){40}$"}',
        "UnsupportedForm: at /pattern: pattern '^(a|b)*a(a|b){40}$': a constraint needs 50002 automaton states or "
        f"more, the limit is 50000; {TOO_MANY_STATES}",
    ),
    "repeats of repeats": (
        '{"type": "string", "pattern": "^((((a{1,100}){1,100}){1,100}){1,100})$"}',
        "UnsupportedForm: at /pattern: pattern '^((((a{1,100}){1,100}){1,100}){1,100})$': a constraint needs 502352 "
        f"automaton states or more, the limit is 500000; {TOO_MANY_STATES}",
    ),
    "a pattern of 10 MB": (
        '{"type": "string", "pattern": "a" * 10_000_000}',
        f"UnsupportedForm: at /pattern: pattern '{'a' * 300}'... (10000000 characters): a constraint needs 10000000 "
        f"automaton states or more, the limit is 6000; {TOO_MANY_STATES}",
    ),
    "a long string that is excluded": (
        '{"type": "object", "properties": {"a": {"not": {"const": "x" * 50_000}}}}',
        "UnsupportedForm: at /properties/a/not: a constraint needs 50001 automaton states or more, the limit is 50000; "
        f"{TOO_MANY_STATES}",
    ),
    "an enum of 10 MB": (
        '{"enum": [f"member {n:09} " + "x" * 80 for n in range(100_000)]}',
        "writable",
    ),
    "an enum of one string of 10 MB": (
        '{"enum": ["x" * 10_000_000]}',
        "UnsupportedForm: at /enum/0: this value takes 10000002 bytes to write, the limit is 100000; leave it out, or "
        "let a short name stand for it",
    ),
    "an enum of two strings of 10 MB within a property": (
        '{"type": "object", "properties": {"a": {"enum": ["x", "y" * 10_000_000, "z" * 10_000_000]}}}',
        "UnsupportedForm: at /properties/a/enum/1: this value takes 10000002 bytes to write, the limit is 100000; "
        "leave it out, or let a short name stand for it",
    ),
    "a const of 10 MB that is no string": (
        '{"const": [1] * 3_333_333}',
        "UnsupportedForm: at /const: this value takes 9999999 bytes to write, the limit is 100000; leave it out, or "
        "let a short name stand for it",
    ),
    "an enum of strings just below the limit": ('{"enum": ["x" * 99_998, "xy" * 49_999]}', "writable"),
    "a name of 10 MB": (
        '{"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}, "c" * 10_000_000: {}}}}}',
        "UnsupportedForm: at /properties/a/properties: name 1 is 10000000 characters long, the limit is 100000; use "
        "a shorter one",
    ),
    "a required name of 10 MB": (
        '{"type": "object", "required": ["a" * 10_000_000]}',
        "UnsupportedForm: at /required: name 0 is 10000000 characters long, the limit is 100000; use a shorter one",
    ),
    "5,000 nested objects": (
        'nested(lambda inner: {"type": "object", "properties": {"a": inner}})',
        f"UnsupportedForm: at /properties/a/properties/a/properties/a/properties/a: {TOO_DEEP}",
    ),
    "5,000 nested arrays": (
        'nested(lambda inner: {"type": "array", "items": inner})',
        f"UnsupportedForm: at /items/items/items/items/items/items/items/items: {TOO_DEEP}",
    ),
    "5,000 nested allOf": ('nested(lambda inner: {"allOf": [inner]})', "writable"),
    "5,000 nested not": ('nested(lambda inner: {"not": inner})', "writable"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_within_its_limits_with_a_clear_answer(name: str) -> None:
    schema, answer = BOMBS[name]
    script = SCRIPT.format(schema=schema, seconds=SECONDS, memory=MEMORY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout == f"{answer}\n"


@pytest.mark.parametrize(
    "reference", ["http://example.org/schema.json", "https://example.org/#/$defs/x", "file:///etc/passwd", "ftp://x/y"]
)
def test_a_reference_to_a_network_address_is_never_fetched(monkeypatch: pytest.MonkeyPatch, reference: str) -> None:
    def refuse(*_arguments: Any, **_options: Any) -> None:
        raise AssertionError("something is fetched")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(UnsupportedForm) as caught:
        fillengine.compile({"type": "object", "properties": {"a": {"$ref": reference}}})
    assert str(caught.value) == (
        f"at /properties/a/$ref: $ref {reference!r} leads out of the document, and nothing is fetched; copy its target "
        "under $defs and refer to it there"
    )
