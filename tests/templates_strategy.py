"""Hypothesis strategies of templates over a few bytes."""

from __future__ import annotations

from hypothesis import strategies as st

from fillengine.automata import dfa
from fillengine.automata.nodes import Choice, Literal, Node, Pattern, Repeat, Rule, Sequence, Template, Words

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
        return st.one_of(several.map(Sequence), several.map(Choice), repeats)

    return st.recursive(leaves, inner, max_leaves=6)


def templates() -> st.SearchStrategy[Template]:
    return st.builds(
        lambda root, again: Template(root, {"again": Choice((Literal(b"e"), again))}),
        nodes(rules=True),
        nodes(rules=True),
    )
