"""GBNF grammars to automata and template nodes.

    grammar = parse('root ::= "(" root ")" | [a-z]+', source="example")
    regular(grammar)       UnsupportedForm: recursion root -> root is no regular language
    nodes(grammar)         Template: Rule("root"), with the automaton of [a-z]+ as one Pattern

See `gbnf_syntax.py` for the notation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from fillengine.automata import nodes as template
from fillengine.automata.dfa import Dfa
from fillengine.automata.nodes import Node, Template
from fillengine.errors import AutomatonTooLarge, UnsatisfiableForm, UnsupportedForm
from fillengine.templates.expression import (
    EMPTY,
    NEVER,
    Call,
    Chars,
    Concat,
    Either,
    Repeat,
    Tables,
    Text,
    Tree,
)
from fillengine.templates.gbnf_syntax import Definition, Grammar, calls, empty_rules, may_be_empty, parse
from fillengine.templates.thompson import language, positions

# On tables a repetition is written out; the machine counts instead (up to gbnf_syntax.MAX_REPEAT).
MAX_TABLE_REPEAT = 100_000
# Rules put in place, one tree may have this many parts.
MAX_PARTS = 100_000
# A rule of this size that is called more than once is made minimal before it is put in place.
SHARED_POSITIONS = 40
# Such rules can double from one to the next: a limit for each keeps the whole under a second.
MAX_SHARED_POSITIONS = 6_000
# Larger parts of a template stay sequences and counted repetitions.
PATTERN_POSITIONS = 3_000


def regular(grammar: Grammar) -> Dfa:
    """The automaton of a grammar without recursion: all UTF-8 texts of `root`.

    Raises UnsupportedForm for recursion and for repetitions beyond MAX_TABLE_REPEAT, and AutomatonTooLarge.
    """
    return language(_Inliner(grammar).tree("root"))


class _Inliner:
    """Puts the rules of a grammar in place of their names."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._uses = Counter(call.name for rule in grammar.rules.values() for call in calls(rule.body))
        self._known: dict[str, tuple[Tree, int]] = {}
        self._open: list[str] = []

    def tree(self, name: str) -> Tree:
        return self.put(Call(name))

    def put(self, tree: Tree) -> Tree:
        """`tree` without names. Raises UnsupportedForm (recursion, repetition) and AutomatonTooLarge."""
        return self._put(tree)[0]

    def _put(self, tree: Tree) -> tuple[Tree, int]:
        match tree:
            case Call(name, line, column):
                if name in self._open:
                    raise self._recursion(name, line, column)
                if name not in self._known:
                    self._known[name] = self._rule(name)
                return self._known[name]
            case Concat(items):
                parts, size = self._put_all(items)
                return Concat(parts), size
            case Either(options):
                parts, size = self._put_all(options)
                return Either(parts), size
            case Repeat(item, low, high):
                if max(low, high or 0) > MAX_TABLE_REPEAT:
                    where = f" in rule {self._open[-1]}" if self._open else ""
                    bounds = f"{{{low},{'' if high is None else high}}}"
                    raise UnsupportedForm(
                        f"{self._grammar.source}: repetition {bounds}{where} is beyond {MAX_TABLE_REPEAT}, "
                        "the limit for automata",
                        keyword="grammar",
                    )
                part, size = self._put(item)
                return Repeat(part, low, high), size + 1
        return tree, 1

    def _put_all(self, items: Iterable[Tree]) -> tuple[tuple[Tree, ...], int]:
        parts = [self._put(item) for item in items]
        size = 1 + sum(size for _, size in parts)
        if size > MAX_PARTS:
            raise AutomatonTooLarge(size, MAX_PARTS)
        return tuple(part for part, _ in parts), size

    def _rule(self, name: str) -> tuple[Tree, int]:
        self._open.append(name)
        try:
            part, size = self._put(self._grammar.rules[name].body)
        finally:
            self._open.pop()
        if self._uses[name] > 1 and (num_positions := positions(part)) >= SHARED_POSITIONS:
            if num_positions > MAX_SHARED_POSITIONS:
                raise AutomatonTooLarge(num_positions, MAX_SHARED_POSITIONS)
            return Tables(language(part), 0, None), 1
        return part, size

    def _recursion(self, name: str, line: int, column: int) -> UnsupportedForm:
        cycle = " -> ".join([*self._open[self._open.index(name) :], name])
        return UnsupportedForm(
            f"{self._grammar.source}, line {line}, column {column}: recursion {cycle} is no regular language",
            keyword="grammar",
            remedy="write it as a repetition, or use the grammar as a form of its own",
        )


