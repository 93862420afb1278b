"""Twenty documents of which one field is changed: what an editor asks for."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import Any

_DOCUMENTS: dict[str, Any] = {
    "deployment": {
        "name": "billing-api",
        "replicas": 3,
        "image": "registry.example/billing:2.14.0",
        "env": {"LOG_LEVEL": "info", "DB_HOST": "db-1.internal", "CACHE_SECONDS": "300"},
        "ports": [8080, 9090],
        "healthcheck": {"path": "/healthz", "period_seconds": 10, "enabled": True},
    },
    "order": {
        "number": "A-10473",
        "placed": "2024-03-18",
        "customer": {"name": "Ingrid Halvorsen", "city": "Bergen", "vip": False},
        "lines": [
            {"article": "oak shelf 80 cm", "quantity": 2, "price": 49.9},
            {"article": "wall bracket", "quantity": 8, "price": 3.25},
        ],
        "note": "Please leave the parcel with the neighbour on the second floor.",
    },
    "profile": {
        "id": 58213,
        "display_name": "M. Okafor",
        "email": "m.okafor@mail.example",
        "languages": ["English", "Igbo", "French"],
        "address": {"street": "14 Marina Road", "postcode": "101241", "country": "Nigeria"},
        "newsletter": True,
        "member_since": "2019-11-02",
    },
    "book": {
        "title": "The Mill on the Floss",
        "author": "George Eliot",
        "published": 1860,
        "genres": ["novel", "tragedy"],
        "summary": "Maggie and Tom Tulliver grow up at a mill on the river Floss, and grow apart.",
        "available": {"paper": True, "audio": False},
        "rating": 4.2,
    },
}

# Where, and what stands there afterwards.
_CHANGES: list[tuple[str, tuple[str | int, ...], Any]] = [
    ("deployment", ("replicas",), 5),
    ("deployment", ("image",), "registry.example/billing:2.15.1"),
    ("deployment", ("env", "LOG_LEVEL"), "debug"),
    ("deployment", ("ports", 1), 9091),
    ("deployment", ("healthcheck", "enabled"), False),
    ("order", ("placed",), "2024-03-21"),
    ("order", ("customer", "name"), "Solveig Dahl"),
    ("order", ("lines", 0, "quantity"), 12),
    ("order", ("lines", 1, "price"), 2.95),
    ("order", ("note",), "Please ring twice and leave the parcel with the neighbour on the second floor."),
    ("profile", ("display_name",), "Mary Okafor"),
    ("profile", ("email",), "mary@post.example"),
    ("profile", ("languages", 2), "Portuguese"),
    ("profile", ("address", "street"), "7 Broad Street"),
    ("profile", ("newsletter",), False),
    ("book", ("title",), "Silas Marner"),
    ("book", ("published",), 1861),
    ("book", ("genres", 1), "comedy"),
    ("book", ("summary",), "A miller's children grow up beside a river, and grow apart."),
    ("book", ("available", "audio"), True),
]


@dataclass(frozen=True)
class Edit:
    """A change of one field.

    schema       that both versions fit
    old, new     their texts, as `json.dumps` writes them
    place        "lines[0].quantity"
    value        what stands there afterwards, as JSON
    """

    schema: dict[str, Any]
    old: str
    new: str
    place: str
    value: str


def edits() -> list[Edit]:
    return [_edit(_DOCUMENTS[name], path, value) for name, path, value in _CHANGES]


def _edit(document: Any, path: tuple[str | int, ...], value: Any) -> Edit:
    changed = copy.deepcopy(document)
    place = changed
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    steps = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return Edit(_schema(document), json.dumps(document), json.dumps(changed), "".join(steps)[1:], json.dumps(value))


def _schema(value: Any) -> dict[str, Any]:
    """A schema of the kind of `value`."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {k: _schema(v) for k, v in value.items()}, "required": list(value)}
    if isinstance(value, list):
        return {"type": "array", "items": _schema(value[0])}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return {"type": kinds[type(value)]}
