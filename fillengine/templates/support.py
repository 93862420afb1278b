"""What is done with each keyword of JSON Schema, for the documentation. A test holds it to `reading`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fillengine.automata.tables import STATE_LIMIT
from fillengine.templates.alternatives import ALTERNATIVES_LIMIT, TOGETHER_LIMIT
from fillengine.templates.array_shapes import WALK_LIMIT
from fillengine.templates.outline import DEPTH_LIMIT
from fillengine.templates.presence import WAYS_LIMIT
from fillengine.templates.reading import TEXT_LIMIT

_STATES = f"an automaton of more than {STATE_LIMIT:,} states"
_PRESENCE = "what only says which properties are there is one condition, however many ways it has"
_WAYS = f"more than {WAYS_LIMIT:,} ways to have what must be together"
_TWICE = (
    f"beside an `anyOf` of more than {TOGETHER_LIMIT} branches; where one schema applies twice to a value, once below "
    "the keyword and once not"
)
_BRANCHES = f"more than {ALTERNATIVES_LIMIT:,} combinations of branches"
_LONG = f"values that take more than {TEXT_LIMIT:,} bytes to write"


class Support(NamedTuple):
    """How a keyword is honoured, and where it is refused ("": nowhere)."""

    how: str
    refused: str = ""


SUPPORT: Mapping[str, Support] = {
    "type": Support("`1.0` is an integer, as drafts 6 and later say, but written as `1`"),
    "enum": Support("any JSON values, each written in one way", _LONG),
    "const": Support("as an `enum` of one value", _LONG),
    "minimum": Support("exact, of any size"),
    "maximum": Support("exact, of any size"),
    "exclusiveMinimum": Support("exact; draft 4's boolean too"),
    "exclusiveMaximum": Support("exact; draft 4's boolean too"),
    "multipleOf": Support("exact, of decimals such as 0.01 too", _STATES),
    "minLength": Support("counts Unicode characters"),
    "maxLength": Support("counts Unicode characters; of any size"),
    "pattern": Support(
        "ECMA-262, unanchored unless it says otherwise; look-around where it is an intersection",
        f"back-references, look-around under a repetition, {_STATES}",
    ),
    "format": Support("asserted, see below; an unknown format constrains nothing, with a warning"),
    "prefixItems": Support("item by item"),
    "items": Support("an array of schemas (drafts 4 to 2019-09) is `prefixItems`"),
    "additionalItems": Support("behind an `items` array"),
    "minItems": Support("counted, of any size"),
    "maxItems": Support("counted, of any size"),
    "uniqueItems": Support(
        "items are compared by their texts, each value having one; objects in them have one order of members",
        "items that hold the array itself; beside `prefixItems` whose values are not few; as what must not hold, where "
        "items have properties",
    ),
    "contains": Support(
        "the items that fit are counted, several kinds side by side",
        f"more than {WALK_LIMIT:,} states of counts; counts other than one or more beside `uniqueItems`",
    ),
    "minContains": Support("counted with `contains`"),
    "maxContains": Support("counted with `contains`"),
    "unevaluatedItems": Support("as `unevaluatedProperties`; items that fit a `contains` are evaluated", _TWICE),
    "properties": Support(
        "in the order of the schema, or in any order", f"names of more than {TEXT_LIMIT:,} characters"
    ),
    "patternProperties": Support("overlapping patterns too: keys are split by the patterns that they match"),
    "additionalProperties": Support("any schema; no key is written twice"),
    "required": Support("honoured"),
    "propertyNames": Support("any schema of strings"),
    "minProperties": Support("counted"),
    "maxProperties": Support("counted"),
    "dependentRequired": Support("a condition on which properties are there", _WAYS),
    "dependentSchemas": Support(f"as alternatives; {_PRESENCE}", _BRANCHES),
    "dependencies": Support("as `dependentRequired` and `dependentSchemas`", _BRANCHES),
    "unevaluatedProperties": Support("in each alternative, as `additionalProperties` beside all that applies", _TWICE),
    "$ref": Support(
        "JSON pointers, `$id`, anchors; recursion of any depth",
        f"targets outside of the document; values that nest deeper than {DEPTH_LIMIT} levels without recursion",
    ),
    "$dynamicRef": Support(
        "as a reference to the document's own anchor of that name, or to the only one",
        "where several other resources have the anchor",
    ),
    "$recursiveRef": Support("as `$dynamicRef`", "as `$dynamicRef`"),
    "allOf": Support("merged with its sibling keywords"),
    "anyOf": Support(f"as alternatives, which may overlap; {_PRESENCE}", _BRANCHES),
    "oneOf": Support("exactly one: branches that may overlap exclude each other", _BRANCHES),
    "not": Support(
        "rewritten as alternatives (some item is none of the schema, some property has no such value); what cannot "
        "be is compared text by text while it is written",
        "a value that is compared with itself; where the search for a value finds none; formats without a grammar in "
        "`grammars/formats/wide` and are stricter than their standard; more than four unnamed properties at once",
    ),
    "if": Support("with `then` and `else`: (if and then) or (not if and else)", _BRANCHES),
    "x-fill": Support("`verbatim` or `free`: whether a string is held to the document"),
}