def nodes(grammar: Grammar, others: Mapping[str, Node] | None = None) -> Template:
    """The template of any grammar. Parts without recursion become one Pattern where they are small.

    others: what stands for the names of `grammar.others`; none of them writes the empty text.

    A repetition's item is never empty, and options that no finite text fits are left out.
    Raises UnsatisfiableForm when no finite text fits the grammar at all.
    """
    return _Nodes(grammar, others or {}).template()


def _finite_rules(rules: Mapping[str, Definition], others: frozenset[str]) -> frozenset[str]:
    """The names of the rules and other forms that some finite text fits."""
    found: set[str] = set(others)
    growing = True
    while growing:
        more = {name for name, rule in rules.items() if name not in found and _is_finite(rule.body, found)}
        found |= more
        growing = bool(more)
    return frozenset(found)


def _is_finite(tree: Tree, finite: frozenset[str] | set[str]) -> bool:
    match tree:
        case Call(name):
            return name in finite
        case Chars(ranges):
            return bool(ranges)
        case Concat(items):
            return all(_is_finite(item, finite) for item in items)
        case Either(options):
            return any(_is_finite(option, finite) for option in options)
        case Repeat(item, low, _):
            return low == 0 or _is_finite(item, finite)
    return True


def _recursive_rules(rules: Mapping[str, Definition]) -> frozenset[str]:
    """The names of the rules from which some recursion can be reached."""
    below = {name: {call.name for call in calls(rule.body)} for name, rule in rules.items()}
    flat: set[str] = set()
    growing = True
    while growing:
        more = {name for name, names in below.items() if name not in flat and names <= flat}
        flat |= more
        growing = bool(more)
    return frozenset(rules) - flat


