r"""Reading GBNF, the grammar notation of llama.cpp.

    root  ::= "[" item ("," item)* "]"      # a comment
    item  ::= [0-9]+ | "\"" [^"\\]{0,20} "\""

Read: literals and classes over code points with the escapes \n \r \t \xHH \uHHHH \UHHHHHHHH \\ \" \[ \] \- \^,
`.` for any character, groups, `|`, `*` `+` `?` `{m}` `{m,}` `{m,n}`. Unlike in llama.cpp line ends are space
everywhere (a rule goes on until the next `name ::=`), names may hold `_`, and a rule that is defined twice,
never used or left recursive is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, VisitError

from fillengine.errors import InvalidForm, UnsupportedForm
from fillengine.templates.expression import (
    ANY_CHAR,
    Call,
    Chars,
    Concat,
    Either,
    Repeat,
    Text,
    Tree,
    invert_ranges,
    tidy_ranges,
)

# The machine counts repetitions, it does not unroll them; a bound beyond this is a slip of the pen.
MAX_REPEAT = 10_000_000

_GRAMMAR = r"""
    start: rule*
    rule: DEFINITION either
    either: sequence ("|" sequence)*
    sequence: term*
    ?term: atom
         | term QUANTIFIER -> repeat
    ?atom: STRING -> string
         | CLASS -> chars
         | "." -> dot
         | NAME -> call
         | "(" either ")" -> group
         | TOKEN -> token
    DEFINITION.2: /[A-Za-z0-9_-]+\s*::=/
    NAME: /[A-Za-z0-9_-]+/
    STRING: /"(?:[^"\\\n]|\\.)*"/
    CLASS: /\[\^?(?:[^\]\\\n]|\\.)*\]/
    QUANTIFIER: /[*+?]|\{\s*\d+\s*(?:,\s*\d*\s*)?\}/
    TOKEN: /!?<\[?[^<>\]\n]*\]?>/
    COMMENT: /#[^\n]*/
    SPACE: /\s+/
    %ignore COMMENT
    %ignore SPACE
