r"""ECMA-262 patterns to value automata: JSON Schema's `pattern`, and `fe.Regex`.

    search("^go|end$").matches(b"weekend")     True: the pattern stands somewhere in the text
    fullmatch("[a-f]+").matches(b"beef")       True: the pattern is the whole text

Conditions (anchors, word edges, lookaround) are resolved on automata. A pattern is multiplied out into
sequences of plain trees and conditions, and a sequence is read from the left with the automaton of all that
stands before ("prefix", from the start of the text):

    ^, (?<=x), (?<!x)    restrict the prefix, exactly
    $, (?=x), (?!x)      at the start of the text restrict the whole text; elsewhere what follows is built as
                         an automaton of its own, restricted, and put behind the prefix
    (?<=x) after such a cut is exact where the text since the cut is at least as long as x, else refused

A condition in a repeated group is resolved within one round of it where the round is long enough to decide
(`((?!-)[a-z-]{1,63}(?<!-)\.)+`), or as the idiom `((?!x).)*$`; else it is refused. Back-references are no
regular languages. Beyond ECMA-262: see `ecma.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from fillengine.automata.dfa import Dfa, complement, concat, difference, intersection, minimise
from fillengine.errors import AutomatonTooLarge, InvalidForm, UnsupportedForm
from fillengine.templates.ecma import END, START, parse, shown
from fillengine.templates.expression import (
    ANY,
    ANY_CHAR,
    EMPTY,
    NEVER,
    Concat,
    Either,
    Look,
    Repeat,
    Tables,
    Tree,
    can_be_empty,
    longest,
    shortest,
)
from fillengine.templates.thompson import language

# More sequences than this make patterns of word edges slow: each \b doubles them.
MAX_SEQUENCES = 32
# A repeated group with a condition inside that only multiplying out can resolve.
MAX_UNROLLED = 3


def search(pattern: str, *, pointer: str = "") -> Dfa:
    """All UTF-8 texts in which `pattern` matches somewhere (JSON Schema Validation 6.3.3: not anchored).

    Raises InvalidForm (syntax) or UnsupportedForm (too large, or no way to an exact automaton), both with
    `pointer` and the column in the pattern.
    """
    return _located(pattern, pointer, whole=False)


def fullmatch(pattern: str, *, pointer: str = "") -> Dfa:
    """All UTF-8 texts that `pattern` matches from start to end. Raises as `search` does."""
    return _located(pattern, pointer, whole=True)


def _located(pattern: str, pointer: str, *, whole: bool) -> Dfa:
    try:
        return _compiled(pattern, whole)
    except UnsupportedForm as error:
        raise UnsupportedForm(
            f"pattern {shown(pattern)}: {error.problem}", keyword="pattern", pointer=pointer, remedy=error.remedy
        ) from None
    except InvalidForm as error:
        raise InvalidForm(error.problem, pointer=pointer, remedy=error.remedy) from None
    except AutomatonTooLarge as error:
        raise UnsupportedForm(
            f"pattern {shown(pattern)}: {error.problem}", keyword="pattern", pointer=pointer, remedy=error.remedy
        ) from None


@lru_cache(maxsize=2048)
def _compiled(pattern: str, whole: bool) -> Dfa:  # noqa: FBT001 (a cache key)
    tree = parse(pattern)
    edges: tuple[tuple[Tree, ...], tuple[Tree, ...]] = ((START,), (END,)) if whole else ((), ())
    sequences = list(_sequences(_local(tree)))
    if len(sequences) > MAX_SEQUENCES:
        raise UnsupportedForm(
            f"its conditions make {len(sequences)} cases, more than {MAX_SEQUENCES}", keyword="pattern"
        )
    plain: list[Tree] = []
    for sequence in sequences:
        items = (ANY, *edges[0], *sequence, *edges[1], ANY)
        if not _is_plain(sequence):
            plain.append(_resolve(items, knows_start=True))
        elif whole:
            plain.append(Concat(sequence))
        else:
            plain.append(Concat(items))
    return language(_either(plain))


def _has_condition(tree: Tree) -> bool:
    match tree:
        case Look():
            return True
        case Concat(items) | Either(items):
            return any(map(_has_condition, items))
        case Repeat(item, _, _):
            return _has_condition(item)
    return False


def _is_plain(items: tuple[Tree, ...]) -> bool:
    return not any(map(_has_condition, items))


def _sequences(tree: Tree) -> Iterator[tuple[Tree, ...]]:
    """The cases of `tree`: sequences of plain trees, conditions, and repetitions that hold conditions."""
    match tree:
        case Concat(items) if _has_condition(tree):
            cases: list[tuple[Tree, ...]] = [()]
            for item in items:
                more = list(_sequences(item))
                if len(cases) * len(more) > 4 * MAX_SEQUENCES:
                    raise UnsupportedForm(f"its conditions make over {MAX_SEQUENCES} cases", keyword="pattern")
                cases = [(*case, *rest) for case in cases for rest in more]
            yield from cases
        case Either(options) if _has_condition(tree):
            plain = tuple(option for option in options if not _has_condition(option))
            if plain:
                yield (Either(plain),)
            for option in options:
                if _has_condition(option):
                    yield from _sequences(option)
        case Repeat(item, low, high) if _has_condition(tree):
            if high is not None and high <= MAX_UNROLLED:
                for count in range(low, high + 1):
                    yield from _sequences(Concat((item,) * count))
            else:
                yield (tree,)
        case _:
            yield (tree,)


def _local(tree: Tree) -> Tree:
    """`tree` with the conditions inside repeated groups resolved where the group itself can decide them."""
    match tree:
        case Concat(items):
            return Concat(tuple(map(_local, items)))
        case Either(options):
            return Either(tuple(map(_local, options)))
        case Repeat(item, low, high) if _has_condition(item):
            if longest(item) == 0:
                # Only conditions: none at all if there may be none, and more than one say no more than one.
                return EMPTY if low == 0 else _local(item)
            rounds = [_decided(case) for case in _sequences(_local(item))]
            if low <= 1 and all(_is_anchored(turn) or not _has_condition(turn) for turn in rounds):
                return _anchored_rounds(rounds, low, high)
            return Repeat(_either(rounds), low, high)
    return tree


def _either(options: Sequence[Tree]) -> Tree:
    return options[0] if len(options) == 1 else Either(tuple(options))


def _is_anchored(turn: Tree) -> bool:
    """Whether the only conditions of a round are a START as its first or an END as its last item."""
    items = turn.items if isinstance(turn, Concat) else (turn,)
    if items and items[0] == START:
        items = items[1:]
    if items and items[-1] == END:
        items = items[:-1]
    return _is_plain(items)


def _anchored_rounds(rounds: list[Tree], low: int, high: int | None) -> Tree:
    """Repeated rounds of which only the first can begin at the start of the text, and only the last end there.

    `low` is at most 1: after a round that ends the text (before one that starts it) no other one is needed.
    """
    kinds: dict[tuple[bool, bool], list[Tree]] = {}
    for turn in rounds:
        items = turn.items if isinstance(turn, Concat) else (turn,)
        kinds.setdefault((START in items, END in items), []).append(turn)

    def free(least: int, fewer: int) -> Tree:
        plain = kinds.get((False, False))
        most = None if high is None else high - fewer
        if most is not None and most < least:
            return NEVER
        return Repeat(_either(plain), least, most) if plain else NEVER if least else EMPTY

    first, last = kinds.get((True, False)), kinds.get((False, True))
    options = [free(low, 0)]
    if first:
        options.append(Concat((_either(first), free(0, 1))))
    if last:
        options.append(Concat((free(0, 1), _either(last))))
    if first and last:
        options.append(Concat((_either(first), free(0, 2), _either(last))))
    return Either((*options, *kinds.get((True, True), ())))


def _decided(case: tuple[Tree, ...]) -> Tree:
    """A sequence with those conditions resolved that its own plain parts decide, whatever stands around it."""
    items = list(case)
    index = len(items)
    while index:
        index -= 1
        look = items[index]
        if not isinstance(look, Look) or _has_condition(look.item):
            continue
        reach = longest(look.item)
        if look.behind:
            first = index
            while first and not _has_condition(items[first - 1]):
                first -= 1
            near = slice(first, index)
        else:
            last = index + 1
            while last < len(items) and not _has_condition(items[last]):
                last += 1
            near = slice(index + 1, last)
        run = Concat(tuple(items[near]))
        if reach is None or shortest(run) < reach or (look.item is ANY_CHAR and not run.items):
            continue
        part: Tree = Tables(_restricted(language(run), look), shortest(run), longest(run))
        items[min(near.start, index) : max(near.stop, index + 1)] = [part]
        index = min(near.start, index)
    return Concat(tuple(items))


def _restricted(text: Dfa, look: Look) -> Dfa:
    """The texts at whose end (`behind`) or start the condition holds. Its item is plain."""
    around = (ANY, look.item) if look.behind else (look.item, ANY)
    wanted = language(Concat(around))
    return difference(text, wanted) if look.negative else intersection(text, wanted)


def _resolve(items: tuple[Tree, ...], *, knows_start: bool) -> Tree:
    """The texts of a sequence of plain trees and conditions, as a tree without conditions.

    `items` reach to the end of the text; they begin at its start, or (not `knows_start`) at some place in it.
    """
    prefix: tuple[Tree, ...] = ()
    whole_text: list[tuple[Dfa, bool]] = []
    items = _conditions_behind_first(items)
    for index, item in enumerate(items):
        if isinstance(item, Repeat) and _has_condition(item):
            item = _until_end(item, items[index + 1 :])
        if not isinstance(item, Look):
            prefix += (item,)
        elif item.behind:
            prefix = _behind(prefix, item, knows_start=knows_start)
            if prefix == (NEVER,):
                return NEVER
        elif item.item is ANY_CHAR and item.negative and _is_plain(items[index + 1 :]):
            # Only the empty text may follow.
            if not all(map(can_be_empty, items[index + 1 :])):
                return NEVER
            return _within(prefix, whole_text)
        elif prefix:
            rest = _resolve(items[index:], knows_start=False)
            return _within((*prefix, rest), whole_text)
        else:
            whole_text.append((_ahead(item), item.negative))
    return _within(prefix, whole_text)


def _conditions_behind_first(items: tuple[Tree, ...]) -> tuple[Tree, ...]:
    """Conditions at one place in the order that loses nothing: first those on what stands before."""
    ordered: list[Tree] = []
    for item in items:
        place = len(ordered)
        if isinstance(item, Look) and item.behind:
            while place and isinstance(other := ordered[place - 1], Look) and not other.behind:
                place -= 1
        ordered.insert(place, item)
    return tuple(ordered)


def _within(parts: tuple[Tree, ...], conditions: list[tuple[Dfa, bool]]) -> Tree:
    """`parts` one after another, where the whole must (or, negative, must not) be a text of each automaton."""
    tree = Concat(parts)
    if not conditions:
        return tree
    text = language(tree)
    for wanted, negative in conditions:
        text = difference(text, wanted) if negative else intersection(text, wanted)
    return Tables(minimise(text), shortest(tree), longest(tree))


def _behind(prefix: tuple[Tree, ...], look: Look, *, knows_start: bool) -> tuple[Tree, ...]:
    """The prefix under a condition on what stands before; (NEVER,) where it cannot hold."""
    least = sum(map(shortest, prefix))
    if look.item is ANY_CHAR and look.negative:  # ^
        if least:
            return (NEVER,)
        if knows_start:
            return () if all(map(can_be_empty, prefix)) else (NEVER,)
    reach = longest(look.item)
    if not knows_start and (reach is None or least < reach or _has_condition(look.item)):
        raise _refused(look, "stands behind a lookahead, and looks further back than that")
    if _has_condition(look.item) or knows_start:
        wanted = language(_case_union(look.item, look))
    else:
        wanted = language(Concat((ANY, look.item)))
    text = language(Concat(prefix))
    text = minimise(difference(text, wanted) if look.negative else intersection(text, wanted))
    return (Tables(text, least, longest(Concat(prefix))),)


def _case_union(tree: Tree, look: Look) -> Tree:
    """The texts from the start of the text that end in a match of `tree`."""
    cases: list[Tree] = []
    for case in _sequences(_local(tree)):
        if any(isinstance(item, Look) and not item.behind for item in case):
            raise _refused(look, "holds a condition on what follows")
        cases.append(_resolve((ANY, *case), knows_start=True))
    return Either(tuple(cases))


def _ahead(look: Look) -> Dfa:
    """The texts that begin with a match of what `look` wants."""
    cases = [_resolve((*case, ANY), knows_start=False) for case in _sequences(_local(look.item))]
    return language(Either(tuple(cases)))


def _until_end(repeat: Repeat, following: tuple[Tree, ...]) -> Tree:
    """`((?!x)c)*` in front of the end of the text: no x begins in what is repeated."""
    cases = list(_sequences(repeat.item))
    look = cases[0][0] if cases[0] else None
    at_end = bool(following) and following[0] == END and all(map(can_be_empty, following[1:]))
    if len(cases) != 1 or not isinstance(look, Look) or look.behind or not _is_plain(cases[0][1:]) or not at_end:
        raise _refused(_first_look(repeat), "stands in a repeated group")
    unit = Concat(cases[0][1:])
    if longest(unit) != 1 or shortest(unit) != 1:
        raise _refused(look, "stands in a repeated group of more than one character")
    text = language(Repeat(unit, repeat.low, repeat.high))
    wanted = _ahead(look)
    broken = wanted if look.negative else complement(wanted)
    begins = difference(broken, language(EMPTY))
    if begins.is_empty:
        return Tables(text, repeat.low, repeat.high)
    bad = concat(language(ANY), begins)
    left = minimise(difference(text, bad))
    return NEVER if left.is_empty else Tables(left, repeat.low, repeat.high)


def _first_look(tree: Tree) -> Look:
    match tree:
        case Look():
            return tree
        case Concat(items) | Either(items):
            return _first_look(next(item for item in items if _has_condition(item)))
        case Repeat(item, _, _):
            return _first_look(item)
    raise AssertionError("no condition in this tree")


def _refused(look: Look, problem: str) -> UnsupportedForm:
    signs = {(False, False): "(?=", (False, True): "(?!", (True, False): "(?<=", (True, True): "(?<!"}
    if look.item is ANY_CHAR:
        what = "^" if look.behind else "$"
    elif not look.column:
        what = "a word edge (\\b or \\B)"
    else:
        what = f"{signs[look.behind, look.negative]}...) at column {look.column}"
    return UnsupportedForm(
        f"{what} {problem}, where it cannot be turned into an automaton",
        keyword="pattern",
        remedy="write the condition at the start or the end of the pattern",
    )


__all__ = ["fullmatch", "search"]
