"""Checks objects against the types that were generated for them."""

import json
import types
import typing

import types_of_kinds


def mistakes(kind, value, path):
    """The places where the value does not fit the type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is typing.Any:
        return []
    if origin in (typing.NotRequired, typing.Required):
        return mistakes(arguments[0], value, path)
    if origin in (types.UnionType, typing.Union):
        found = [mistakes(one, value, path) for one in arguments]
        return [] if [] in found else [f"{path}: {value!r} is not {kind}"]
    if origin is typing.Literal:
        return [] if value in arguments else [f"{path}: {value!r} is not one of {arguments}"]
    if origin is list:
        if not isinstance(value, list):
            return [f"{path}: {value!r} is no list"]
        return [it for at, item in enumerate(value) for it in mistakes(arguments[0], item, f"{path}[{at}]")]
    if origin is dict:
        if not isinstance(value, dict):
            return [f"{path}: {value!r} is no object"]
        return [it for key, item in value.items() for it in mistakes(arguments[1], item, f"{path}.{key}")]
    if typing.is_typeddict(kind):
        return mistakes_in_fields(kind, value, path)
    if kind is float:
        kind = (int, float)
    is_right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return [] if is_right else [f"{path}: {value!r} is not {kind}"]


def comment_of(kind):
    """The comment of a type that is no class."""
    before, _, found = source.partition(f"\n{kind.__name__} = TypedDict(")
    return before.rpartition("\n\n\n")[2] if found else ""


def mistakes_in_fields(kind, value, path):
    if not isinstance(value, dict):
        return [f"{path}: {value!r} is no object"]
    hints = typing.get_type_hints(kind, include_extras=True)
    found = []
    for key, hint in hints.items():
        if key in value:
            found += mistakes(hint, value[key], f"{path}.{key}")
        elif typing.get_origin(hint) is not typing.NotRequired:
            found.append(f"{path}: {key} is missing")
    is_open = "other fields" in (kind.__doc__ or comment_of(kind))
    if not is_open:
        found += [f"{path}: {key} is unknown" for key in value if key not in hints]
    return found


with open("types_of_kinds.py", encoding="utf-8") as file:
    source = file.read()
with open("objects", encoding="utf-8") as lines:
    checked = 0
    for line in lines:
        case = json.loads(line)
        found = mistakes(getattr(types_of_kinds, case["type"]), case["object"], case["type"])
        assert not found, f"{found}\n{line}"
        checked += 1
    assert checked > 0