class _Nodes:
    def __init__(self, grammar: Grammar, others: Mapping[str, Node]) -> None:
        self._source = grammar.source
        self._others = others
        self._bodies: dict[str, Tree] = {name: rule.body for name, rule in grammar.rules.items()}
        self._empty = empty_rules(grammar.rules)
        self._finite = _finite_rules(grammar.rules, grammar.others)
        # What is no automaton: recursion, and other forms.
        self._recursive = {*_recursive_rules(grammar.rules), *grammar.others}
        self._inliner = _Inliner(grammar)
        self._named: dict[str, Node] = {}
        self._wanted: list[str] = []

    def template(self) -> Template:
        if "root" not in self._finite:
            raise UnsatisfiableForm(f"{self._source}: no finite text fits the grammar", keyword="root")
        root = self._node(Call("root"))
        rules: dict[str, Node] = {}
        for name in self._wanted:  # grows meanwhile
            rules[name] = self._node(self._bodies[name])
        return Template(root, rules)

    def _node(self, tree: Tree) -> Node:
        """The node of a tree that some finite text fits."""
        if not any(call.name in self._recursive for call in calls(tree)):
            whole = self._pattern(tree)
            if whole is not None:
                return whole
        match tree:
            case Call(name):
                return self._call(name)
            case Concat(items):
                return _sequence([self._node(run) for run in self._runs(items)])
            case Either(options):
                return self._choice(options)
            case Repeat(item, low, high):
                if high == 0 or not _is_finite(item, self._finite):
                    return template.Sequence(())
                if may_be_empty(item, self._empty):
                    item, low = self._not_empty(item), 0
                    if not _is_finite(item, self._finite):
                        return template.Sequence(())
                return template.Repeat(self._node(item), low, high)
        raise AutomatonTooLarge(positions(tree), PATTERN_POSITIONS)

    def _pattern(self, tree: Tree) -> Node | None:
        """A leaf for a tree without recursion; None where it is better left in parts."""
        text = _plain_text(tree)
        if text is not None:
            return template.Literal(text.encode()) if text else template.Sequence(())
        try:
            flat = self._inliner.put(tree)
            if positions(flat) > PATTERN_POSITIONS:
                return None
            return template.Pattern(language(flat))
        except (AutomatonTooLarge, UnsupportedForm):
            return None

    def _runs(self, items: tuple[Tree, ...]) -> list[Tree]:
        """`items`, neighbours without recursion joined."""
        runs: list[Tree] = []
        flat: list[Tree] = []
        for item in items:
            if not any(call.name in self._recursive for call in calls(item)):
                flat.append(item)
                continue
            if flat:
                runs.append(Concat(tuple(flat)) if len(flat) > 1 else flat[0])
            flat = []
            runs.append(item)
        if len(flat) == len(items):
            return list(items)  # too large as a whole
        if flat:
            runs.append(Concat(tuple(flat)) if len(flat) > 1 else flat[0])
        return runs

    def _choice(self, options: tuple[Tree, ...]) -> Node:
        some = [option for option in options if _is_finite(option, self._finite)]
        flat = [o for o in some if not any(call.name in self._recursive for call in calls(o))]
        if 1 < len(flat) < len(some):
            deep = [option for option in some if option not in flat]
            return template.Choice((self._node(Either(tuple(flat))), *map(self._node, deep)))
        built = [self._node(option) for option in some]
        return built[0] if len(built) == 1 else template.Choice(tuple(built))

    def _call(self, name: str) -> Node:
        if name in self._others:
            return self._others[name]
        if name in self._recursive:
            if name not in self._wanted:
                self._wanted.append(name)
            return template.Rule(name)
        if name not in self._named:
            self._named[name] = self._node(self._bodies[name])
        return self._named[name]

    def _not_empty(self, tree: Tree) -> Tree:
        """`tree` without the empty text, which fits it."""
        match tree:
            case Call(name):
                return self._not_empty_rule(name)
            case Concat(items):
                if not may_be_empty(tree, self._empty):
                    return tree
                heads = [Concat((self._not_empty(item), *items[i + 1 :])) for i, item in enumerate(items)]
                return Either(tuple(heads))
            case Either(options):
                return Either(tuple(self._not_empty(option) for option in options))
            case Repeat(item, low, high):
                if high == 0:
                    return NEVER
                if not may_be_empty(item, self._empty):
                    return Repeat(item, max(low, 1), high)
                return Repeat(self._not_empty(item), 1, high)
            case Text(text):
                return tree if text else NEVER
        return tree

    def _not_empty_rule(self, name: str) -> Tree:
        if name not in self._empty:
            return Call(name)
        if name not in self._recursive:
            return self._not_empty(self._bodies[name])
        other = f"{name}, not empty"
        if other not in self._bodies:
            self._bodies[other] = EMPTY  # stands in while the body, which may call it, is made
            self._recursive.add(other)
            self._finite |= {other}
            self._bodies[other] = self._not_empty(self._bodies[name])
            if not _is_finite(self._bodies[other], self._finite - {other}):
                self._finite -= {other}
        return Call(other)


def _sequence(items: list[Node]) -> Node:
    return items[0] if len(items) == 1 else template.Sequence(tuple(items))


def _plain_text(tree: Tree) -> str | None:
    """The one text of a tree of texts."""
    match tree:
        case Text(text):
            return text
        case Concat(items):
            texts = [_plain_text(item) for item in items]
            return None if None in texts else "".join(text for text in texts if text is not None)
    return None


__all__ = ["Grammar", "nodes", "parse", "regular"]
