"""Large schemas stay small templates, and compile without Python's stack."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from json_schema_tools import accepts, machine

from fillengine.automata import nodes
from fillengine.automata.machine import Machine
from fillengine.automata.nodes import Node
from fillengine.errors import UnsupportedForm
from fillengine.templates import compile


def size(root: Node) -> int:
    """Nodes and edges that a walk over the template meets, each node once."""
    seen, work, count = set[int](), [root], 0
    while work:
        node = work.pop()
        count += 1
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, nodes.Sequence):
            work += node.items
        elif isinstance(node, nodes.Choice):
            work += node.options
        elif isinstance(node, nodes.Repeat):
            work.append(node.item)
    return count


def optional(number: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(number)}}


def test_optional_properties_cost_a_few_nodes_each() -> None:
    small, large = (size(compile(optional(number)).template.root) for number in (100, 300))
    assert large < 3.2 * small
    assert large < 300 * 10
    assert accepts(optional(300), {"p7": "", "p299": "x"})
    assert not accepts(optional(300), {"p7": "", "p6": "x"})


def test_shared_definitions_are_written_once() -> None:
    level: dict[str, Any] = {"type": "integer"}
    defs = {}
    for number in range(40):
        pair = {"type": "array", "prefixItems": [level, level], "minItems": 2, "items": False}
        defs[f"d{number}"] = pair
        level = {"$ref": f"#/$defs/d{number}"}
    assert size(compile({**level, "$defs": defs}).template.root) < 2000


@pytest.mark.parametrize("style", ["spaced", "indented"])
def test_values_may_nest_two_hundred_levels(style: Any) -> None:
    schema: dict[str, Any] = {"type": "string"}
    value: Any = "x"
    for _ in range(100):
        schema = {
            "type": "object",
            "properties": {"a": {"type": "array", "items": schema, "minItems": 1}},
            "required": ["a"],
        }
        value = {"a": [value]}
    text = json.dumps(value, indent=2 if style == "indented" else None)
    assert Machine(compile(schema, style=style).template).accepts(text.encode())


def test_too_many_levels_are_refused_by_name() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(3000):
        schema = {"type": "array", "items": schema, "minItems": 1}
    with pytest.raises(UnsupportedForm, match="400 levels"):
        compile(schema)


def test_counts_are_counters() -> None:
    schema = {"type": "array", "items": {"type": "string", "maxLength": 100_000}, "minItems": 2_000_000_000}
    assert size(compile(schema).template.root) < 10


def test_a_large_enum_is_one_node() -> None:
    words = [f"value {number}" for number in range(10_000)]
    root = compile({"enum": words}).template.root
    assert isinstance(root, nodes.Words)
    assert len(root.words) == 10_000
    assert accepts({"enum": words}, "value 777")
    assert not accepts({"enum": words}, "value")


def test_a_usual_schema_compiles_in_about_a_millisecond() -> None:
    kinds = [
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"enum": ["a", "b"]},
        {"type": "array", "items": {"type": "string"}},
    ]
    schema = {"type": "object", "properties": {f"p{i}": kinds[i % 5] for i in range(30)}, "required": ["p0", "p3"]}
    compile(schema)
    best = min(_seconds(schema) for _ in range(5))
    assert best < 0.02, "0.6 ms on an idle core; the rest is for a busy machine"


def _seconds(schema: Any) -> float:
    start = time.perf_counter()
    compile(schema)
    return time.perf_counter() - start


def test_recursive_one_of_is_decided_without_end() -> None:
    def call(name: str) -> dict[str, Any]:
        arguments = {"type": "array", "items": {"$ref": "#"}}
        return {"type": "object", "properties": {"op": {"const": name}, "args": arguments}, "required": ["op"]}

    expression = {"oneOf": [{"type": "integer"}, call("add"), call("mul")]}
    assert accepts(expression, {"op": "add", "args": [1, {"op": "mul", "args": []}]})
    assert not accepts(expression, {"op": "sub", "args": []})


def test_alternatives_that_repeat_the_same_patterns_are_few() -> None:
    rows = [["^....$", f"{a}b", f"{a}c"] for a in "wxyz"]
    schema = {"type": "string", "allOf": [{"anyOf": [{"pattern": pattern} for pattern in row]} for row in rows]}
    template = compile(schema).template
    # The common pattern alone, or one of the others of each row: 1 + 2**4 instead of 3**4.
    assert sum(isinstance(node, nodes.Pattern) for node in nodes.walk(template)) == 17
    automaton = machine(schema)
    assert automaton.accepts(b'"abcd"')
    assert automaton.accepts(b'"wbxcybzc"')
    assert not automaton.accepts(b'"wbxcyb"')