"""

_PIECE = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[\s\S])|[\s\S]")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"} | {c: c for c in '\\"[]-^/'}


@dataclass(frozen=True, slots=True)
class Definition:
    """One rule. `body` may hold `Call`s. Line and column count from 1."""

    name: str
    body: Tree
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Grammar:
    """A checked grammar: `root` is there, every name is defined and used, no rule is left recursive.

    others: names that stand for something else than a rule, which is never the empty text
    """

    rules: Mapping[str, Definition]
    source: str
    others: frozenset[str] = frozenset()


def _point(piece: str, token: Token, offset: int) -> int:
    if piece[0] != "\\":
        return ord(piece)
    if piece[1] in "xuU" and len(piece) > 2:
        point = int(piece[2:], 16)
        if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
            raise _SyntaxProblemError(f"{piece} is no character", token.line or 1, (token.column or 1) + offset)
        return point
    if piece[1] not in _ESCAPES:
        raise _SyntaxProblemError(f"unknown escape {piece}", token.line or 1, (token.column or 1) + offset)
    return ord(_ESCAPES[piece[1]])


class _SyntaxProblemError(Exception):
    """`remedy`: what to do instead of something that is understood and not supported; "" for what is wrong."""

    def __init__(self, problem: str, line: int, column: int, *, remedy: str = "") -> None:
        self.problem, self.line, self.column, self.remedy = problem, line, column, remedy
        super().__init__(problem)


class _Builder(Transformer[Token, Any]):
    def start(self, children: list[Definition]) -> list[Definition]:
        return children

    def rule(self, children: list[Any]) -> Definition:
        name = children[0]
        return Definition(str(name).removesuffix("::=").strip(), children[1], name.line, name.column)

    def either(self, children: list[Tree]) -> Tree:
        return children[0] if len(children) == 1 else Either(tuple(children))

    def sequence(self, children: list[Tree]) -> Tree:
        return children[0] if len(children) == 1 else Concat(tuple(children))

    def string(self, children: list[Token]) -> Tree:
        token = children[0]
        text = str(token)
        pieces = _PIECE.finditer(text, 1, len(text) - 1)
        return Text("".join(chr(_point(piece.group(), token, piece.start())) for piece in pieces))

    def chars(self, children: list[Token]) -> Tree:
        token = children[0]
        text = str(token)
        negative = text.startswith("[^")
        pieces = list(_PIECE.finditer(text, 2 if negative else 1, len(text) - 1))
        points = [_point(piece.group(), token, piece.start()) for piece in pieces]
        ranges: list[tuple[int, int]] = []
        index = 0
        while index < len(pieces):
            last = index + 2 if index + 2 < len(pieces) and pieces[index + 1].group() == "-" else index
            if points[index] > points[last]:
                written = text[pieces[index].start() : pieces[last].end()]
                raise _SyntaxProblemError(
                    f"range {written} out of order", token.line or 1, (token.column or 1) + pieces[index].start()
                )
            ranges.append((points[index], points[last]))
            index = last + 1
        return Chars(invert_ranges(tidy_ranges(ranges)) if negative else tidy_ranges(ranges))

    def dot(self, _: list[Token]) -> Tree:
        return ANY_CHAR

    def call(self, children: list[Token]) -> Tree:
        return Call(str(children[0]), children[0].line or 1, children[0].column or 1)

    def token(self, children: list[Token]) -> Tree:
        token = children[0]
        problem = f"{token} names a token of one vocabulary, and a grammar here is about text"
        remedy = "write the token's text in quotes"
        raise _SyntaxProblemError(problem, token.line or 1, token.column or 1, remedy=remedy)

    def group(self, children: list[Tree]) -> Tree:
        return children[0]

    def repeat(self, children: list[Any]) -> Tree:
        item, token = children
        if token[0] != "{":
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[str(token)]
            return Repeat(item, low, high)
        first, comma, last = str(token).strip("{}").partition(",")
        low = int(first)
        high = int(last) if last.strip() else None if comma else low
        if high is not None and high < low:
            raise _SyntaxProblemError(f"repetition {token} out of order", token.line, token.column)
        if max(low, high or 0) > MAX_REPEAT:
            problem = f"repetition {token} asks for more than {MAX_REPEAT} rounds"
            remedy = "use smaller bounds, or {m,} without an upper one"
            raise _SyntaxProblemError(problem, token.line, token.column, remedy=remedy)
        return Repeat(item, low, high)


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", transformer=_Builder())


def parse(text: str, *, source: str, others: frozenset[str] = frozenset()) -> Grammar:
    """The checked grammar of `text`; `source` (a file name, say) is where errors say it is from.

    others: names that the text may use without defining them.

    Raises InvalidForm with line and column (syntax; a rule that is missing, defined twice, never used or left
    recursive) and UnsupportedForm for a repetition beyond MAX_REPEAT.
    """
    try:
        definitions: list[Definition] = _parser().parse(text)  # type: ignore[assignment]
        return _checked(definitions, source, others)
    except VisitError as error:
        problem: BaseException = error.orig_exc
    except UnexpectedInput as error:
        what = "unexpected end of the grammar"
        token = getattr(error, "token", None)
        if isinstance(error, UnexpectedCharacters):
            what = f"unexpected {error.char!r}"
        elif token is not None and token.type != "$END":
            what = f"unexpected {str(token)!r}"
        line, column = error.line, error.column
        if line < 1:
            line, column = text.count("\n") + 1, len(text) - text.rfind("\n")
        problem = _SyntaxProblemError(what, line, column)
    except _SyntaxProblemError as error:
        problem = error
    if not isinstance(problem, _SyntaxProblemError):
        raise problem
    where = f"{source}, line {problem.line}, column {problem.column}: {problem.problem}"
    if problem.remedy:
        raise UnsupportedForm(where, keyword="grammar", remedy=problem.remedy)
    raise InvalidForm(where)


def calls(tree: Tree) -> Iterator[Call]:
    """The rule names in `tree`, from left to right."""
    match tree:
        case Call():
            yield tree
        case Concat(items) | Either(items):
            for item in items:
                yield from calls(item)
        case Repeat(item, _, _):
            yield from calls(item)


def _checked(definitions: list[Definition], source: str, others: frozenset[str]) -> Grammar:
    rules: dict[str, Definition] = {}
    for rule in definitions:
        if rule.name in others:
            problem = f"rule {rule.name} is defined here and given as a form"
            raise _SyntaxProblemError(problem, rule.line, rule.column)
        if rule.name in rules:
            first = rules[rule.name].line
            raise _SyntaxProblemError(f"rule {rule.name} is defined in line {first} already", rule.line, rule.column)
        rules[rule.name] = rule
    if "root" not in rules:
        raise _SyntaxProblemError("the grammar has no rule named root", 1, 1)
    for rule in definitions:
        for call in calls(rule.body):
            if call.name not in rules and call.name not in others:
                raise _SyntaxProblemError(f"rule {call.name} is not defined", call.line, call.column)
    used = ["root"]
    for name in used:
        if name in rules:
            used += {call.name for call in calls(rules[name].body)}.difference(used)
    for rule in definitions:
        if rule.name not in used:
            raise _SyntaxProblemError(f"rule {rule.name} is never used from root", rule.line, rule.column)
    for name in others:
        if name not in used:
            raise _SyntaxProblemError(f"the form {name} is never used from root", 1, 1)
    _check_left_recursion(rules)
    return Grammar(rules, source, others)


def empty_rules(rules: Mapping[str, Definition]) -> frozenset[str]:
    """The names of the rules that the empty text fits."""
    found: set[str] = set()
    growing = True
    while growing:
        more = {name for name, rule in rules.items() if name not in found and may_be_empty(rule.body, found)}
        found |= more
        growing = bool(more)
    return frozenset(found)


def may_be_empty(tree: Tree, empty: frozenset[str] | set[str]) -> bool:
    """Whether the empty text fits `tree`, where `empty` are the names of the rules that it fits."""
    match tree:
        case Call(name):
            return name in empty
        case Text(text):
            return not text
        case Concat(items):
            return all(may_be_empty(item, empty) for item in items)
        case Either(options):
            return any(may_be_empty(option, empty) for option in options)
        case Repeat(item, low, _):
            return low == 0 or may_be_empty(item, empty)
    return False


def _check_left_recursion(rules: Mapping[str, Definition]) -> None:
    empty = empty_rules(rules)

    def leftmost(tree: Tree) -> Iterator[Call]:
        match tree:
            case Call():
                yield tree
            case Concat(items):
                for item in items:
                    yield from leftmost(item)
                    if not may_be_empty(item, empty):
                        return
            case Either(options):
                for option in options:
                    yield from leftmost(option)
            case Repeat(item, _, high) if high != 0:
                yield from leftmost(item)

    first = {name: [call for call in leftmost(rule.body) if call.name in rules] for name, rule in rules.items()}
    done: set[str] = set()
    for name in rules:
        path: list[str] = [name]
        pending = [iter(first[name])]
        while path:
            call = next(pending[-1], None)
            if call is None:
                done.add(path.pop())
                pending.pop()
            elif call.name in path:
                cycle = " -> ".join([*path[path.index(call.name) :], call.name])
                raise _SyntaxProblemError(f"left recursion {cycle}", call.line, call.column)
            elif call.name not in done:
                path.append(call.name)
                pending.append(iter(first[call.name]))
