r"""Reading ECMA-262 regular expressions (with the u flag) into trees.

    parse(r"^a\d{2}$")  ->  Concat((START, Text("a"), Repeat(Chars(((48, 57),)), 2, 2), END))

Quantifiers are read without their preference (lazy and greedy accept the same texts). Beyond ECMA-262 this
accepts, because it has one clear meaning: escapes that are not needed (`\-`, `\@`, `\_`); `{`, `}` and `]`
standing alone; a class escape at the end of a range (`[\w-.]`); `\A`, `\z` and `\Z` as start and end of the
text; `(?P<name>...)`; `(?#comment)`; a leading `(?i)`, and ECMA-262's own `(?i:...)`.
Refused by name: back-references, possessive quantifiers, atomic groups, conditionals, recursion, other
inline flags, other escapes of letters (`\a`, `\h`, `\Q`, ...).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, VisitError

from fillengine.errors import InvalidForm, UnsupportedForm
from fillengine.templates.expression import (
    ANY_CHAR,
    Chars,
    Concat,
    Either,
    Look,
    Ranges,
    Repeat,
    Text,
    Tree,
    invert_ranges,
    tidy_ranges,
)

# `RUN` leaves out a last character that is repeated: in "abc*" only the c is.
_GRAMMAR = r"""
    start: either
    either: sequence ("|" sequence)*
    sequence: term*
    ?term: atom | atom QUANTIFIER -> repeat
    ?atom: RUN -> run
         | BRACE -> run
         | "." -> dot
         | "^" -> start_of_text
         | "$" -> end_of_text
         | CLASS -> chars
         | ESCAPE -> escape
         | OPEN either ")" -> group
         | FOREIGN -> foreign
    RUN: /[^\\^$.*+?()\[\]{}|]+(?![*+?{])|[^\\^$.*+?()\[\]{}|]/
    BRACE: /[{}\]]/
    QUANTIFIER.2: /(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?/
    CLASS: /\[\^?(?:[^\]\\]|\\[\s\S])*\]/
    ESCAPE: /\\(?:u\{[0-9A-Fa-f]+\}|u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|c[A-Za-z]|[pP]\{[^}]*\}|k<[^>]*>|[0-9]+|[\s\S])/
    OPEN.2: /\((?:\?(?:[:=!]|<[=!]|i:|P?<[^\W\d][\w$]*>)|(?!\?))/
    FOREIGN.1: /\(\?(?:>|[^):>]*[):>]?)/
    COMMENT.3: /\(\?#[^)]*\)/
    %ignore COMMENT
"""  # noqa: E501 (a terminal cannot be broken)

_PIECE = re.compile(
    r"\\(?:u\{[0-9A-Fa-f]+\}|u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}"
    r"|x[0-9A-Fa-f]{2}|c[A-Za-z]|[pP]\{[^}]*\}|[0-9]+|[\s\S])|[\s\S]"
)
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
# ECMA-262, 12.2 and 12.3: WhiteSpace and LineTerminator
_SPACE: Ranges = (
    *((9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)),
    *((0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_DIGIT: Ranges = ((48, 57),)
_SETS: dict[str, Ranges] = {"d": _DIGIT, "w": _WORD, "s": _SPACE} | {
    letter: invert_ranges(ranges) for letter, ranges in (("D", _DIGIT), ("W", _WORD), ("S", _SPACE))
}
_NOT_LINE_END = Chars(invert_ranges(((10, 10), (13, 13), (0x2028, 0x2029))))

# The start of the text: no character before; the end: none after.
START = Look(ANY_CHAR, behind=True, negative=True)
END = Look(ANY_CHAR, behind=False, negative=True)


def _word_edge(*, edge: bool) -> Tree:
    word = Chars(_WORD)

    def both(left: bool, right: bool) -> Tree:  # noqa: FBT001 (whether a word character stands there)
        return Concat((Look(word, behind=True, negative=not left), Look(word, behind=False, negative=not right)))

    return Either((both(True, not edge), both(False, edge)))  # noqa: FBT003


@lru_cache(maxsize=512)
def _known_property(rust: str) -> bool:
    from fillengine.automata.dfa import from_regex

    try:
        from_regex(rust)
    except InvalidForm:
        return False
    return True


def _property(text: str, column: int) -> str:
    r"""The spelling of Rust's regex crate for `\p{...}`; both follow UTS 18."""
    name = text[3:-1]
    if not re.fullmatch(r"\w+(=\w+)?", name) or not _known_property(text):
        raise UnsupportedForm(f"unknown Unicode property {text} at column {column}", keyword="pattern")
    return text


def _point(text: str, column: int) -> int | None:
    """The code point that one written character or escape stands for; None for a class escape."""
    if text[0] != "\\":
        return ord(text)
    kind, rest = text[1], text[2:]
    if kind in "dDwWsSpP":
        return None
    if kind in _CONTROLS:
        return _CONTROLS[kind]
    if kind == "c" and rest:
        return ord(rest) % 32
    if kind in "ux" and rest:
        if "\\" in rest:
            high, low = int(rest[:4], 16), int(rest[6:], 16)
            return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
        point = int(rest.strip("{}"), 16)
        if point > 0x10FFFF:
            raise InvalidForm(f"{text} at column {column} is beyond U+10FFFF")
        return point
    if text == "\\0":
        return 0
    if kind.isdigit() or kind == "k":
        problem = f"back-reference {text} at column {column}: what it repeats is no regular language"
        raise UnsupportedForm(problem, keyword="pattern", remedy="write the alternatives out")
    if kind.isascii() and kind.isalpha():
        problem = f"{text} at column {column} is no escape of ECMA-262"
        raise UnsupportedForm(problem, keyword="pattern", remedy=f"write {kind} or a \\u escape")
    return ord(kind)


def _escaped_class(text: str, column: int) -> tuple[Ranges, str]:
    if text[1] not in "pP":
        return _SETS[text[1]], ""
    if len(text) == 2:
        raise InvalidForm(f"{text} at column {column} wants a property in braces, as in \\p{{L}}")
    return (), _property(text, column)


def _spelled(ranges: Ranges) -> str:
    return "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)


def _class(text: str, column: int) -> Chars:
    """`[...]`: pieces, and pieces joined by a dash."""
    negative = text.startswith("[^")
    found = list(_PIECE.finditer(text, 2 if negative else 1, len(text) - 1))
    pieces = ["\\\b" if match.group() == "\\b" else match.group() for match in found]
    ranges: list[tuple[int, int]] = []
    properties = ""
    index = 0
    while index < len(pieces):
        place = column + found[index].start()
        low = _point(pieces[index], place)
        is_range = index + 2 < len(pieces) and pieces[index + 1] == "-"
        high = _point(pieces[index + 2], place) if is_range else None
        if low is not None and high is not None:
            if low > high:
                written = "".join(pieces[index : index + 3])
                raise InvalidForm(f"range {written} out of order at column {place}")
            ranges.append((low, high))
            index += 3
            continue
        if low is not None:
            ranges.append((low, low))
        else:
            more, name = _escaped_class(pieces[index], place)
            ranges += more
            properties += name
        index += 1
    tidy = tidy_ranges(ranges)
    if properties:
        return Chars((), f"[{'^' if negative else ''}{_spelled(tidy)}{properties}]")
    return Chars(invert_ranges(tidy) if negative else tidy)


def _fold_case(tree: Tree) -> Tree:
    """`tree` with the i flag: Unicode simple case folding, as ECMA-262 asks (22.2.2.7.3)."""
    match tree:
        case Text(text):
            return Concat(tuple(_fold_case(Chars(((ord(c), ord(c)),))) for c in text))
        case Chars(ranges, rust):
            if not rust and all(low == high and _is_caseless(chr(low)) for low, high in ranges):
                return tree
            return Chars((), f"(?i:{rust or f'[{_spelled(ranges)}]'})") if ranges or rust else tree
        case Concat(items):
            return Concat(tuple(map(_fold_case, items)))
        case Either(options):
            return Either(tuple(map(_fold_case, options)))
        case Repeat(item, low, high):
            return Repeat(_fold_case(item), low, high)
        case Look(item, behind, negative, column):
            if item is ANY_CHAR:
                return tree
            return Look(_fold_case(item), behind, negative, column)
    return tree


def _is_caseless(character: str) -> bool:
    return character.lower() == character.upper() == character.casefold()


class _Builder(Transformer[Token, Tree]):
    def start(self, children: list[Any]) -> Tree:
        return children[0]  # type: ignore[no-any-return]

    def either(self, children: list[Tree]) -> Tree:
        return children[0] if len(children) == 1 else Either(tuple(children))

    def sequence(self, children: list[Tree]) -> Tree:
        return children[0] if len(children) == 1 else Concat(tuple(children))

    def run(self, children: list[Token]) -> Tree:
        return Text(str(children[0]))

    def dot(self, _: list[Any]) -> Tree:
        return _NOT_LINE_END

    def start_of_text(self, _: list[Any]) -> Tree:
        return START

    def end_of_text(self, _: list[Any]) -> Tree:
        return END

    def chars(self, children: list[Token]) -> Tree:
        return _class(str(children[0]), _column(children[0]))

    def escape(self, children: list[Token]) -> Tree:
        text, column = str(children[0]), _column(children[0])
        if text in ("\\b", "\\B"):
            return _word_edge(edge=text == "\\b")
        if text in ("\\A", "\\Z", "\\z"):
            return START if text == "\\A" else END
        point = _point(text, column)
        if point is not None:
            # A surrogate alone is in no UTF-8 text.
            return Chars(()) if 0xD800 <= point <= 0xDFFF else Text(chr(point))
        ranges, rust = _escaped_class(text, column)
        return Chars(ranges, rust)

    def group(self, children: list[Any]) -> Tree:
        opening, tree = str(children[0]), children[1]
        column = _column(children[0])
        if opening in ("(?=", "(?!", "(?<=", "(?<!"):
            return Look(tree, behind="<" in opening, negative="!" in opening, column=column)
        return _fold_case(tree) if opening == "(?i:" else tree

    def foreign(self, children: list[Token]) -> Tree:
        what = f"{children[0]} at column {_column(children[0])}"
        raise UnsupportedForm(f"{what} is no group of ECMA-262", keyword="pattern")

    def repeat(self, children: list[Any]) -> Tree:
        item, quantifier = children[0], str(children[1])
        column = _column(children[1])
        if len(quantifier) > 1 and quantifier[-1] == "+":
            what = f"possessive quantifier {quantifier} at column {column}"
            raise UnsupportedForm(what, keyword="pattern", remedy="take the second + away")
        if quantifier[0] != "{":
            low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[quantifier[0]]
            return Repeat(item, low, high)
        first, comma, last = quantifier.rstrip("?").strip("{}").partition(",")
        low = int(first)
        high = int(last) if last else None if comma else low
        if high is not None and high < low:
            raise InvalidForm(f"quantifier {quantifier} out of order at column {column}")
        return Repeat(item, low, high)


def _column(token: Token) -> int:
    return (token.start_pos or 0) + 1


@lru_cache(maxsize=1)
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", transformer=_Builder())


def parse(pattern: str) -> Tree:
    """The tree of `pattern`, conditions included as `Look`.

    Raises InvalidForm for a pattern that is wrong and UnsupportedForm for what is no regular language or no
    ECMA-262; both name the column (from 1).
    """
    body = pattern.removeprefix("(?i)")
    try:
        tree = cast(Tree, _parser().parse(body))
    except VisitError as error:
        raise error.orig_exc from None
    except UnexpectedInput as error:
        column = (error.pos_in_stream or 0) + 1 if not _at_end(error) else len(body) + 1
        raise InvalidForm(
            f"pattern {shown(pattern)} cannot be read at column {column + len(pattern) - len(body)}: "
            f"{_expectation(error, body)}"
        ) from None
    return tree if body == pattern else _fold_case(tree)


def shown(pattern: str) -> str:
    """A pattern as messages show it: of a long one the beginning."""
    return repr(pattern) if len(pattern) <= 300 else f"{pattern[:300]!r}... ({len(pattern)} characters)"


def _at_end(error: UnexpectedInput) -> bool:
    token = getattr(error, "token", None)
    return token is not None and token.type == "$END"


def _expectation(error: UnexpectedInput, body: str) -> str:
    if _at_end(error):
        return "a group is not closed"
    if isinstance(error, UnexpectedCharacters) and body[error.pos_in_stream or 0] == "[":
        return "a class is not closed"
    token = getattr(error, "token", None)
    if token is not None and token.type == "QUANTIFIER":
        return f"nothing to repeat before {token}"
    return f"unexpected {str(token) if token is not None else body[error.pos_in_stream or 0]!r}"
