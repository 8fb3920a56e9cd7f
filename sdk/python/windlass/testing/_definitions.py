"""Validation and defaults of the kinds that a test defines.

It supports structural schemas as far as unit tests need them, but not `format`, `allOf` and similar keywords, list
types, and rules in CEL.

"""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from .._objects import Object
from ._yaml import documents

_HEAD = ("apiVersion", "kind", "metadata")
_NAMES = {
    "boolean": "a boolean",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "array": "a list",
    "object": "an object",
}


class Definitions:
    """The schemas of the defined kinds."""

    def __init__(self) -> None:
        self._schemas: dict[tuple[str, str], Object] = {}

    def __bool__(self) -> bool:
        return bool(self._schemas)

    def add(self, yaml: str) -> None:
        """Adds the kinds of CustomResourceDefinitions."""
        found = 0
        for document in documents(yaml):
            spec = document.get("spec") or {}
            for version in spec.get("versions") or ():
                schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
                self._schemas[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
                found += 1
        if not found:
            raise ValueError(f"there is no CustomResourceDefinition with versions in:\n{yaml}")

    @property
    def kinds(self) -> set[tuple[str, str]]:
        """The defined kinds, as `apiVersion` and `kind`."""
        return set(self._schemas)

    def _schema(self, obj: Object) -> Object:
        return self._schemas.get((obj.get("apiVersion", ""), obj.get("kind", "")), {})

    def fill(self, obj: Object) -> None:
        """Fills in the defaults of the object's kind."""
        _fill(self._schema(obj), obj)

    def misfits(self, obj: Object, subresource: str | None, *, strict: bool) -> list[str]:
        """The errors of an object, as an API server reports them. For a write to the status, only the errors of the status."""
        schema = self._schema(obj)
        if not schema:
            return []
        judge = _Judge(strict)
        judge.value(schema, obj, "")
        return [text for text in judge.found if subresource != "status" or text.startswith(".status")]


def _fill(schema: Object, value: Any) -> None:
    """Fills in defaults. A null in a field that is not nullable counts as absent."""
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        for name, prop in properties.items():
            if name in value and value[name] is None and not prop.get("nullable"):
                del value[name]
            if name not in value and "default" in prop:
                value[name] = copy.deepcopy(prop["default"])
        others = schema.get("additionalProperties")
        for name, field in value.items():
            _fill(properties.get(name) or (others if isinstance(others, dict) else {}), field)
    elif isinstance(value, list):
        for item in value:
            _fill(schema.get("items") or {}, item)


class _Judge:
    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.found: list[str] = []

    def say(self, path: str, what: str) -> None:
        self.found.append(f"{path}: {what}")

    def value(self, schema: Object, value: Any, path: str) -> None:
        if value is None and schema.get("nullable"):
            return
        found, wanted = _type_of(value), _wanted(schema)
        if wanted and found not in wanted and not (found == "integer" and wanted == ["number"]):
            self.say(path, f"{_NAMES.get(found, found)} where {' or '.join(_NAMES.get(name, name) for name in wanted)} is wanted")
            return
        allowed = schema.get("enum")
        # JSON distinguishes true from 1, Python's `==` does not.
        if allowed is not None and json.dumps(value) not in map(json.dumps, allowed):
            self.say(path, f"{json.dumps(value)} is not one of {', '.join(map(json.dumps, allowed))}")
        if isinstance(value, str):
            self.size(schema, "Length", len(value), path)
            if "pattern" in schema and not re.search(schema["pattern"], value):
                self.say(path, f"{json.dumps(value)} does not match {schema['pattern']}")
        elif isinstance(value, list):
            self.size(schema, "Items", len(value), path)
            for place, item in enumerate(value):
                self.value(schema.get("items") or {}, item, f"{path}[{place}]")
        elif isinstance(value, dict):
            self.size(schema, "Properties", len(value), path)
            self.fields(schema, value, path)
        elif found in ("integer", "number"):
            self.number(schema, value, path)

    def fields(self, schema: Object, fields: Object, path: str) -> None:
        for name in schema.get("required") or ():
            if name not in fields:
                self.say(f"{path}.{name}", "is required")
        is_resource = not path or schema.get("x-kubernetes-embedded-resource")
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        knows_all = others is True or schema.get("x-kubernetes-preserve-unknown-fields")
        for name, field in fields.items():
            at = f"{path}.{name}"
            if is_resource and name in _HEAD:
                continue
            if name in properties:
                self.value(properties[name], field, at)
            elif isinstance(others, dict):
                self.value(others, field, at)
            elif self.strict and not knows_all:
                self.say(at, "there is no such field")

    def number(self, schema: Object, number: float, path: str) -> None:
        least, most = schema.get("minimum"), schema.get("maximum")
        if least is not None and (number < least or (number == least and schema.get("exclusiveMinimum"))):
            self.say(path, f"{number} is too small for the minimum {least}")
        if most is not None and (number > most or (number == most and schema.get("exclusiveMaximum"))):
            self.say(path, f"{number} is too large for the maximum {most}")

    def size(self, schema: Object, keyword: str, size: int, path: str) -> None:
        """Checks the limits whose keywords end in `keyword`, such as minLength and maxLength."""
        least, most = schema.get(f"min{keyword}"), schema.get(f"max{keyword}")
        if least is not None and size < least:
            self.say(path, f"its size is {size}, and min{keyword} is {least}")
        if most is not None and size > most:
            self.say(path, f"its size is {size}, and max{keyword} is {most}")


def _wanted(schema: Object) -> list[str]:
    """The types that a schema allows; empty: any."""
    if schema.get("x-kubernetes-int-or-string"):
        return ["integer", "string"]
    return [schema["type"]] if "type" in schema else []


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        # JSON does not distinguish 1.0 from 1.
        return "integer" if value == int(value) else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
