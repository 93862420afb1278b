"""The opposite of a schema, where it can be written as schemas again.

    not {"required": ["x", "y"]}        an object without x, or an object without y
    not {"type": "string"}              any other type
    not {"properties": {"k": S}}        an object that has k, and k is no S

A schema is the conjunction of its keywords, so its opposite is the disjunction of theirs. Keywords whose
opposite takes more than that (`items`, `additionalProperties`, ...) are only marked: a value must not fit a
schema that has them alone (`Schema.opposite`), and the template compares the texts.
"""

from __future__ import annotations

from fillengine.templates.reading import Reader
from fillengine.templates.schema import ALL_ATOMS, ATOMS, Arrays, Logic, Numbers, Objects, Schema, Strings

Disjunction = tuple[Schema, ...]

# An opposite of more parts than this is not worth its alternatives.
_PARTS_LIMIT = 64


class Negations:
    """Remembers the opposite of each schema, so that equal questions get identical records."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[Schema, Disjunction] = {}
        self._without: dict[tuple[Schema, str], Schema] = {}
        self._any: dict[Disjunction, Schema] = {}

    def of(self, schema: Schema) -> Disjunction:
        """Schemas of which a value satisfies one exactly when it does not satisfy `schema`."""
        found = self._known.get(schema)
        if found is None:
            # What a recursion through itself finds.
            self._known[schema] = (Schema(schema.pointer, schema.resource, opposite=schema),)
            parts = self._opposite(schema)
            found = tuple(parts) if len(parts) <= _PARTS_LIMIT else self._known[schema]
            self._known[schema] = found
        return found

    def without(self, schema: Schema, name: str) -> Schema:
        """Anything but an object that has property `name`."""
        key = (schema, name)
        if key not in self._without:
            never = Schema(schema.pointer, schema.resource, never=True)
            objects = Objects(properties={name: never}, derived=True)
            self._without[key] = Schema(schema.pointer, schema.resource, objects=objects)
        return self._without[key]

    def any_of(self, schema: Schema, parts: Disjunction) -> Schema:
        """One schema that says "any of `parts`"."""
        if len(parts) == 1:
            return parts[0]
        if parts not in self._any:
            if parts:
                logic = Logic(any_of=parts, derived=True)
                self._any[parts] = Schema(schema.pointer, schema.resource, logic=logic)
            else:
                self._any[parts] = Schema(schema.pointer, schema.resource, never=True)
        return self._any[parts]

    def _opposite(self, schema: Schema) -> list[Schema]:
        if schema.never:
            return [Schema(schema.pointer, schema.resource)]
        pointer, resource = schema.pointer, schema.resource
        arrays, objects = schema.arrays, schema.objects
        if (arrays is not None and arrays.unevaluated_items is not None) or (
            objects is not None and objects.unevaluated_properties is not None
        ):  # these look at the other keywords beside them
            return [Schema(pointer, resource, opposite=schema)]
        parts = self._type(schema) + self._values(schema)
        if schema.opposite is not None:
            parts.append(schema.opposite)
        for found, atoms, alone in (
            (self._number(schema), ATOMS["number"], {"numbers": schema.numbers}),
            (self._string(schema), ATOMS["string"], {"strings": schema.strings}),
            (self._array(schema), ATOMS["array"], {"arrays": schema.arrays}),
            (self._object(schema), ATOMS["object"], {"objects": schema.objects}),
            (self._logic(schema), None, {"logic": schema.logic}),
        ):
            if found is None:
                only = Schema(pointer, resource, types=atoms, **alone)
                parts.append(Schema(pointer, resource, types=atoms, opposite=only))
            else:
                parts += found
        return parts

    def _type(self, schema: Schema) -> list[Schema]:
        if schema.types is None or schema.types == ALL_ATOMS:
            return []
        return [Schema(schema.pointer, schema.resource, types=ALL_ATOMS - schema.types)]

    def _values(self, schema: Schema) -> list[Schema]:
        parts = []
        if schema.values is not None:
            plain = tuple(value for value in schema.values if not isinstance(value, dict | list))
            whole = tuple(value for value in schema.values if isinstance(value, dict | list))
            opposite = Schema(schema.pointer, schema.resource, values=whole) if whole else None
            parts.append(Schema(schema.pointer, schema.resource, excluded=plain, opposite=opposite))
        if schema.excluded:
            parts.append(Schema(schema.pointer, schema.resource, values=schema.excluded))
        return parts

    def _number(self, schema: Schema) -> list[Schema] | None:
        numbers = schema.numbers
        if numbers is None:
            return []
        if numbers.multiple_of is not None:
            return None
        opposites = []
        if numbers.minimum is not None:
            opposites.append(Numbers(exclusive_maximum=numbers.minimum))
        if numbers.maximum is not None:
            opposites.append(Numbers(exclusive_minimum=numbers.maximum))
        if numbers.exclusive_minimum is not None:
            opposites.append(Numbers(maximum=numbers.exclusive_minimum))
        if numbers.exclusive_maximum is not None:
            opposites.append(Numbers(minimum=numbers.exclusive_maximum))
        return [Schema(schema.pointer, schema.resource, types=ATOMS["number"], numbers=part) for part in opposites]

    def _string(self, schema: Schema) -> list[Schema] | None:
        strings = schema.strings
        if strings is None:
            return []
        if strings.format is not None:
            return None
        opposites = []
        if strings.min_length:
            opposites.append(Strings(max_length=strings.min_length - 1))
        if strings.max_length is not None:
            opposites.append(Strings(min_length=strings.max_length + 1))
        if strings.pattern is not None:
            opposites.append(Strings(excluded_patterns=(strings.pattern,)))
        opposites.extend(Strings(pattern=pattern) for pattern in strings.excluded_patterns)
        return [Schema(schema.pointer, schema.resource, types=ATOMS["string"], strings=part) for part in opposites]

    def _array(self, schema: Schema) -> list[Schema] | None:
        arrays = schema.arrays
        if arrays is None:
            return []
        if arrays.prefix or arrays.items is not None or arrays.unique_items or arrays.contains is not None:
            return None
        if arrays.unevaluated_items is not None:
            return None
        opposites = []
        if arrays.min_items:
            opposites.append(Arrays(max_items=arrays.min_items - 1))
        if arrays.max_items is not None:
            opposites.append(Arrays(min_items=arrays.max_items + 1))
        return [Schema(schema.pointer, schema.resource, types=ATOMS["array"], arrays=part) for part in opposites]

    def _object(self, schema: Schema) -> list[Schema] | None:
        objects = schema.objects
        if objects is None:
            return []
        if (
            objects.pattern_properties
            or objects.additional is not None
            or objects.property_names is not None
            or objects.dependent_required
            or objects.dependent_schemas
            or objects.unevaluated_properties is not None
        ):
            return None
        opposites = []
        never = Schema(schema.pointer, schema.resource, never=True)
        for name in objects.required:
            opposites.append(Objects(properties={name: never}, derived=True))
        for name, source in (objects.properties or {}).items():
            inner = self.of(self._reader.read(source))
            if inner:
                value = self.any_of(schema, inner)
                opposites.append(Objects(properties={name: value}, required=(name,), derived=True))
        if objects.min_properties:
            opposites.append(Objects(max_properties=objects.min_properties - 1, derived=True))
        if objects.max_properties is not None:
            opposites.append(Objects(min_properties=objects.max_properties + 1, derived=True))
        return [Schema(schema.pointer, schema.resource, types=ATOMS["object"], objects=part) for part in opposites]

    def _logic(self, schema: Schema) -> list[Schema] | None:
        logic = schema.logic
        if logic is None:
            return []
        if logic.dynamic_ref is not None or logic.one_of or logic.conditional is not None:
            return None
        read = self._reader.read
        parts: list[Schema] = []
        followed = [read(place) for place in logic.all_of]
        if logic.ref is not None:
            followed.append(self._reader.follow(schema, logic.ref))
        for part in followed:
            parts += self.of(part)
        if logic.any_of:
            opposites = [self.of(read(place)) for place in logic.any_of]
            each = [self.any_of(schema, opposite) for opposite in opposites]
            parts.append(Schema(schema.pointer, schema.resource, logic=Logic(all_of=tuple(each), derived=True)))
        if logic.negated is not None:
            parts.append(read(logic.negated))
        return parts
