"""Constants: the value that the form itself suggests for a hole, a schema's `default`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fillengine.fill.sources.cursor import Cursor
from fillengine.fill.sources.guess import INSIDE, Guess, Part


class Constants:
    """`values`: for a hole's label the bytes of its value, as the form writes it."""

    name = "constant"
    odds = {"default": 0.5, INSIDE: 0.9}  # noqa: RUF012 (read only)

    def __init__(self, values: Mapping[str, bytes]) -> None:
        self._values = values

    def propose(self, cursor: Cursor) -> Iterable[Guess]:
        for hole in cursor.holes:
            text = self._values.get(hole.label, b"")
            written = bytes(cursor.data[hole.start :])
            if len(text) > len(written) and text.startswith(written):
                yield Guess(self, (Part(text[len(written) :], "default"),))


def defaults(schema: Any) -> dict[str, bytes]:
    """The scalar `default`s of a JSON Schema by the label of their holes ("/ports/*/name")."""
    found: dict[str, bytes] = {}
    work: list[tuple[str, Any]] = [("", schema)]
    while work:
        label, part = work.pop()
        if not isinstance(part, Mapping):
            continue
        default = part.get("default")
        if "default" in part and (default is None or isinstance(default, str | int | float)):
            found[label] = json.dumps(default, ensure_ascii=False).encode("utf-8", "surrogatepass")
        properties = part.get("properties")
        if isinstance(properties, Mapping):
            work += [(f"{label}/{_escaped(str(key))}", value) for key, value in properties.items()]
        if "items" in part:
            work.append((f"{label}/*", part["items"]))
    return found


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
