"""The grammars that are shipped: files in `grammars/` of the repository, which the wheel carries.

    shipped()["csv"].summary       "Rows of comma-separated values (RFC 4180)."

The first comment of a file says in one line what it is. The string formats of JSON Schema are in `grammars/formats`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType


def grammars_folder() -> Path:
    """Inside the package where a wheel put it, else at the top of the checkout."""
    package = Path(__file__).parents[1]
    installed = package / "_grammars"
    return installed if installed.is_dir() else package.parent / "grammars"


@dataclass(frozen=True)
class ShippedGrammar:
    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def summary(self) -> str:
        """The first line of its first comment."""
        return self.text.partition("\n")[0].lstrip("# ").strip()


@lru_cache(maxsize=1)
def shipped() -> Mapping[str, ShippedGrammar]:
    """Name to grammar, in the order of the names."""
    files = sorted(grammars_folder().glob("*.gbnf"))
    return MappingProxyType({file.stem: ShippedGrammar(file.stem, file) for file in files})
