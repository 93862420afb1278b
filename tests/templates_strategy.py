"""Hypothesis strategies of templates over a few bytes."""

from __future__ import annotations

from hypothesis import strategies as st

from fillengine.automata import dfa
from fillengine.automata.machine import Machine
from fillengine.automata.nodes import (
    Choice,
    Entry,
    Except,
    Fresh,
    Literal,
    Node,
    Other,
    Pattern,
    Repeat,
    Rule,
    Sequence,
    Template,
    Unordered,
    Words,
)
from fillengine.errors import UnsatisfiableForm

TEXTS = st.sampled_from(
    [b'{"', b'": "', b'": ', b'", "', b"}", b"]", b"[", b", ", b"a", b"ab", b"abc", b'"', b"true", b"12", b""]
)
EXPRESSIONS = [
    "[a-c]+",
    "[ab]{2,4}",
    "-?(0|[1-9][0-9]*)",
    '"[^"\\\\]*"',
    "(a|ab)(c|bc)?",
    "é+",
    "[^x]{0,3}",
    "(aa)*",
]


def _patterns() -> st.SearchStrategy[Node]:
    plain = st.sampled_from(EXPRESSIONS).map(lambda expression: Pattern(dfa.from_regex(expression)))
    bounds = st.tuples(st.integers(0, 4), st.one_of(st.none(), st.integers(0, 5)))
    counted = bounds.filter(lambda pair: pair[1] is None or pair[0] <= pair[1]).map(
        lambda pair: Pattern(dfa.free_string(), low=pair[0], high=pair[1])
    )
    return st.one_of(plain, counted)


def _words() -> st.SearchStrategy[Node]:
    return st.sets(st.sampled_from([b"a", b"ab", b"abc", b'"x"', b"true", b"12", b"b"]), min_size=1).map(
        lambda words: Words(tuple(sorted(words)))
    )


def _unordered(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    entries = st.dictionaries(
        st.sampled_from([b'"a": ', b'"ab": ', b"1", b"12", b'"x"']), st.tuples(st.none() | children, st.booleans())
    ).map(lambda found: tuple(Entry(text, rest, is_required) for text, (rest, is_required) in found.items()))
    keys = st.sampled_from(
        [
            Fresh(Pattern(dfa.free_string()), (b'"a"', b'"ab"')),
            Fresh(Pattern(dfa.free_string(), low=1, high=2), (b'"a"',)),
            Fresh(Pattern(dfa.from_regex("[ab]{1,2}")), (b"a", b"bb")),
            Fresh(Pattern(dfa.from_regex("0|[1-9][0-9]*"))),
        ]
    )
    others = st.lists(st.builds(Other, keys, st.none() | st.just(Literal(b": ")) | children), max_size=1).map(tuple)
    bounds = st.sampled_from([(0, None), (0, None), (1, None), (2, None), (0, 2), (1, 1), (2, 3)])
    clauses = st.lists(st.tuples(st.integers(0, 31), st.integers(0, 31)), max_size=3)

    def node(
        entries: tuple[Entry, ...],
        others: tuple[Other, ...],
        bound: tuple[int, int | None],
        clauses: list[tuple[int, int]],
    ) -> Node:
        low, high = bound
        every = (1 << len(entries)) - 1
        together = tuple((some & every, all_of & every) for some, all_of in clauses) if bound == (0, None) else ()
        required = sum(entry.is_required for entry in entries)
        if not others:
            low = min(low, len(entries))
        high = None if high is None else max(high, required)
        comma = Literal(b", ")
        end = Literal(b"}")
        return Unordered(entries, others, low, high, Literal(b""), comma, end, end, clauses=together)

    return st.builds(node, entries, others, bounds, clauses)


def nodes(*, rules: bool = False) -> st.SearchStrategy[Node]:
    leaves = st.one_of(TEXTS.map(Literal), _patterns(), _words())
    if rules:
        # Behind a bracket, so that the recursion is never on the left.
        leaves = st.one_of(leaves, st.just(Sequence((Literal(b"["), Rule("again"), Literal(b"]")))))

    def inner(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        several = st.lists(children, min_size=1, max_size=3).map(tuple)
        item = children.map(lambda node: Sequence((Literal(b"a"), node)))
        repeats = st.builds(
            lambda node, low, extra, separator: Repeat(node, low, None if extra is None else low + extra, separator),
            item,
            st.integers(0, 2),
            st.one_of(st.none(), st.integers(0, 3)),
            st.one_of(st.none(), st.just(Literal(b", "))),
        )
        excepts = st.builds(
            lambda base, without: Except(base, tuple(without), {"again": Literal(b"e")}),
            children,
            st.lists(children, min_size=1, max_size=2),
        )
        return st.one_of(several.map(Sequence), several.map(Choice), repeats, _unordered(children), excepts)

    return st.recursive(leaves, inner, max_leaves=6)


def _has_a_text(template: Template) -> bool:
    try:
        Machine(template)
    except UnsatisfiableForm:
        return False
    return True


def templates() -> st.SearchStrategy[Template]:
    found = st.builds(
        lambda root, again: Template(root, {"again": Choice((Literal(b"e"), again))}),
        nodes(rules=True),
        nodes(rules=True),
    )
    return found.filter(_has_a_text)
