"""References within one document: JSON pointers, `$id`, anchors. Nothing is ever fetched.

A pointer into the document itself (`#/$defs/x`), by far the most frequent reference, is walked directly.
All others go through the `referencing` library, which knows where the drafts allow `$id` and anchors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import referencing
import referencing.exceptions
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

from fillengine.errors import InvalidForm, UnsupportedForm

_DRAFTS: Mapping[str, int] = {
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}
_SPECIFICATIONS: Mapping[int, Any] = {
    4: DRAFT4,
    6: DRAFT6,
    7: DRAFT7,
    2019: DRAFT201909,
    2020: DRAFT202012,
}
_HOME = "fillengine:form"


def drafts() -> tuple[str, ...]:
    """The values of `$schema` that are known, without "http://" and a trailing "#"."""
    return tuple(_DRAFTS)


def draft_of(document: Any) -> int | None:
    """4, 6, 7, 2019 or 2020 by `$schema`; None where it is absent or names something else."""
    uri = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(uri, str):
        return None
    address = uri.partition("://")[2].rstrip("#")
    if address == "json-schema.org/draft-03/schema":
        raise UnsupportedForm(
            "draft 3 is not supported", keyword="$schema", pointer="/$schema", remedy="rewrite it for draft 2020-12"
        )
    return _DRAFTS.get(address)


def resource_of(document: Any) -> Resource:
    """The resource that is the whole document (draft 2020-12 where `$schema` names none)."""
    draft = draft_of(document)
    world = _World(document, draft or 2020)
    world.top = Resource(document, draft or 2020, world, names_draft=draft is not None)
    return world.top


def _dynamic_anchors(document: Any, *, is_whole: bool) -> Iterator[str]:
    """The dynamic anchors of a document, resources inside it with an `$id` of their own included or not."""
    work: list[Any] = [document]
    while work:
        part = work.pop()
        if isinstance(part, dict) and (is_whole or part is document or not _names_itself(part)):
            if isinstance(anchor := part.get("$dynamicAnchor"), str):
                yield anchor
            if part.get("$recursiveAnchor") is True:
                yield ""
            work.extend(part.values())
        elif isinstance(part, list):
            work.extend(part)


def _names_itself(part: dict[str, Any]) -> bool:
    address = part.get("$id")
    return isinstance(address, str) and not address.startswith("#")


class _World:
    """What the resources of one document share: records by the identity of what was read, pointers, registry."""

    def __init__(self, document: Any, draft: int) -> None:
        self.document, self.draft = document, draft
        self.top: Resource
        self.records: dict[int, Any] = {}
        self.oldest = draft  # the newest draft in which everything that was read means what it is taken for

    @cached_property
    def resolver(self) -> Any:
        from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

        contents = _SPECIFICATIONS[self.draft].create_resource(self.document)
        address = contents.id() or _HOME
        return REGISTRY.with_resource(address, contents).resolver(address)

    @cached_property
    def dynamic_anchors(self) -> Counter[str]:
        """How often each `$dynamicAnchor` stands in the document ("" for `$recursiveAnchor`)."""
        return Counter(_dynamic_anchors(self.document, is_whole=True))

    @cached_property
    def outermost(self) -> frozenset[str]:
        """Those of the document's own resource, which every dynamic scope begins with."""
        return frozenset(_dynamic_anchors(self.document, is_whole=False))

    @cached_property
    def pointers(self) -> dict[int, str]:
        """id(part of the document) -> its pointer, for messages."""
        found: dict[int, str] = {}
        work: list[tuple[Any, str]] = [(self.document, "")]
        while work:
            part, pointer = work.pop()
            if isinstance(part, dict):
                found[id(part)] = pointer
                for key, value in part.items():
                    work.append((value, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"))
            elif isinstance(part, list):
                work.extend((value, f"{pointer}/{number}") for number, value in enumerate(part))
        return found


class Resource:
    """A schema resource: `root` is its top schema, `draft` its dialect, `records` what was read so far.

    `names_draft`: `$schema` says the draft. The document itself has no resolver of its own: plain pointers
    into it are walked.
    """

    def __init__(self, root: Any, draft: int, world: _World, *, names_draft: bool, resolver: Any = None) -> None:
        self.root, self.draft, self.names_draft = root, draft, names_draft
        self.records = world.records
        self._world, self._resolver = world, resolver
        self._targets: dict[str, tuple[Any, str, Resource]] = {}

    @property
    def oldest(self) -> int:
        return self._world.oldest

    def note_draft(self, draft: int) -> None:
        """Something was read that only drafts up to this one have."""
        self._world.oldest = min(self._world.oldest, draft)

    def inside(self, raw: Mapping[str, Any]) -> Resource:
        """The resource that a subschema belongs to: another one where it has an `$id` of its own."""
        address = raw.get("id" if self.draft == 4 else "$id")
        if not isinstance(address, str) or address.startswith("#") or ("$ref" in raw and self.draft <= 7):
            return self
        contents = _SPECIFICATIONS[self.draft].create_resource(raw)
        return self._with((self._resolver or self._world.resolver).in_subresource(contents), raw)

    def lookup(self, reference: str, pointer: str) -> tuple[Any, str, Resource]:
        """(raw schema, its pointer in the document, its resource) that `reference`, at `pointer`, names.

        InvalidForm where it leads nowhere in the document, UnsupportedForm where it leads out of it.
        """
        target = self._targets.get(reference)
        if target is None:
            target = self._walk(reference) or self._resolve(reference, pointer)
            self._targets[reference] = target
        return target

    def lookup_dynamic(self, reference: str, keyword: str, pointer: str) -> tuple[Any, str, Resource]:
        """As `lookup`, for `$dynamicRef` and `$recursiveRef`: where they lead to from wherever they are reached.

        The outermost resource on the way to them counts that has the anchor. That is the document's own one, or the
        only one; where it depends on the way: UnsupportedForm.
        """
        target = self.lookup(reference, f"{pointer}/{keyword}")
        contents, anchor = target[0], reference.rpartition("#")[2]
        if keyword == "$recursiveRef":
            is_dynamic, anchor = isinstance(contents, dict) and contents.get("$recursiveAnchor") is True, ""
        else:
            is_dynamic = isinstance(contents, dict) and contents.get("$dynamicAnchor") == anchor
        if not is_dynamic:
            return target
        if anchor in self._world.outermost:
            return self._world.top.lookup(f"#{anchor}", f"{pointer}/{keyword}")
        if self._world.dynamic_anchors[anchor] != 1 or id(contents) not in self._world.pointers:
            raise UnsupportedForm(
                f"where {reference!r} leads to depends on the way to it: {anchor!r} stands in several places",
                keyword=keyword,
                pointer=pointer,
                remedy="use $ref",
            )
        return target

    def _walk(self, reference: str) -> tuple[Any, str, Resource] | None:
        """The target of a plain pointer into the document; None where it takes more than that."""
        if self._resolver is not None or (reference != "#" and not reference.startswith("#/")):
            return None
        raw = self.root
        for token in unquote(reference[2:]).split("/") if len(reference) > 1 else ():
            token = token.replace("~1", "/").replace("~0", "~")
            if isinstance(raw, dict) and token in raw:
                raw = raw[token]
            elif isinstance(raw, list) and token.isdecimal() and int(token) < len(raw):
                raw = raw[int(token)]
            else:
                return None
            if isinstance(raw, dict) and isinstance(raw.get("id" if self.draft == 4 else "$id"), str):
                return None
        return (raw, unquote(reference[1:]), self) if isinstance(raw, dict | bool) else None

    def _resolve(self, reference: str, pointer: str) -> tuple[Any, str, Resource]:
        try:
            found = (self._resolver or self._world.resolver).lookup(reference)
        except (referencing.exceptions.PointerToNowhere, referencing.exceptions.NoSuchAnchor) as error:
            raise InvalidForm(
                f"$ref {reference!r} leads nowhere", pointer=pointer, remedy="define its target under $defs"
            ) from error
        except (referencing.exceptions.Unresolvable, referencing.exceptions.InvalidAnchor, ValueError) as error:
            raise UnsupportedForm(
                f"$ref {reference!r} leads out of the document, and nothing is fetched",
                keyword="$ref",
                pointer=pointer,
                remedy="copy its target under $defs and refer to it there",
            ) from error
        if not isinstance(found.contents, dict | bool):
            raise InvalidForm(f"$ref {reference!r} does not lead to a schema", pointer=pointer)
        where = self._world.pointers.get(id(found.contents), reference)
        return found.contents, where, self._with(found.resolver, found.contents)

    def _with(self, resolver: Any, raw: Any) -> Resource:
        draft = draft_of(raw) or self.draft
        return Resource(raw, draft, self._world, names_draft=self.names_draft, resolver=resolver)
