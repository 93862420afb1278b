"""Schemas made to hurt: bounded time and memory, and a clear answer. Each in a process with a limit on both."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import pytest

import fillengine
from fillengine.errors import FillError

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
    constraint.session().allowed()
    print("writable")
except fillengine.FillError as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""

BOMBS = {
    "allOf that doubles 40 times": (
        'chain(lambda ref: {"allOf": [ref, ref]})',
        "writable",
    ),
    "anyOf that doubles 40 times": (
        'chain(lambda ref: {"anyOf": [ref, ref]})',
        "UnsupportedForm: at /$defs/d38/anyOf: the branches combine in more than 4096 ways; use fewer branches, "
        "or fewer anyOf/oneOf beside each other",
    ),
    "oneOf that doubles 40 times": (
        'chain(lambda ref: {"oneOf": [ref, ref]})',
        "UnsupportedForm: at /$defs/",
    ),
    "properties that double 40 times": (
        'chain(lambda ref: {"type": "object", "properties": {"a": ref, "b": ref}, "required": ["a", "b"]})',
        "UnsatisfiableForm: no text fits this form, or none of fewer than 10**12 bytes",
    ),
    "choices beside each other": (
        '{"type": "object", "allOf": [{"anyOf": [{"required": [f"p{n}"]}, {"required": [f"q{n}"]}]} '
        "for n in range(25)]}",
        "UnsupportedForm: at /allOf/",
    ),
    "a pattern that backtracks": ('{"type": "string", "pattern": "^(a+)+$"}', "writable"),
    "a pattern with an exponential automaton": (
        '{"type": "string", "pattern": "^(a|b)*a(a|b){40}$"}',
        "UnsupportedForm: at /pattern: pattern '^(a|b)*a(a|b){40}$': a constraint needs ",
    ),
    "repeats of repeats": (
        '{"type": "string", "pattern": "^((((a{1,100}){1,100}){1,100}){1,100})$"}',
        "UnsupportedForm: at /pattern: pattern ",
    ),
    "an enum of 10 MB": (
        '{"enum": [f"member {n:09} " + "x" * 80 for n in range(100_000)]}',
        "writable",
    ),
    "5,000 nested objects": (
        'nested(lambda inner: {"type": "object", "properties": {"a": inner}})',
        "UnsupportedForm: ",
    ),
    "5,000 nested arrays": ('nested(lambda inner: {"type": "array", "items": inner})', "UnsupportedForm: "),
    "5,000 nested allOf": ('nested(lambda inner: {"allOf": [inner]})', "writable"),
    "5,000 nested not": ('nested(lambda inner: {"not": inner})', "writable"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_ends_within_its_limits_with_a_clear_answer(name: str) -> None:
    schema, answer = BOMBS[name]
    script = SCRIPT.format(schema=schema, seconds=SECONDS, memory=MEMORY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.startswith(answer)
    assert answer == "writable" or ";" in done.stdout or "10**12" in done.stdout, "it says what to do"
    assert len(done.stdout) < 1_000


@pytest.mark.parametrize(
    "reference", ["http://example.org/schema.json", "https://example.org/#/$defs/x", "file:///etc/passwd", "ftp://x/y"]
)
def test_a_reference_to_a_network_address_is_never_fetched(monkeypatch: pytest.MonkeyPatch, reference: str) -> None:
    def refuse(*_arguments: Any, **_options: Any) -> None:
        raise AssertionError("something is fetched")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(FillError) as caught:
        fillengine.compile({"type": "object", "properties": {"a": {"$ref": reference}}})
    assert "/properties/a/$ref" in str(caught.value)
    assert reference in str(caught.value)
    assert ";" in str(caught.value)
