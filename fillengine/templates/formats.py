"""The string formats of JSON Schema, each a grammar file of its own.

    format_dfa("date").matches(b"2024-02-29")     True
    format_dfa("colour")                          None: an unknown format is an annotation

A format is a file NAME.gbnf in grammars/formats that describes the value's text (before JSON escapes). Adding
a format is adding a file. The grammars accept only what is valid, never more; where they are stricter than
the specification, their first comment says so, and a grammar in formats/wide holds all that others may take for
valid: where a string must not be of the format, it is that one that is excluded.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from fillengine.automata.dfa import Dfa
from fillengine.templates.gbnf import parse, regular
from fillengine.templates.library import grammars_folder


@lru_cache(maxsize=1)
def _files() -> dict[str, Path]:
    return {file.stem: file for file in (grammars_folder() / "formats").glob("*.gbnf")}


def format_names() -> list[str]:
    """The names of all known formats, sorted."""
    return sorted(_files())


@lru_cache(maxsize=256)
def format_dfa(name: str) -> Dfa | None:
    """The value automaton (UTF-8, without quotes and JSON escapes) of a format; None for an unknown one."""
    return _read(_files()[name]) if name in _files() else None


@lru_cache(maxsize=64)
def widest(name: str) -> Dfa | None:
    """All texts that may be of a known format in anybody's reading: what is outside is none. None: it is not known."""
    if is_exact(name):
        return format_dfa(name)
    file = grammars_folder() / "formats" / "wide" / f"{name}.gbnf"
    return _read(file) if file.is_file() else None


def _read(file: Path) -> Dfa:
    return regular(parse(file.read_text(encoding="utf-8"), source=file.name))


@lru_cache(maxsize=64)
def is_exact(name: str) -> bool:
    """Whether the grammar of a known format departs nowhere from its standard."""
    return "Departure" not in notes()[name]


def notes() -> dict[str, str]:
    """What the grammar of each format says about itself: its standard, and where it is stricter."""
    found = {}
    for name in format_names():
        lines = []
        for line in _files()[name].read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                break
            lines.append(line.lstrip("# "))
        found[name] = " ".join(lines)
    return found
